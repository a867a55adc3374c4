"""How is a long answer sent without holding up the streams?

The admin port shares the event loop with the data path. So a long answer is made slice by slice,
and after each the loop goes on with whatever else is due. Rejected: a thread that renders (it would
read what the loop changes, and the two would fight for the interpreter's lock); compression (more
time on the loop than the text itself takes).
"""

import asyncio
from collections.abc import Iterable

from aiohttp import web


async def send_slices(
    request: web.Request, slices: Iterable[bytes], *, content_type: str
) -> web.StreamResponse:
    """Answer with these, one after the other."""
    response = web.StreamResponse(headers={"Content-Type": content_type})
    await response.prepare(request)
    for piece in slices:
        await response.write(piece)
        await asyncio.sleep(0)
    await response.write_eof()
    return response
