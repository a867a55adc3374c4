"""The first process of an instance: checks weights and arguments, starts the engine, watches it, and
lets it leave in order.

    Weights -> Starting -> Loading -> WarmingUp -> Serving -> Draining

A failure ends the process: the class, the sentence and the fix go to the termination log, and
Kubernetes starts the container again with its growing back-off. The engine is never restarted in
here, as a restart that Kubernetes does not see would be in no count and no event.

Exit codes: 0 after an orderly leave, 2 for arguments that the engine does not take, 137 out of memory,
143 when told to stop before it served, 1 for everything else.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from stoker_serving import arguments as engine_arguments
from stoker_serving import deaths, termination, weights
from stoker_serving.drain import drain
from stoker_serving.engine import EngineProcess
from stoker_serving.instance import Instance
from stoker_serving.liveness import Liveness
from stoker_serving.loopback import Engine
from stoker_serving.probes import ProbeServer
from stoker_serving.reaper import Reaper
from stoker_serving.settings import Settings
from stoker_serving.shared_state import PATH_VARIABLE, SharedState
from stoker_serving.stages import Stage
from stoker_serving.termination import Failure, Fatal, Reason
from stoker_serving.watch import Watch

log = logging.getLogger(__name__)

_STOP_PATIENCE_S = 10.0
_EXIT_CODES = {Reason.BAD_ARGUMENTS: 2, Reason.OUT_OF_MEMORY: 137}
_STOPPED_EARLY = 128 + signal.SIGTERM
_DEFAULT_PORT = 8000


class Supervisor:
    """One life of an instance."""

    def __init__(self, settings: Settings, arguments: list[str], *, shared: SharedState) -> None:
        self._settings = settings
        self._arguments = arguments
        self._shared = shared
        self._names = _served_names(arguments)
        self._engine = Engine(port=_port(arguments), api_key=_api_key(arguments))
        self._known: engine_arguments.Known | None = None
        self._stop = asyncio.Event()
        self.instance = Instance(
            revision=settings.revision,
            shared=shared,
            liveness=Liveness(stuck_s=settings.stuck_s, now_s=time.monotonic()),
        )

    async def run(self) -> int:
        """Lives until told to stop or until something fails; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        probes = ProbeServer(self.instance.pages())
        await probes.start(self._settings.probe_port)
        reaper = Reaper()
        try:
            self._check()
            return await self._serve(reaper)
        except Fatal as fatal:
            return _fail(fatal.failure, self._settings.termination_log)
        finally:
            reaper.close()
            await probes.stop()

    def _check(self) -> None:
        """What can be known before the engine starts; raises Fatal."""
        if not self._names:
            raise Fatal(
                Failure(
                    reason=Reason.BAD_ARGUMENTS,
                    message="The arguments name no model.",
                    fix="Give `--model FOLDER`, and `--served-model-name NAME` for the name clients send.",
                )
            )
        if self._settings.engine_arguments is not None:
            self._known = engine_arguments.Known.load(self._settings.engine_arguments)
            engine_arguments.check(self._arguments, self._known)
        model = Path(_model(self._arguments))
        if model.is_relative_to(self._settings.weights):
            self.instance.weights = weights.verify(
                self._settings.weights, digest=self._settings.weights_digest
            )

    async def _serve(self, reaper: Reaper) -> int:
        self.instance.enter(Stage.STARTING)
        engine = self._start(reaper)
        self.instance.log = engine.log
        watching = Watch(self.instance, self._engine, names=self._names, reaper=reaper)
        watch = asyncio.create_task(watching.run(engine.log))
        stop = asyncio.create_task(self._stop.wait())
        try:
            awaited: list[asyncio.Future[Any]] = [engine.exit_code, stop, watch]
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()
            if engine.exit_code.done():
                raise await self._death(engine)
            return await self._leave(engine)
        finally:
            for task in (watch, stop):
                task.cancel()
            await engine.stop(patience_s=0)

    async def _death(self, engine: EngineProcess) -> Fatal:
        """Why an engine that nobody stopped has ended."""
        await engine.stop(patience_s=0)
        return Fatal(
            deaths.classify(
                exit_code=engine.exit_code.result(),
                last_words=engine.log.last_words(),
                killed_for_memory=engine.killed_for_memory,
                stage=self.instance.clock.stage,
            )
        )

    def _start(self, reaper: Reaper) -> EngineProcess:
        package_root = str(Path(__file__).parents[1])
        search_path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
        added = engine_arguments.added_to(self._arguments, self._known)
        command = [*self._settings.engine_command, *self._arguments, *added]
        environment = os.environ | {
            PATH_VARIABLE: str(self._shared.path),
            "PYTHONPATH": search_path,
            "PYTHONUNBUFFERED": "1",
        }
        log.info("engine: %s and %d arguments", " ".join(self._settings.engine_command), len(self._arguments))
        try:
            return EngineProcess(command, environment, reaper=reaper)
        except OSError as error:
            raise Fatal(
                Failure(
                    reason=Reason.ENGINE_CRASHED,
                    message=f"The engine's program {command[0]} can't be started: {error.strerror}.",
                    fix="Set STOKER_ENGINE_COMMAND of the image to the program that serves the OpenAI API.",
                )
            ) from error

    async def _leave(self, engine: EngineProcess) -> int:
        """Told to stop: drains an engine that serves, and just ends any other."""
        if self.instance.liveness.stuck:
            raise Fatal(self.instance.stuck())
        served = self.instance.serving
        self.instance.enter(Stage.DRAINING)
        if served:
            await self._drain(engine)
        await engine.stop(patience_s=_STOP_PATIENCE_S)
        return 0 if served else _STOPPED_EARLY

    async def _drain(self, engine: EngineProcess) -> None:
        draining = asyncio.create_task(
            drain(
                self._shared,
                endpoint_removal_s=self._settings.endpoint_removal_s,
                drain_s=self._settings.drain_s,
            )
        )
        awaited: list[asyncio.Future[int]] = [draining, engine.exit_code]
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if not draining.done():
            draining.cancel()
            raise await self._death(engine)
        if left := draining.result():
            log.warning("%d requests still ran after %g s and are cut", left, self._settings.drain_s)


def _fail(failure: Failure, termination_log: Path) -> int:
    log.error("%s: %s %s", failure.reason.value, failure.message, failure.fix)
    try:
        termination.write(termination_log, failure)
    except OSError as error:
        log.warning("%s can't be written: %s", termination_log, error.strerror)
    return _EXIT_CODES.get(failure.reason, 1)


async def _supervise(settings: Settings, arguments: list[str], shared: SharedState) -> int:
    return await Supervisor(settings, arguments, shared=shared).run()


def main() -> int:
    """Runs an instance whose engine gets the arguments of the command line; returns the exit code."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s stoker %(levelname)s %(message)s"
    )
    try:
        settings = Settings.from_environ()
    except ValueError as error:
        failure = Failure(
            reason=Reason.BAD_ARGUMENTS,
            message=str(error),
            fix="Correct `engine.env` of the InferenceService.",
        )
        return _fail(failure, Settings.termination_log_of(os.environ))
    with contextlib.closing(SharedState.create(max_requests=settings.max_requests)) as shared:
        return asyncio.run(_supervise(settings, sys.argv[1:], shared))


def _model(arguments: list[str]) -> str:
    named = engine_arguments.value_of(arguments, "--model")
    if named:
        return named[0]
    return arguments[0] if arguments and not arguments[0].startswith("-") else ""


def _served_names(arguments: list[str]) -> tuple[str, ...]:
    names = engine_arguments.value_of(arguments, "--served-model-name")
    return tuple(names or filter(None, [_model(arguments)]))


def _port(arguments: list[str]) -> int:
    port = engine_arguments.value_of(arguments, "--port")
    return int(port[0]) if port and port[0].isdigit() else _DEFAULT_PORT


def _api_key(arguments: list[str]) -> str | None:
    keys = engine_arguments.value_of(arguments, "--api-key")
    return keys[0] if keys else os.environ.get("VLLM_API_KEY") or None
