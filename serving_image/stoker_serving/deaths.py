"""Why the engine ended: a class, the engine's own words, and what to do.

The kernel's word comes first (it killed a process of this container for memory), then the engine's
last words, then the exit code. The words are looked for in the order of the table, because a death
speaks more than once: an out-of-memory error in a worker ends as "engine core initialization failed".
Each row was taken from a real log of vLLM, kept in the tests.
"""

import re
import signal
from dataclasses import dataclass

from stoker_serving.stages import Stage
from stoker_serving.termination import Failure, Reason

_QUOTE = 600
_LESS_MEMORY = (
    "Lower `model.contextLength`, `--max-num-seqs` or `--gpu-memory-utilization`, use a quantized model, "
    "or an accelerator with more memory."
)
_MORE_HOST_MEMORY = (
    "Raise the memory limit in `podTemplate.resources`, or lower the engine's use of host memory "
    "(`VLLM_CPU_KVCACHE_SPACE`, `--swap-space`, `--max-num-seqs`)."
)
_OTHER_MODEL = (
    "Use an `engine.image` whose vLLM supports this model, or another form of the model; the message has "
    "the engine's words."
)
_CORRECT_ARGUMENTS = "Correct `engine.args` of the InferenceService; the message has the engine's words."
_CHECK_SOURCE = "Check that `model.uri` names a folder with config.json, tokenizer and *.safetensors."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sign:
    pattern: re.Pattern[str]
    reason: Reason
    fix: str


def _sign(pattern: str, reason: Reason, fix: str) -> _Sign:
    return _Sign(pattern=re.compile(pattern), reason=reason, fix=fix)


_SIGNS = (
    _sign(r"CUDA out of memory|HIP out of memory|OutOfMemoryError", Reason.OUT_OF_MEMORY, _LESS_MEMORY),
    _sign(
        r"No available memory for the cache blocks|KV cache is needed, which is larger than the available"
        r"|Free memory on device .* is less than desired|larger than the available KV cache memory",
        Reason.OUT_OF_MEMORY,
        _LESS_MEMORY,
    ),
    _sign(
        r"can't allocate memory|Cannot allocate memory|^MemoryError", Reason.OUT_OF_MEMORY, _MORE_HOST_MEMORY
    ),
    _sign(
        r"error: (unrecognized arguments|argument |ambiguous option)",
        Reason.BAD_ARGUMENTS,
        _CORRECT_ARGUMENTS,
    ),
    _sign(
        r"are not supported for now|does not recognize this architecture|Unsupported model"
        r"|Unknown quantization method|Cannot find the config file for|quantization method .* not supported",
        Reason.MODEL_UNSUPPORTED,
        _OTHER_MODEL,
    ),
)


def classify(*, exit_code: int, last_words: list[str], killed_for_memory: bool, stage: Stage) -> Failure:
    """What to say about an engine that ended by itself; a negative exit code is a signal's number."""
    if killed_for_memory:
        return Failure(
            reason=Reason.OUT_OF_MEMORY,
            message=f"The kernel killed the engine in stage {stage}: the container reached its memory limit.",
            fix=_MORE_HOST_MEMORY,
        )
    for sign in _SIGNS:
        for words in reversed(last_words):
            if sign.pattern.search(words):
                return Failure(reason=sign.reason, message=_in_stage(words, stage), fix=sign.fix)
    ended = f"exit code {exit_code}" if exit_code >= 0 else f"signal {signal.Signals(-exit_code).name}"
    words = _last_error(last_words)
    return Failure(
        reason=Reason.ENGINE_CRASHED,
        message=f"The engine ended in stage {stage} with {ended}: {words}",
        fix="Read the log of the previous container for the whole story (`kubectl logs --previous`).",
    )


def _in_stage(words: str, stage: Stage) -> str:
    return f"The engine ended in stage {stage}: {words.strip()[:_QUOTE]}"


_ERROR = re.compile(r"^[\w.]*(Error|Exception|Interrupt|error)\b.*")


def _last_error(last_words: list[str]) -> str:
    for words in reversed(last_words):
        if _ERROR.match(words):
            return words.strip()[:_QUOTE]
    return next(
        (words.strip()[:_QUOTE] for words in reversed(last_words) if words.strip()), "it said nothing."
    )
