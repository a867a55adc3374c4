"""What the engine's log lines say about its start, and its last words.

vLLM tells its progress nowhere but in its log, so this follows a few lines that have been stable over
many versions; where one is missing, only a stage or a number is missing.
"""

import re
from collections import deque

from stoker_serving.stages import Stage

_KEPT_LINES = 1000
"""A start that fails prints a traceback in each of its processes, and the first one has the cause."""

_SENDER = re.compile(r"^\([\w-]+(?: [\w=-]+)? pid=\d+\) ?")
_HEADER = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d (?:\[[^\]]*\] ?)?")
_LOADING = re.compile(r"Starting to load model|Loading safetensors checkpoint|Loading weights|Loading model")
_PROGRESS = re.compile(r"Loading .*?:\s+\d+% Completed|Capturing .*?:\s+\d+%")
_KV_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")
_WEIGHTS = re.compile(r"Model loading took ([\d.]+) GiB")
_KV_BYTES = re.compile(
    r"Available KV cache memory: ([\d.]+) GiB|reserved ([\d.]+) GiB memory for KV Cache"
    r"|(?:Explicitly|Auto) set \(([\d.]+)/[\d.]+\) GiB for KV cache"
)
_MEMORY_NODE = re.compile(r"GiB for KV cache on node (\d+)")
_GIB = 2**30


def words_of(line: str) -> str:
    """The line without the process, level, time and place that vLLM puts before it."""
    return _HEADER.sub("", _SENDER.sub("", line.rstrip()))


class EngineLog:
    """Takes the engine's output as it comes and keeps what matters of it."""

    def __init__(self) -> None:
        self._partial = b""
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.stage = Stage.STARTING
        self.progress = ""
        """The last line that told how far a long step is."""
        self.kv_cache_tokens: int | None = None
        self.max_concurrency: float | None = None
        self.weights_bytes: int | None = None
        """Weights of the rank that has most, to a hundredth of a GiB."""
        self.kv_bytes: int | None = None
        """KV cache of the rank that has least, to a hundredth of a GiB."""
        self.memory_node: int | None = None
        """NUMA node that a CPU engine is bound to; None for an engine on accelerators."""

    def feed(self, output: bytes) -> None:
        """Takes in a piece of output; a progress bar ends its lines with a carriage return."""
        *lines, self._partial = re.split(rb"[\r\n]+", self._partial + output)
        for line in lines:
            if line:
                self._line(words_of(line.decode(errors="replace")))

    def last_words(self) -> list[str]:
        """The last lines, oldest first, the unfinished one among them."""
        return [*self._lines, words_of(self._partial.decode(errors="replace"))]

    def _line(self, words: str) -> None:
        self._lines.append(words)
        if _LOADING.search(words):
            self.stage = Stage.LOADING
        if _PROGRESS.search(words):
            self.progress = words[:200]
        if tokens := _KV_TOKENS.search(words):
            self.kv_cache_tokens = int(tokens[1].replace(",", ""))
        if concurrency := _CONCURRENCY.search(words):
            self.max_concurrency = float(concurrency[1])
        if weights := _WEIGHTS.search(words):
            self.weights_bytes = max(self.weights_bytes or 0, _bytes(weights[1]))
        if kv := _KV_BYTES.search(words):
            found = _bytes(kv[1] or kv[2] or kv[3])
            self.kv_bytes = found if self.kv_bytes is None else min(self.kv_bytes, found)
        if node := _MEMORY_NODE.search(words):
            self.memory_node = int(node[1])


def _bytes(gib: str) -> int:
    return round(float(gib) * _GIB)
