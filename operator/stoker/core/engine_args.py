"""Which arguments does the engine of an instance get?

The one place that knows vLLM's command line. Fields of the spec become arguments here, the user's
own `engine.args` come after them, and one that the user gives takes the place of ours. Arguments
that another field says, or that would cut the instance off from its Service, are refused.

Performance profiles carry the names of vLLM's own `--performance-mode`, and use it. `balanced`
sets nothing: vLLM chooses the batch from the GPU's memory (`EngineArgs.get_batch_defaults`: 256
sequences, and 1024 from 70 GiB on). `throughput` doubles that, inside vLLM. `interactivity` only
chooses other kernels and CUDA graphs there, so we also hold the batch to the size that vLLM's
tuning guide gives for a good inter-token latency.

Rejected: numbers of our own for each GPU (vLLM has them, and they move with its versions).
"""

from collections.abc import Sequence

from stoker.api.instance_spec import CPU, Performance
from stoker.api.names import HTTP_PORT, WEIGHTS_PATH
from stoker.api.reasons import Reason
from stoker.api.spec import InferenceServiceSpec
from stoker.core.model import Refusal

MODEL_PATH = f"{WEIGHTS_PATH}/model"
ADAPTERS_PATH = f"{WEIGHTS_PATH}/adapters"

_PROFILES: dict[Performance, list[list[str]]] = {
    Performance.BALANCED: [],
    # vLLM docs/configuration/optimization.md: "Smaller values (e.g., 2048) achieve better
    # inter-token latency"; 128 is `SchedulerConfig.DEFAULT_MAX_NUM_SEQS`.
    Performance.INTERACTIVITY: [
        ["--performance-mode", "interactivity"],
        ["--max-num-batched-tokens", "2048"],
        ["--max-num-seqs", "128"],
    ],
    Performance.THROUGHPUT: [["--performance-mode", "throughput"]],
}

_LONG_NAMES = {
    "-tp": "--tensor-parallel-size",
    "-q": "--quantization",
}
"""vLLM's short forms of arguments that we set."""

_OURS_ALONE = {
    "--model": "`model.uri` says which weights are served",
    "--served-model-name": "`model.name` and `model.aliases` say it",
    "--host": "instances listen on all addresses",
    "--port": f"instances listen on port {HTTP_PORT}",
    "--uds": "instances listen on a port",
    "--ssl-keyfile": "instances speak plain HTTP inside the cluster",
    "--ssl-certfile": "instances speak plain HTTP inside the cluster",
}


def engine_args(spec: InferenceServiceSpec, *, service_name: str) -> list[str]:
    """The engine container's `args`.

    Example: a service `chat` with `args: [--max-num-seqs, "64"]` and nothing else ->
    `--model /weights/model --served-model-name chat --host 0.0.0.0 --port 8000 --max-num-seqs 64`.
    """
    given = {_flag(argument) for argument in spec.engine.args}
    ours = [words for words in _our_arguments(spec, service_name=service_name) if words[0] not in given]
    return [word for words in ours for word in words] + list(spec.engine.args)


def refuse_args(args: Sequence[str]) -> Refusal | None:
    """Why these arguments of a user are not taken; None when they are."""
    for argument in args:
        if why := _OURS_ALONE.get(_flag(argument)):
            return Refusal(
                reason=Reason.INVALID_SPEC,
                message=f"`engine.args`: {argument.partition('=')[0]} cannot be set, as {why}; remove it",
            )
    return None


def served_names(spec: InferenceServiceSpec, *, service_name: str) -> list[str]:
    """Names that clients may send as `model`, the first one for answers; adapters come on top."""
    first = spec.model.name or service_name
    return [first, *sorted(set(spec.model.aliases) - {first})]


def _our_arguments(spec: InferenceServiceSpec, *, service_name: str) -> list[list[str]]:
    model, accelerator = spec.model, spec.accelerator
    arguments = [
        ["--model", MODEL_PATH],
        ["--served-model-name", *served_names(spec, service_name=service_name)],
        ["--host", "0.0.0.0"],
        ["--port", str(HTTP_PORT)],
        *_PROFILES[spec.engine.performance],
    ]
    if accelerator.type != CPU and accelerator.count > 1:
        arguments.append(["--tensor-parallel-size", str(accelerator.count)])
    if model.context_length is not None:
        arguments.append(["--max-model-len", str(model.context_length)])
    if model.quantization:
        arguments.append(["--quantization", model.quantization])
    if model.kv_cache_dtype:
        arguments.append(["--kv-cache-dtype", model.kv_cache_dtype])
    if model.adapters:
        modules = [f"{a.name}={ADAPTERS_PATH}/{a.name}" for a in sorted(model.adapters, key=lambda a: a.name)]
        arguments += [["--enable-lora"], ["--lora-modules", *modules]]
    return arguments


def _flag(argument: str) -> str:
    """The long name of the argument that a word sets, in vLLM's spelling; the word itself if it sets none.

    vLLM's parser takes `--max_num_seqs` for `--max-num-seqs`, and `--no-X` for a switch `--X`.
    """
    name = argument.partition("=")[0]
    if not name.startswith("--"):
        return _LONG_NAMES.get(name, name)
    name = name.replace("_", "-")
    return f"--{name.removeprefix('--no-')}" if name.startswith("--no-") else name
