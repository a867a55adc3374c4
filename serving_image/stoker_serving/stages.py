"""How far the start of an instance is, and how long each stage took."""

import enum
import time
from collections.abc import Callable
from typing import Any


class Stage(enum.StrEnum):
    """Stages in the order in which an instance passes them."""

    WEIGHTS = "Weights"
    """The weights on the volume are verified."""
    STARTING = "Starting"
    """The engine's process starts: imports, configuration, devices."""
    LOADING = "Loading"
    """The engine loads weights, compiles, and measures its KV cache."""
    WARMING_UP = "WarmingUp"
    """The engine answers, and its first real token is awaited."""
    SERVING = "Serving"
    DRAINING = "Draining"


_ORDER = list(Stage)


class StageClock:
    """The current stage and the time spent in each; stages only go forward."""

    def __init__(self, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self.stage = Stage.WEIGHTS
        self._entered_s = now_s()
        self._past: list[tuple[Stage, float]] = []

    def enter(self, stage: Stage) -> bool:
        """Moves on to `stage` and says whether that was news; a stage already passed is not."""
        if _ORDER.index(stage) <= _ORDER.index(self.stage):
            return False
        now_s = self._now_s()
        self._past.append((self.stage, now_s - self._entered_s))
        self.stage = stage
        self._entered_s = now_s
        return True

    @property
    def seconds(self) -> float:
        """Time in the current stage so far."""
        return self._now_s() - self._entered_s

    def report(self) -> list[dict[str, Any]]:
        """Every stage so far with its seconds, the current one last."""
        stages = [*self._past, (self.stage, self.seconds)]
        return [{"name": stage.value, "seconds": round(seconds, 3)} for stage, seconds in stages]
