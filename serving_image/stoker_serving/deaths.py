"""Why the engine ended: a class, the engine's own words, and what to do.

The kernel's word comes first (it killed a process of this container for memory), then the engine's
last words, then the exit code. The words are looked for in the order of the table, because a death
speaks more than once: an out-of-memory error in a worker ends as "engine core initialization failed".
Each row was taken from a real log of vLLM 0.32, kept in the tests, but for the accelerator's memory: those
words are from its source.
"""

import re
import signal
from dataclasses import dataclass

from stoker_serving.stages import Stage
from stoker_serving.termination import Failure, Reason

_QUOTE_CHARACTERS = 600
_LESS_MEMORY = (
    "Lower `model.contextLength` or `--max-num-seqs`, use a quantized model, or an accelerator with more "
    "memory."
)
_MORE_HOST_MEMORY = (
    "Raise the memory limit in `podTemplate.resources`, or let the engine use less: `--max-num-seqs`, "
    "`model.contextLength`, on CPU also `VLLM_CPU_KVCACHE_SPACE` in `engine.env`."
)
_OTHER_MODEL = "Use an `engine.image` whose vLLM knows this model, or another form of the model."
_CORRECT_ARGUMENTS = "Correct `engine.args`, or the field of `model` that the engine's words are about."
_COMPLETE_MODEL = "Point `model.uri` at a folder with config.json, the tokenizer's files and *.safetensors."
_FETCH_AGAIN = "Compare the model's files with the source's digests; delete the pod to fetch them again."
_READ_LOG = "Read the whole story in the log of the ended container: `kubectl logs POD --previous`."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sign:
    pattern: re.Pattern[str]
    reason: Reason
    fix: str


def _sign(pattern: str, reason: Reason, fix: str) -> _Sign:
    return _Sign(pattern=re.compile(pattern), reason=reason, fix=fix)


_MEMORY_SIGNS = (
    _sign(
        r"CUDA out of memory|HIP out of memory|OutOfMemoryError"
        r"|No available memory for the cache blocks"
        r"|larger than the available KV cache memory"
        r"|less than desired GPU memory utilization",
        Reason.OUT_OF_MEMORY,
        _LESS_MEMORY,
    ),
    _sign(
        r"[Cc]an(?:'t|not) allocate memory|^MemoryError"
        r"|less than (?:requested memory for kv|desired CPU memory utilization)",
        Reason.OUT_OF_MEMORY,
        _MORE_HOST_MEMORY,
    ),
)

_START_SIGNS = (
    _sign(
        r"architectures .* are not supported|does not recognize this architecture"
        r"|Unknown quantization method|quantization .* not supported",
        Reason.MODEL_UNSUPPORTED,
        _OTHER_MODEL,
    ),
    _sign(
        r"Invalid repository ID or local directory|Repo id must be in the form"
        r"|Cannot find an appropriate cached snapshot|Cannot find any model weights"
        r"|Couldn't instantiate the backend tokenizer|No adapter found for",
        Reason.WEIGHTS_MISSING,
        _COMPLETE_MODEL,
    ),
    _sign(r"SafetensorError", Reason.WEIGHTS_CORRUPT, _FETCH_AGAIN),
    # vLLM checks its configuration with pydantic, and these are the words of every check that failed.
    _sign(r"^\S+: error: |^ *Value error, ", Reason.BAD_ARGUMENTS, _CORRECT_ARGUMENTS),
)

_ERROR = re.compile(r"^[\w.]*(Error|Exception|Interrupt)(: |$)")
_CONSEQUENCE = re.compile(r"See (stack trace|root cause)|check the stack trace|cancelled")
"""Errors that only say that another process had one."""
_ENDED = re.compile(r"(died|exited) unexpectedly")
_PYDANTIC_TAIL = re.compile(r" \[type=\w+, input_value=.*")


def classify(*, exit_code: int, last_words: list[str], killed_for_memory: bool, stage: Stage) -> Failure:
    """What to say about an engine that ended by itself; a negative exit code is a signal's number."""
    if killed_for_memory:
        return Failure(
            reason=Reason.OUT_OF_MEMORY,
            message=f"The kernel killed the engine in stage {stage}: the container reached its memory limit.",
            fix=_MORE_HOST_MEMORY,
        )
    serving = stage in (Stage.SERVING, Stage.DRAINING)
    # An engine that served has got its model and arguments right; the words may be about a client's request.
    for sign in _MEMORY_SIGNS if serving else (*_MEMORY_SIGNS, *_START_SIGNS):
        words = next((words for words in last_words if sign.pattern.search(words)), None)
        if words is not None:
            message = f"The engine ended in stage {stage}: {_quote(words)}"
            return Failure(reason=sign.reason, message=message, fix=sign.fix)
    ended = f"exit code {exit_code}" if exit_code >= 0 else f"signal {signal.Signals(-exit_code).name}"
    return Failure(
        reason=Reason.ENGINE_CRASHED,
        message=f"The engine ended in stage {stage} with {ended}: {_last_error(last_words)}",
        fix=_READ_LOG,
    )


def _last_error(last_words: list[str]) -> str:
    """The last error that is no consequence of another, else which process ended, else the last line."""
    errors = [words for words in last_words if _ERROR.match(words)]
    causes = [words for words in errors if not _CONSEQUENCE.search(words)]
    ended = [words for words in last_words if _ENDED.search(words)]
    spoken = causes or ended or errors or [words for words in last_words if words.strip()]
    return _quote(spoken[-1]) if spoken else "it said nothing."


def _quote(words: str) -> str:
    return _PYDANTIC_TAIL.sub("", words).strip()[:_QUOTE_CHARACTERS]
