"""How does the client want its request to be treated?

Its headers say who the request is for (`x-stoker-workload`), how urgent it is (`x-stoker-priority`)
and which session it belongs to (`x-session-id`). An API key names the workload where the request
does not, and caps the priority.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from stoker.gateway.errors import Code, Rejection
from stoker.gateway.rendezvous import key_of

if TYPE_CHECKING:
    from stoker.gateway.keys import Key

_LONGEST_WORKLOAD = 128
_WRONG_PRIORITY = Rejection(
    code=Code.INVALID_REQUEST,
    message="The header `x-stoker-priority` is not a number from 0 to 9; send one of these.",
    param="x-stoker-priority",
)


class Wishes(NamedTuple):
    """What the headers say."""

    workload: str
    priority: int
    session_key: int | None


def read_wishes(headers: Mapping[bytes, bytes], *, namespace: str, key: "Key | None") -> Wishes | Rejection:
    """Read them; without a workload and a key, the request is for the service's namespace."""
    sent = headers.get(b"x-stoker-workload")
    if sent is not None:
        workload = sent.decode("latin-1")[:_LONGEST_WORKLOAD]
    else:
        workload = namespace if key is None else key.name
    session = headers.get(b"x-session-id")
    priority = headers.get(b"x-stoker-priority", b"0")
    if len(priority) != 1 or not priority.isdigit():
        return _WRONG_PRIORITY
    urgency = int(priority)
    return Wishes(
        workload=workload,
        priority=urgency if key is None else key.capped(urgency),
        session_key=None if session is None else key_of(session),
    )
