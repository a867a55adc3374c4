"""Is this gateway alive, is it ready, and what has it counted: HTTP on a port of its own.

Apart from the clients' port, as that may be open to the world. An answer at all means that the loop
goes round, and that is all that a restart could mend: a gateway that lost the API server goes on with
what it knows, and is ready.
"""

from collections.abc import Callable, Iterable

from aiohttp import web

from stoker.gateway.load_report import LoadReports
from stoker.gateway.metrics import CONTENT_TYPE
from stoker.gateway.scrape import send_slices


def application(
    *, unready: Callable[[], str], metrics: Callable[[], Iterable[bytes]], loads: LoadReports
) -> web.Application:
    """The HTTP side. `unready` says in a sentence why no requests should come, empty if they may;
    `metrics` gives the page for Prometheus in slices; `loads` reports to the operator.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        why_not = unready()
        return web.Response(status=503 if why_not else 200, text=why_not or "ok")

    async def metrics_page(request: web.Request) -> web.StreamResponse:
        return await send_slices(request, metrics(), content_type=CONTENT_TYPE)

    made = web.Application()
    made.add_routes(
        [
            web.get("/healthz", healthz),
            web.get("/readyz", readyz),
            web.get("/metrics", metrics_page),
            web.get("/load", loads.answer),
        ]
    )
    return made
