"""Serves the gateway's data path for one service, `bench`, with one instance at a given address.

    python serve.py PORT ENGINE_HOST:ENGINE_PORT

The same listener, table, queue, choice of instance, accounts and settings of the process as in the product,
which is imported whole; only the picture that discovery would give is written down here, with a capacity that
nothing reaches.
"""

import asyncio
import random
import sys

import uvloop

from stoker.gateway import runtime
from stoker.gateway.accounting import Accounting
from stoker.gateway.data_path import DataPath, Limits
from stoker.gateway.listener import Listener
from stoker.gateway.sinks import Sinks
from stoker.gateway.table import InstanceState, RoutingTable, ServiceState

SERVICE = "bench"


async def serve(port: int, engine: str) -> None:
    """Serve until the process is ended."""
    host, _, engine_port = engine.partition(":")
    instance = InstanceState(name="bench-0", host=host, port=int(engine_port), revision="r1")
    service = ServiceState(
        namespace=SERVICE,
        name=SERVICE,
        created="",
        models=(SERVICE,),
        capacity=1_000_000,
        instances=(instance,),
    )
    table = RoutingTable(draw=random.random, on_wake=lambda _: None)
    data_path = DataPath(table=table, limits=Limits(), on_end=Sinks(Accounting(table)).add)
    data_path.take_note(table.update([service], replicas=1, now_s=data_path.clock()))
    await Listener(data_path).open("127.0.0.1", port)
    runtime.settle_memory()
    await asyncio.Event().wait()


if __name__ == "__main__":
    runtime.raise_file_limit()
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
