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

    workload: str | None
    """Who the request is for; None if they do not say."""
    urgency: int
    """The priority that is asked for."""
    session_key: int | None

    def of(self, *, namespace: str, key: "Key | None") -> tuple[str, int]:
        """Workload and priority; without a workload and a key, the request is for the service's namespace."""
        workload = self.workload
        if key is None:
            return workload if workload is not None else namespace, self.urgency
        return workload if workload is not None else key.name, key.capped(self.urgency)


def read_wishes(headers: Mapping[bytes, bytes]) -> Wishes | Rejection:
    """Read them."""
    workload = headers.get(b"x-stoker-workload")
    session = headers.get(b"x-session-id")
    priority = headers.get(b"x-stoker-priority", b"0")
    if len(priority) != 1 or not priority.isdigit():
        return _WRONG_PRIORITY
    return Wishes(
        workload=None if workload is None else workload.decode("latin-1")[:_LONGEST_WORKLOAD],
        urgency=int(priority),
        session_key=None if session is None else key_of(session),
    )
