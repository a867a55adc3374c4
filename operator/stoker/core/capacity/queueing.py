"""How many requests wait for a free slot, and how many wait too long? Erlang's delay formula.

The slots of all replicas are the servers of one queue, as the gateway keeps one queue for a service:
Poisson arrivals, service times that vary as an exponential distribution does (M/M/c), first come first
served. An engine's service time grows with its batch, so callers give the time at a full batch: the
system is then exactly as stable as computed, and waits are over-estimated rather than under-estimated.

Source: L. Kleinrock, "Queueing Systems, volume 1" (Wiley 1975), section 3.5, for the probability of
delay; D. Gross et al., "Fundamentals of Queueing Theory" (4th edition, Wiley 2008), section 2.3, for the
distribution of the wait.

Rejected: a share of utilization such as 70 % (too much for many slots, too little for few); M/G/c
approximations (they need the variation of answers' lengths, which nobody knows beforehand).
"""

import math
import re
from bisect import bisect_left
from dataclasses import dataclass

from stoker.api.reasons import Reason
from stoker.core.model import Refusal

_OBJECTIVE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m)@(?P<percent>\d+(?:\.\d+)?)%?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_LONGEST_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """How soon requests start, for how many of them."""

    within_s: float
    percent: float
    """Share of the requests, in percent, that start so soon."""

    @property
    def late_share(self) -> float:
        """Share of the requests that may start later."""
        return 1 - self.percent / 100


def read_objective(text: str) -> Objective | Refusal:
    """The objective that a person wrote: `2s@99` is 99 % of the requests within 2 s."""
    match = _OBJECTIVE.fullmatch(text.strip())
    if match is None:
        return _refuse(text, "is not TIME@PERCENT; write it as 2s@99, for 99 % of the requests within 2 s")
    within_s, percent = float(match["number"]) * _SECONDS[match["unit"]], float(match["percent"])
    if not 0 < within_s <= _LONGEST_S:
        return _refuse(text, "has a time that is not between 0 and an hour; write it as 2s@99")
    if not 0 < percent < 100:
        return _refuse(
            text, "has a share that is not between 0 and 100 %; all of them cannot be promised, so write 99.9"
        )
    return Objective(within_s=within_s, percent=percent)


def wait_probability(*, servers: int, offered: float) -> float:
    """Share of the arrivals that find all servers busy (Erlang C).

    Computed through 1/B, the inverse of Erlang's loss formula: sum over k of s (s-1) ... (s-k+1) / offered^k.
    Its terms are positive, grow while servers are above the load, then fall: nothing cancels or overflows
    to nonsense. Then C = 1 / (rho + (1 - rho) / B).

    Example: 2 servers, 1 in work on average: 1/B = 1 + 2 + 2 = 5, rho = .5, C = 1 / (.5 + .5 x 5) = 1/3.
    """
    if offered >= servers:
        return 1.0
    inverse_loss = term = 1.0
    for busy in range(servers, 0, -1):
        term *= busy / offered
        inverse_loss += term
        if math.isinf(inverse_loss) or term < inverse_loss * 1e-12:
            break
    utilization = offered / servers
    return 1 / (utilization + (1 - utilization) * inverse_loss)


def late_share(*, servers: int, arrivals_per_s: float, service_time_s: float, within_s: float) -> float:
    """Share of the requests that wait longer than `within_s`; 1 if the queue grows without end.

    P(W > t) = C x exp(-(servers - offered) x t / service time).

    Example: 2 servers, 1 arrival per second, 1 s of service: 1/3 wait, 1/3 x e^-2 = 4.5 % longer than 2 s.
    """
    offered = arrivals_per_s * service_time_s
    if offered >= servers:
        return 1.0
    waiting = wait_probability(servers=servers, offered=offered)
    return waiting * math.exp(-(servers - offered) * within_s / service_time_s)


def least_stable_replicas(*, offered: float, slots: int) -> int:
    """Replicas of `slots` slots below which the queue grows without end: the next above offered / slots."""
    return math.floor(offered / slots) + 1


def replicas_for(*, arrivals_per_s: float, service_time_s: float, slots: int, objective: Objective) -> int:
    """Fewest replicas of `slots` slots each that hold the objective.

    Example: 1 arrival per second, 1 s of service, 2 slots, 90 % within 2 s: one replica, as 4.5 % are late;
    for 99 % two, as of 4 servers 2 % wait at all and 2 % x e^-6 wait longer than 2 s.
    """

    def holds(replicas: int) -> bool:
        late = late_share(
            servers=replicas * slots,
            arrivals_per_s=arrivals_per_s,
            service_time_s=service_time_s,
            within_s=objective.within_s,
        )
        return late <= objective.late_share

    least = least_stable_replicas(offered=arrivals_per_s * service_time_s, slots=slots)
    most = least
    while not holds(most):
        most += 1 + (most - least)
    return bisect_left(range(most + 1), True, lo=least, key=holds)


def _refuse(text: str, problem: str) -> Refusal:
    return Refusal(reason=Reason.INVALID_SPEC, message=f"the objective {text!r} {problem}")
