"""What is this, if it is not a model that can be served?

People give the address of a GGUF file, a diffusion pipeline, an adapter or a tokenizer as readily as
that of a model, and all of them look alike until the engine has started and failed. The names of the
files tell most of them apart; each gets one sentence that says what it is and what is needed.
"""

from fnmatch import fnmatchcase

from stoker.api.reasons import TerminationClass
from stoker.core.model import JsonObject
from stoker.fetch.errors import FetchError

_NOT_FOR_INFERENCE = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
"""As vLLM's `filter_files_not_needed_for_inference`."""
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")
_A_MODEL = "Use a language model's folder or repository, with config.json and safetensors files."


def is_pickled(path: str) -> bool:
    """Whether a file holds pickled PyTorch weights that a server would load."""
    return path.endswith((".bin", ".pt")) and not path.endswith(_NOT_FOR_INFERENCE)


def gguf(name: str) -> FetchError:
    """What to say of weights for llama.cpp."""
    return _not_a_model(
        f"{name} is GGUF, the format of llama.cpp, which holds no config.json and can't be computed with",
        fix="Use the model's own repository, with config.json and safetensors files.",
    )


def without_config(paths: list[str], *, name: str, adapter: JsonObject) -> FetchError:
    """Why files without a config.json among them are no model; `adapter` is their adapter_config.json."""
    if "adapter_config.json" in paths:
        return _adapter(adapter.get("base_model_name_or_path"), name=name)
    if "model_index.json" in paths:
        return _diffusion(name, "it has a model_index.json")
    if any(path.lower().endswith(".gguf") for path in paths):
        return gguf(name)
    if "params.json" in paths:
        return _not_a_model(
            f"{name} holds a model in Mistral's own format (params.json) and no config.json",
            fix="Use a repository of the same model with config.json.",
        )
    if below := next((path for path in paths if fnmatchcase(path, "*/config.json")), None):
        folder = below.removesuffix("/config.json")
        return FetchError(
            TerminationClass.WEIGHTS_MISSING,
            f"{name} has no config.json, but one in `{folder}`",
            fix="Name the folder that holds config.json itself.",
        )
    if any(path in _TOKENIZER for path in paths):
        return _not_a_model(f"{name} holds a tokenizer and no model", fix=_A_MODEL)
    return FetchError(
        TerminationClass.WEIGHTS_MISSING,
        f"{name} has no config.json",
        fix="Name the folder that holds config.json itself.",
    )


def check_config(config: JsonObject, paths: list[str], *, name: str, weights_needed: bool) -> None:
    """Raise `FetchError` where config.json belongs to something else than a model to be served."""
    if "_diffusers_version" in config or "_class_name" in config:
        raise _diffusion(name, f"its config.json describes a {config.get('_class_name', 'part of one')}")
    top = [path for path in paths if "/" not in path]
    if any(path.endswith(".safetensors") or is_pickled(path) for path in top):
        return
    if any(path.lower().endswith(".gguf") for path in paths):
        raise gguf(name)
    if weights_needed:
        beside = " and a tokenizer" if any(path in _TOKENIZER for path in top) else ""
        raise FetchError(
            TerminationClass.WEIGHTS_MISSING,
            f"{name} holds config.json{beside}, and no weights (*.safetensors or *.bin) beside it",
            fix=_A_MODEL,
        )


def _adapter(base: object, *, name: str) -> FetchError:
    if not isinstance(base, str) or not base:
        return _not_a_model(
            f"{name} is an adapter and no model, and it does not name its base model",
            fix="Put the base model into `model.uri`, and this under `model.adapters`.",
        )
    return _not_a_model(
        f"{name} is an adapter for `{base[:200]}` and no model of its own",
        fix=f"Put the base model `{base[:200]}` into `model.uri`, and this under `model.adapters`.",
    )


def _diffusion(name: str, why: str) -> FetchError:
    return _not_a_model(f"{name} is a diffusion pipeline and no language model: {why}", fix=_A_MODEL)


def _not_a_model(message: str, *, fix: str) -> FetchError:
    return FetchError(TerminationClass.MODEL_UNSUPPORTED, message, fix=fix)
