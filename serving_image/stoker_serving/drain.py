"""Lets an instance leave without cutting off anybody.

Kubernetes removes the address of a leaving pod and sends SIGTERM at the same moment, and proxies hear of
the former later. So the instance first says that it is not ready and goes on accepting, but closes each
connection with its response, as a client that kept it would never hear of other instances; then it refuses
what still comes; then it waits for the streams that run, up to a limit; and only then the engine stops.

Rejected: a preStop hook that sleeps (it needs a shell in the image, and always takes its full time).
"""

import asyncio

from stoker_serving.shared_state import SharedState

_LOOK_EVERY_S = 0.05


async def drain(state: SharedState, *, endpoint_removal_s: float, drain_s: float) -> int:
    """Returns the number of requests that still ran when the time was up; 0 when all finished."""
    state.leave()
    await asyncio.sleep(endpoint_removal_s)
    state.refuse()
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + drain_s
    while state.in_flight > 0 and loop.time() < deadline_s:  # noqa: ASYNC110 (other processes count)
        await asyncio.sleep(_LOOK_EVERY_S)
    return state.in_flight
