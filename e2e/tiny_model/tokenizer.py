"""Trains the byte-level BPE tokenizer of the tiny model and writes it as `tokenizer.json` wants it.

Byte-level BPE gives every byte a printable character, splits text into words, and merges the pair
that is seen most often until the vocabulary is full (Sennrich et al., 2016; the byte alphabet is that
of GPT-2). The training text is short, so ties are frequent: the smaller pair wins, and the result is
the same on every machine.

Rejected: the `tokenizers` library, a compiled dependency for forty lines that run once.
"""

import itertools
import re
from collections import Counter
from typing import Any

SPECIAL_TOKENS = ("<|begin|>", "<|end|>", "<|role|>")
BEGIN, END, ROLE = SPECIAL_TOKENS

CHAT_TEMPLATE = (
    "{{ '" + BEGIN + "' }}"
    "{% for message in messages %}"
    "{{ '" + ROLE + "' + message['role'] + '\\n' + message['content'] + '" + END + "' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + ROLE + "assistant\\n' }}{% endif %}"
)

_TEXT = """
An inference fleet is warm when a request that comes now starts within two seconds. The weights are
on the node, the image is on the node, and the engine has given one real token. A queue that has no
bound hides the lack of capacity until every client waits too long, so the queue is bounded and a
refused client hears when to come back. A new version of the model starts beside the old one, answers
a few requests, and takes the rest when it is as good. If it is worse, the old one goes on. A stuck
instance and a lack of instances are different things: one needs a restart, the other needs a node.
Good operators say what they did, why they did it, and what a person should change.
Hello! What is the weather like today? I am a small model with two layers, and I know nothing at all.
"""
_WORD = re.compile(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+")

Pair = tuple[str, str]


def byte_alphabet() -> list[str]:
    """The character that stands for each byte: itself where printable, else one from 256 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    moved = {byte: chr(256 + place) for place, byte in enumerate(others)}
    return [moved.get(byte, chr(byte)) for byte in range(256)]


def readable_bytes() -> set[int]:
    """Bytes that are a whole character of plain text by themselves."""
    return {0x0A, *range(0x20, 0x7F)}


def train(merges_wanted: int) -> list[Pair]:
    """The merges in the order in which the tokenizer applies them."""
    alphabet = byte_alphabet()
    words = Counter(tuple(alphabet[byte] for byte in word.encode()) for word in _WORD.findall(_TEXT))
    merges: list[Pair] = []
    while len(merges) < merges_wanted:
        pairs: Counter[Pair] = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        merged: Counter[tuple[str, ...]] = Counter()
        for word, count in words.items():
            merged[_merge(word, best)] += count
        words = merged
    return merges


def _merge(word: tuple[str, ...], pair: Pair) -> tuple[str, ...]:
    parts: list[str] = []
    for part in word:
        if parts and (parts[-1], part) == pair:
            parts[-1] += part
        else:
            parts.append(part)
    return tuple(parts)


def vocabulary(merges: list[Pair]) -> dict[str, int]:
    """Token to number: special tokens first, then bytes, then merges."""
    tokens = [*SPECIAL_TOKENS, *byte_alphabet(), *(left + right for left, right in merges)]
    return {token: number for number, token in enumerate(tokens)}


def tokenizer_json(merges: list[Pair]) -> dict[str, Any]:
    """Content of `tokenizer.json`, the format of the `tokenizers` library."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    numbers = vocabulary(merges)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": numbers[token],
                "content": token,
                "special": True,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
            }
            for token in SPECIAL_TOKENS
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": numbers,
            "merges": [list(pair) for pair in merges],
        },
    }


def tokenizer_config() -> dict[str, Any]:
    """Content of `tokenizer_config.json`: what the tokenizer is and how a chat becomes text."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "pad_token": END,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
