"""What this instance can say about itself, for probes and for `/state`."""

import logging
from typing import Any

from stoker_serving import capacity
from stoker_serving.capacity import CacheConfig
from stoker_serving.engine_log import EngineLog
from stoker_serving.liveness import Liveness
from stoker_serving.probes import Page
from stoker_serving.shared_state import SharedState
from stoker_serving.stages import Stage, StageClock
from stoker_serving.termination import Failure, Reason
from stoker_serving.warm_up import Served
from stoker_serving.weights import Weights

log = logging.getLogger(__name__)


class Instance:
    """The facts, as the supervisor finds them out."""

    def __init__(self, *, revision: str, shared: SharedState, liveness: Liveness) -> None:
        self.revision = revision
        self.shared = shared
        self.liveness = liveness
        self.clock = StageClock()
        self.weights: Weights | None = None
        self.served: Served | None = None
        self.engine_version = ""
        self.log: EngineLog | None = None
        self.cache: CacheConfig | None = None
        self.visible_bytes: int | None = None
        """Memory of the smallest accelerator, or of the NUMA node of a CPU engine."""
        self.measuring = False
        """Whether it serves, and a reading of its capacity is still to come."""
        self.waiting_for = ""
        """Why it does not serve yet, in a sentence; empty when nothing is wrong."""

    def pages(self) -> dict[str, Page]:
        """What the probe server answers."""
        return {
            "/startupz": self.startup,
            "/readyz": self.ready,
            "/livez": self.alive,
            "/state": lambda: (True, self.state()),
        }

    def enter(self, stage: Stage) -> None:
        """Moves on to `stage`, if it is further than the present one, and says so in the log."""
        if self.clock.enter(stage):
            past = self.clock.report()[-2]
            log.info("stage %s, after %s took %.1f s", stage.value, past["name"], past["seconds"])

    def stuck(self) -> Failure:
        """What to say of an engine that is stuck."""
        return Failure(
            reason=Reason.ENGINE_STUCK,
            message=(
                f"The engine had {self.shared.in_flight} requests running and gave no token for "
                f"{self.liveness.stalled_s:.0f} s; {self.liveness.bound_s:.0f} s is the most at this load."
            ),
            fix="If it happens again, keep the container's log and report it to the engine's project.",
        )

    @property
    def serving(self) -> bool:
        """Whether it takes requests and wants more."""
        return self.clock.stage is Stage.SERVING

    def startup(self) -> tuple[bool, dict[str, Any]]:
        """Yes once it has served; until then how far it is."""
        return self.clock.stage in (Stage.SERVING, Stage.DRAINING), self._progress()

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Yes while it serves and does not leave."""
        return self.serving, self._progress()

    def alive(self) -> tuple[bool, dict[str, Any]]:
        """No only if the engine owes tokens and gives none; see `liveness`."""
        return not self.liveness.stuck, {
            "stalledSeconds": round(self.liveness.stalled_s, 1),
            "boundSeconds": round(self.liveness.bound_s, 1),
            "inFlight": self.shared.in_flight,
        }

    def _progress(self) -> dict[str, Any]:
        return {
            "stage": self.clock.stage.value,
            "seconds": round(self.clock.seconds, 1),
            "progress": self.log.progress if self.log else "",
            "waitingFor": self.waiting_for,
        }

    def state(self) -> dict[str, Any]:
        """Everything, for the operator and for people."""
        return {
            "ready": self.serving,
            "draining": self.clock.stage is Stage.DRAINING,
            "stage": self.clock.stage.value,
            "stages": self.clock.report(),
            "waitingFor": self.waiting_for,
            "revision": self.revision,
            "modelVersion": self.weights.model_version if self.weights else "",
            "weightsDigest": self.weights.digest if self.weights else "",
            "servedModels": list(self.served.names) if self.served else [],
            "inFlight": self.shared.in_flight,
            "engine": {
                "name": self.served.owner if self.served else "",
                "version": self.engine_version,
            },
            "capacity": self._capacity(),
            "measuring": self.measuring,
        }

    def _capacity(self) -> dict[str, Any] | None:
        if self.log is None:
            return None
        return capacity.report(
            self.log,
            self.cache,
            max_model_len=self.served.max_model_len if self.served else None,
            visible_bytes=self.visible_bytes,
        )
