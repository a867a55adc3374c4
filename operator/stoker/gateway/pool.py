"""Which connection to an instance does a request get?

The one that was used last: so under load a few stay warm, and those that are not needed grow old and
are closed before the engine closes them (uvicorn: 5 s after an answer). A connection that has carried
nothing yet has no such bound, so some are opened when an instance appears, and the first requests do
not wait for them.

A POST can still cross with the engine's closing of an idle connection: the attempt then asks for a
new one.
"""

from typing import TYPE_CHECKING

from stoker.gateway.engine_connection import EngineConnection
from stoker.gateway.instances import Instance

if TYPE_CHECKING:
    from stoker.gateway.attempt import Attempt
    from stoker.gateway.data_path import DataPath

_MOST_OPENED_AHEAD = 8


class Pool:
    """The connections to one instance."""

    __slots__ = ("_closed", "_idle", "data_path", "host", "port")

    def __init__(self, instance: Instance, data_path: "DataPath") -> None:
        self.host = instance.host
        self.port = instance.port
        self.data_path = data_path
        self._idle: dict[EngineConnection, None] = {}
        """Open, without an attempt; the one that was used last is at the end."""
        self._closed = False
        """Whether the instance is gone."""

    def carry(self, attempt: "Attempt", *, anew: bool = False) -> EngineConnection:
        """The connection that carries this attempt; it tells it when to send."""
        if self._idle and not anew:
            connection, _ = self._idle.popitem()
            connection.carry(attempt)
        else:
            connection = EngineConnection(self)
            connection.open(attempt)
        return connection

    def open_ahead(self, count: int) -> None:
        """The instance is there: have this many connections ready, within bounds."""
        self._closed = False
        for _ in range(min(count, _MOST_OPENED_AHEAD)):
            EngineConnection(self).open(None)

    def keep(self, connection: EngineConnection) -> None:
        """It is open and carries nothing."""
        if self._closed:
            connection.abort()
        else:
            self._idle[connection] = None

    def drop(self, connection: EngineConnection) -> None:
        """It closes."""
        self._idle.pop(connection, None)

    def close(self) -> None:
        """The instance is gone: close what carries nothing, also what opens only now."""
        self._closed = True
        while self._idle:
            self._idle.popitem()[0].abort()


def pool_of(instance: Instance, data_path: "DataPath") -> Pool:
    """The connections to this instance."""
    pool = instance.pool
    if pool is None:
        pool = instance.pool = Pool(instance, data_path)
    assert isinstance(pool, Pool)
    return pool
