"""Which files of a Hugging Face repository does an inference server need?

Repositories often hold the same weights several times: as safetensors, as pickled PyTorch files,
as the author's original checkpoint and for other frameworks. Fetching all of them doubles or
triples the time until the first token. The rule, in one place:

1. Never: files for git, and weights or exports of other frameworks (`_OTHER_FRAMEWORKS`).
2. Of the weights, the first form that is there: safetensors, then pickled PyTorch files, then GGUF.
3. With `model*.safetensors` beside a `config.json`, no `consolidated*.safetensors`, which are the
   same weights in Mistral's own format.

All else (configuration, tokenizer, templates, code, licence) is small and stays. Other sources are
folders that someone made for serving: they are taken whole, so that a digest made by hand agrees.

Rejected: vLLM's own choice at load time, as it needs the repository on disk first; a list of
wanted names, as every new tokenizer or processor brings a file nobody listed.
"""

from fnmatch import fnmatchcase

_OTHER_FRAMEWORKS = (
    *(f"{folder}/*" for folder in ("original", "onnx", "openvino", "coreml", "tflite", "runs")),
    *(f"*.{ending}" for ending in ("h5", "msgpack", "ot", "onnx", "onnx_data", "tflite", "ckpt", "mlmodel")),
)
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.bin.index.json")
_GGUF = ("*.gguf",)


def needed(paths: list[str]) -> list[str]:
    """The paths that a server needs, in the order given.

    Example: `config.json, model.safetensors, pytorch_model.bin, README.md`
    -> all but `pytorch_model.bin`.
    """
    kept = [path for path in paths if not path.startswith(".git") and not _matches(path, _OTHER_FRAMEWORKS)]
    if _any_matches(kept, ("*.safetensors",)):
        unwanted: tuple[str, ...] = (*_PICKLED, *_GGUF)
    elif _any_matches(kept, _PICKLED):
        unwanted = _GGUF
    else:
        unwanted = ()
    if "config.json" in kept and _any_matches(kept, ("model*.safetensors",)):
        unwanted = (*unwanted, "consolidated*.safetensors")
    return [path for path in kept if not _matches(path, unwanted)]


def _any_matches(paths: list[str], patterns: tuple[str, ...]) -> bool:
    return any(_matches(path, patterns) for path in paths)


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)
