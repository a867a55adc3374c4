"""May this instance get another request, and how busy is it?

Each gateway replica holds its own view: what it has in flight itself is exact, what the other
replicas have comes back from the engine on a response header and fades until the next answer. The
limit is this replica's share of the instance's capacity, so that the replicas together do not
overload it.

An instance that errs or hangs is ejected for a while. When that is over, one request at a time may
try it (half open); its first byte readmits the instance, its failure doubles the pause. `acquire`
hands out a ticket that `release` brings back: what a request that was sent before the ejection
says about the instance no longer counts, or the twenty requests that one crash ends would count as
twenty crashes.

Rejected: ejecting by error share (needs a window of many requests; a service with one request a
second would keep a dead instance for minutes); health probes of our own (`/health` answers 200 on
engines that no longer produce tokens, and the kubelet probes already).
"""

from enum import Enum

from stoker.gateway.rendezvous import line_of

_FAILURES_TO_EJECT = 3
_FIRST_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 120.0
_FORGIVEN_S = 120.0
"""After so long without an ejection the next one is short again."""
_HANGS_S = 10.0
"""An instance that answered something in this time does not hang as a whole."""
_RAMP_S = 5.0
"""In this time the limit of a new instance grows to what it is."""
_RAMP_FROM = 0.25
"""Share of the limit that a new instance begins with."""
_OTHERS_FADE_S = 10.0
"""In this time what the engine said about the other replicas' requests fades to nothing."""


class Evidence(Enum):
    """What a request that has ended says about its instance."""

    NONE = "none"
    """Nothing: the client left before the first byte, or the first byte was already reported."""
    ANSWERED = "answered"
    """It answered, if only with a refusal or to say that the request is wrong."""
    FAILED = "failed"
    """Connection refused or lost, a status of 500 or more, an answer that is not HTTP."""
    SILENT = "silent"
    """No first byte within the bound."""


class Instance:
    """One instance, as this gateway replica sees it."""

    __slots__ = (
        "_answered_s",
        "_ejected_until_s",
        "_ejections",
        "_failures",
        "_others",
        "_others_s",
        "_probing",
        "_ramp_until_s",
        "_readmitted_s",
        "_ticket",
        "host",
        "in_flight",
        "leaving",
        "limit",
        "line",
        "model_version",
        "name",
        "pool",
        "port",
        "revision",
    )

    def __init__(
        self,
        *,
        name: str,
        host: str,
        port: int,
        revision: str,
        model_version: str,
        limit: int,
    ) -> None:
        """It gets no requests before `begin`."""
        self.name = name
        """Name of the pod."""
        self.host = host
        self.port = port
        self.revision = revision
        self.model_version = model_version
        self.limit = limit
        """Requests that this gateway replica may have in flight here; at least 1."""
        self.in_flight = 0
        """Requests that this gateway replica has in flight here, exactly."""
        self.leaving = True
        """Whether it gets no new requests: it is not Ready (yet), terminating, or gone."""
        self.pool: object | None = None
        """The connections to it; owned by the data path."""
        self.line = line_of(name)
        """Stands for the name in the rendezvous hash."""
        self._others = 0.0
        self._others_s = 0.0
        self._ramp_until_s = 0.0
        self._failures = 0
        """Failures in a row."""
        self._ejections = 0
        self._ejected_until_s = 0.0
        """When it may be tried again; 0 while it is not ejected."""
        self._probing = False
        self._ticket = 0
        """Grows with each ejection and each probe; a request with an older one is of the past."""
        self._answered_s = float("-inf")
        self._readmitted_s = float("-inf")

    def __repr__(self) -> str:
        return f"Instance({self.name}, {self.in_flight}/{self.limit})"

    def begin(self, ready_since_s: float) -> None:
        """It is Ready, since then: it gets requests, few at first if it is new."""
        self.leaving = False
        self._ramp_until_s = ready_since_s + _RAMP_S

    def acquire(self, now_s: float) -> int:
        """Count a request in; returns the ticket that `answered` and `release` want back."""
        self.in_flight += 1
        if self._ejected_until_s and not self._probing and now_s >= self._ejected_until_s:
            self._probing = True
            self._ticket += 1
        return self._ticket

    def answered(self, ticket: int, now_s: float) -> None:
        """The first byte of an answer came: the instance works."""
        if ticket != self._ticket:
            return
        self._answered_s = now_s
        self._failures = 0
        if self._ejected_until_s:
            self._ejected_until_s = 0.0
            self._probing = False
            self._readmitted_s = now_s
            self._ramp_until_s = now_s + _RAMP_S

    def release(self, ticket: int, evidence: Evidence, now_s: float) -> None:
        """Count a request out, however it ended; exactly once for each `acquire`."""
        self.in_flight -= 1
        if ticket != self._ticket:
            return
        if evidence is Evidence.NONE:
            # A probe whose client left has shown nothing; the next request is the probe.
            self._probing = False
        elif evidence is Evidence.ANSWERED:
            self.answered(ticket, now_s)
        else:
            self._failures += 1
            hangs = evidence is Evidence.SILENT and now_s - self._answered_s > _HANGS_S
            if hangs or self._failures >= _FAILURES_TO_EJECT or self._ejected_until_s:
                self._eject(now_s)

    def _eject(self, now_s: float) -> None:
        """Give it no requests for 5 s, twice as long each further time, up to 2 min.

        Example: the third ejection in a row -> 5 * 2**2 = 20 s.
        """
        if not self._ejected_until_s and now_s - self._readmitted_s > _FORGIVEN_S:
            self._ejections = 0
        if self._probing or not self._ejected_until_s:
            self._ejections += 1
        pause_s = min(_FIRST_PAUSE_S * 2.0 ** min(self._ejections - 1, 16), _LONGEST_PAUSE_S)
        self._ejected_until_s = now_s + pause_s
        self._probing = False
        self._ticket += 1

    def usable(self, now_s: float) -> bool:
        """Whether it may get requests at all: neither leaving nor ejected, or ready to be tried again."""
        return not self.leaving and (
            not self._ejected_until_s or (now_s >= self._ejected_until_s and not self._probing)
        )

    def slots(self, now_s: float) -> int:
        """Requests that fit at once, taken slots included: its limit, which grows while it is new."""
        return self.limit if now_s >= self._ramp_until_s else self._ramped(now_s)

    def has_room(self, now_s: float) -> bool:
        """Whether one more request fits."""
        return self.in_flight < self.slots(now_s)

    def is_open(self, now_s: float) -> bool:
        """Whether it may get one more request now: usable, and with room for it."""
        if self._ejected_until_s or now_s < self._ramp_until_s:
            return self.usable(now_s) and self.has_room(now_s)
        return not self.leaving and self.in_flight < self.limit

    def load(self, now_s: float) -> float:
        """Requests in flight, of all replicas, relative to the limit of this moment.

        Example: limit 10, 3 in flight, the engine said 5 s ago that others have 4: 4 has faded to
        2, so (3 + 2) / 10 = 0.5.
        """
        limit = self.limit if now_s >= self._ramp_until_s else self._ramped(now_s)
        if self._others:
            fresh = 1.0 - (now_s - self._others_s) / _OTHERS_FADE_S
            if fresh > 0.0:
                return (self.in_flight + self._others * fresh) / limit
            self._others = 0.0
        return self.in_flight / limit

    def says_in_flight(self, count: int, now_s: float) -> None:
        """The engine said how many requests it works on, those of this replica among them."""
        self._others = float(max(0, count - self.in_flight))
        self._others_s = now_s

    def _ramped(self, now_s: float) -> int:
        """The limit of a new instance: from a quarter at first to the whole after 5 s; at least 1.

        Example: limit 20, Ready for 2.5 s -> (0.25 + 0.75 * 0.5) * 20 = 12.5, so 12.
        """
        grown = max(0.0, 1.0 - (self._ramp_until_s - now_s) / _RAMP_S)
        return max(1, int(self.limit * (_RAMP_FROM + (1 - _RAMP_FROM) * grown)))

    def settled(self, now_s: float) -> bool:
        """Whether time alone changes nothing about what it may get: neither new nor ejected."""
        return now_s >= self._ramp_until_s and not self._ejected_until_s

    @property
    def ejected_until_s(self) -> float:
        """When it may be tried again, on the monotonic clock; 0 while it is not ejected."""
        return self._ejected_until_s
