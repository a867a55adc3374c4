import hashlib
import json
import struct
import subprocess

from e2e.tiny_model import make, tokenizer

DIGEST = "sha256:bddc5baf40ca7b6d8600959b1961a36c30fbd1d2970e12093584b7fec09f6da9"
"""Of seed 0. It may change only together with the model; tests and examples name it."""


def test_the_same_bytes_on_every_machine(tmp_path):
    assert make.make(tmp_path) == DIGEST


def test_another_seed_is_another_version(tmp_path):
    assert make.make(tmp_path, seed=1) != DIGEST


def test_sums_name_every_file_and_the_whole_is_small(tmp_path):
    make.make(tmp_path)
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True)
    listed = {line.split("  ")[1] for line in (tmp_path / "SHA256SUMS").read_text().splitlines()}
    assert listed == {path.name for path in tmp_path.iterdir()} - {"SHA256SUMS"}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2_000_000


def test_the_checkpoint_has_the_tensors_of_its_config(tmp_path):
    make.make(tmp_path)
    content = (tmp_path / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    assert header["model.embed_tokens.weight"]["shape"] == [512, 128]
    assert header["model.layers.1.self_attn.k_proj.weight"]["shape"] == [64, 128]
    assert header["model.layers.1.mlp.down_proj.weight"]["shape"] == [128, 256]
    assert len(header) == 3 + 9 * 2
    end = max(tensor["data_offsets"][1] for tensor in header.values())
    assert len(content) == 8 + length + end
    # 1.0 in bfloat16 is 0x3f80: the norm's weights.
    start, _ = header["model.norm.weight"]["data_offsets"]
    assert content[8 + length + start :][:2] == b"\x80\x3f"


def test_every_merge_joins_tokens_that_exist_and_the_vocabulary_is_full():
    merges = tokenizer.train(253)
    numbers = tokenizer.vocabulary(merges)
    assert sorted(numbers.values()) == list(range(512))
    known = {*tokenizer.byte_alphabet()}
    for left, right in merges:
        assert {left, right} <= known
        known.add(left + right)


def test_every_byte_has_a_character_of_its_own():
    alphabet = tokenizer.byte_alphabet()
    assert len(set(alphabet)) == 256
    assert alphabet[ord("A")] == "A"
    assert alphabet[0x20] == "Ġ"


def test_the_digest_is_that_of_the_sums(tmp_path):
    digest = make.make(tmp_path)
    sums = (tmp_path / "SHA256SUMS").read_bytes()
    assert digest == f"sha256:{hashlib.sha256(sums).hexdigest()}"
