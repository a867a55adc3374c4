"""Serves the API of a loaded engine: uvicorn, middleware, signals, and the end.

The port is bound before anything is loaded and refuses connections until then, as vLLM's does.
"""

import argparse
import asyncio
import contextlib
import importlib
import signal
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from prometheus_client import REGISTRY
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from e2e.stand_in_engine import asgi, crash
from e2e.stand_in_engine.api import Api
from e2e.stand_in_engine.app import Application, Control, with_middleware
from e2e.stand_in_engine.engine import Engine
from e2e.stand_in_engine.faults import Crash, Faults
from e2e.stand_in_engine.loading import Loaded
from e2e.stand_in_engine.log import API_SERVER, logger
from e2e.stand_in_engine.metrics import EngineMetrics

_KEEP_ALIVE_S = 5
"""vLLM's default, after which an idle connection is closed."""
_WATCHDOG_S = 2.5
"""What vLLM takes on average to notice that its engine is dead, and to end with it: it looks every 5 s."""


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, with a way to the connection for the fault that resets it."""

    def on_message_begin(self) -> None:
        """Put the transport into the scope of the request that begins."""
        super().on_message_begin()
        self.scope["extensions"] = {asgi.TRANSPORT: {"transport": self.transport}}


class Server(uvicorn.Server):
    """uvicorn's server, which leaves signals to `serve`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound and does not listen yet; raises `OSError` if the port is taken."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    return listener


async def serve(
    arguments: argparse.Namespace,
    *,
    loaded: Loaded,
    faults: Faults,
    answer_tokens: int,
    listener: socket.socket,
) -> None:
    """Serve until SIGTERM, SIGINT or the death of the engine.

    Requests that run then end with an error, as vLLM aborts them. Raises `ImportError` or
    `AttributeError` for a middleware that is not there.
    """
    engine = Engine(
        scheduler=loaded.scheduler,
        metrics=EngineMetrics(
            registry=REGISTRY,
            scheduler=loaded.scheduler,
            model_name=loaded.served.names[0],
            max_model_len=loaded.served.max_model_len,
            cache_config=loaded.cache_config,
        ),
        faults=faults,
        max_num_queued_reqs=arguments.max_num_queued_reqs,
        on_crash=_crash,
    )
    application = Application(
        api=Api(engine=engine, served=loaded.served, answer_tokens=answer_tokens),
        registry=REGISTRY,
        pooling=arguments.runner == "pooling",
        track_load=arguments.enable_server_load_tracking,
    )
    middleware = [_class(path) for path in arguments.middleware]
    config = uvicorn.Config(
        Control(with_middleware(application, middleware), engine),
        http=Protocol,
        ws="none",
        lifespan="on",
        access_log=not arguments.disable_uvicorn_access_log,
        timeout_keep_alive=_KEEP_ALIVE_S,
    )
    server = Server(config)
    logger(API_SERVER).info(
        "Starting vLLM server on http://%s:%s", arguments.host or "0.0.0.0", arguments.port
    )
    await _until_the_end(server, engine, listener)


async def _until_the_end(server: Server, engine: Engine, listener: socket.socket) -> None:
    def leave() -> None:
        logger(API_SERVER).info("[shutdown] API server: shutdown triggered")
        engine.die()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    steps = loop.create_task(engine.run())
    follower = loop.create_task(_follow(server, engine))
    try:
        await server.serve(sockets=[listener])
    finally:
        steps.cancel()
        follower.cancel()


async def _follow(server: Server, engine: Engine) -> None:
    """End the server some time after its engine."""
    await engine.died.wait()
    await asyncio.sleep(_WATCHDOG_S)
    server.should_exit = True


async def _crash(engine: Engine) -> None:
    if engine.faults.crash is Crash.ENGINE_DEAD:
        logger(API_SERVER).error("Engine core proc EngineCore died unexpectedly, shutting down client.")
        engine.die()
    else:
        crash.end(engine.faults.crash)


def _class(path: str) -> type[Any]:
    module, _, name = path.rpartition(".")
    imported = getattr(importlib.import_module(module), name)
    if not isinstance(imported, type):
        raise TypeError(f"Invalid middleware {path}. Must be a class.")
    return imported
