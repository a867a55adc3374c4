"""Which instance gets this request?

First the revision, by the traffic weights; then the instance within it: the one that the client's
session belongs to, if it named one; else the one that has probably seen the beginning of this
prompt, unless it is too far ahead of the least loaded; else the less loaded of two drawn by chance.
Where a session or a prompt belongs is a rendezvous hash (`rendezvous.py`).

Weights are kept by credit, not by chance: each choice gives every eligible revision its weight and
takes the sum from the one chosen, so over any stretch a revision is at most one request away from
its share. Revisions without room are not eligible; their share goes to the others meanwhile and is
not made up for later, as a burst would hit an instance that just was full.

A revision of weight 0 gets a request only when no instance of a weighted revision is there at all:
then it is the one left to serve (a warm previous revision after the new one's only node was lost).
That the weighted ones are full or ejected is no reason: the weights are the operator's instruction,
an ejection is one replica's guess, and weight 0 may well be the version that was just rolled back.
For the same reason ejected instances are used, the least bad first, when all are ejected.

Rejected: consistent hashing with virtual nodes (state, and moves more than it must); learning which
instance has which prefix (memory that grows, differs between the replicas, and is lost with them).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from stoker.gateway.instances import Instance
from stoker.gateway.rendezvous import line_of, score, weighted_distance

_LEAST_LEAD = 4
"""Requests that the preferred instance may be ahead of the least loaded one, at least."""
_LEAD_SHARE = 1 / 8
"""The same as a share of its limit."""
_ORDERS_KEPT = 1024
"""Keys of one revision whose order of instances is kept."""


class Request(Protocol):
    """What a choice depends on."""

    @property
    def prefix_key(self) -> int | None:
        """Hash of the beginning of the prompt (`rendezvous.key_of`); None if it does not matter."""

    @property
    def session_key(self) -> int | None:
        """Hash of the session that the client named (`rendezvous.key_of`); None if it named none."""

    @property
    def excluded(self) -> Sequence[Instance]:
        """Instances that already failed this request."""


class _Revision:
    """The instances of one revision, with its weight and credit."""

    __slots__ = ("_orders", "credit", "instances", "line", "name", "weight")

    def __init__(self, name: str, *, weight: int) -> None:
        self.name = name
        self.line = line_of(name)
        self.weight = weight
        self.credit = 0
        self.instances: list[Instance] = []
        self._orders: dict[int, list[Instance]] = {}

    def order(self, key: int) -> list[Instance]:
        """Its instances, the one that the key belongs to first."""
        order = self._orders.get(key)
        if order is None:
            if len(self._orders) >= _ORDERS_KEPT:
                self._orders.clear()
            order = sorted(self.instances, key=lambda i: score(key, i.line), reverse=True)
            self._orders[key] = order
        return order


class Router:
    """Chooses among the instances of one service."""

    __slots__ = ("_draw", "_facts", "_revisions", "instances")

    def __init__(self, *, draw: Callable[[], float]) -> None:
        """`draw` gives a number in [0, 1) by chance."""
        self._draw = draw
        self._revisions: list[_Revision] = []
        """Those that get requests."""
        self._facts: tuple[list[Instance], list[str], dict[str, int]] = ([], [], {})
        """What was last set: instances, their revisions, weights."""
        self.instances: list[Instance] = []
        """All that may get requests; empty if none is there."""

    def set(self, instances: Iterable[Instance], weights: Mapping[str, int]) -> None:
        """Take note of which instances there are, leaving ones included, and of the weights.

        Without any weight, all instances count alike.
        """
        present = [i for i in instances if not i.leaving]
        facts = (present, [i.revision for i in present], dict(weights))
        if facts == self._facts:
            return
        self._facts = facts
        self.instances = present
        credits = {r.name: r.credit for r in self._revisions}
        weighted = {i.revision for i in present if weights.get(i.revision, 0) > 0}
        revisions: dict[str, _Revision] = {}
        for instance in present:
            name = instance.revision if weighted else ""
            if weighted and name not in weighted:
                continue
            if name not in revisions:
                revisions[name] = _Revision(name, weight=weights.get(name, 1))
            revisions[name].instances.append(instance)
        self._revisions = list(revisions.values())
        # What is left of the old credits must sum up to 0 again.
        for revision in self._revisions[1:]:
            revision.credit = credits.get(revision.name, 0)
        if self._revisions:
            self._revisions[0].credit = -sum(r.credit for r in self._revisions[1:])

    def choose(self, request: Request, now_s: float) -> Instance | None:
        """The instance for this request; None if none has room for it now."""
        revisions = self._revisions
        if len(revisions) == 1:
            return self._within(revisions[0], request, now_s)
        excluded = request.excluded
        eligible = [r for r in revisions if _first_open(r.instances, excluded, now_s)]
        if not eligible:
            return self._least_bad(excluded, now_s)
        key = request.session_key
        if key is not None:
            revision = min(eligible, key=lambda r: weighted_distance(key, r.line, r.weight))
        else:
            revision = _next_by_credit(eligible)
        return self._within(revision, request, now_s)

    def could_go_elsewhere(self, excluded: Sequence[Instance]) -> bool:
        """Whether there is an instance, full or not, that has not failed this request yet."""
        return any(i not in excluded for r in self._revisions for i in r.instances)

    def slots(self, now_s: float) -> int:
        """Requests that those which get requests take at once, ejected ones aside."""
        return sum(i.slots(now_s) for r in self._revisions for i in r.instances if i.usable(now_s))

    def has_room(self, now_s: float) -> bool:
        """Whether one of those which get requests, ejected ones aside, takes one more now."""
        return any(i.is_open(now_s) for r in self._revisions for i in r.instances)

    def settled(self, now_s: float) -> bool:
        """Whether time alone makes no room on any instance."""
        return all(i.settled(now_s) for i in self.instances)

    def _within(self, revision: _Revision, request: Request, now_s: float) -> Instance | None:
        excluded = request.excluded
        if request.session_key is not None:
            chosen = _first_open(revision.order(request.session_key), excluded, now_s)
        else:
            chosen = self._less_loaded_of_two(revision.instances, excluded, now_s)
            if chosen is not None and request.prefix_key is not None:
                chosen = _with_prefix(revision.order(request.prefix_key), chosen, excluded, now_s)
        return chosen or self._least_bad(excluded, now_s)

    def _less_loaded_of_two(
        self, instances: list[Instance], excluded: Sequence[Instance], now_s: float
    ) -> Instance | None:
        """Power of two choices; if chance drew one that is not open, the least loaded of all that are."""
        count = len(instances)
        if count == 1:
            return _first_open(instances, excluded, now_s)
        first_at = int(self._draw() * count)
        second_at = int(self._draw() * (count - 1))
        first = instances[first_at]
        second = instances[second_at + 1 if second_at >= first_at else second_at]
        if not excluded and first.is_open(now_s) and second.is_open(now_s):
            return first if first.load(now_s) <= second.load(now_s) else second
        found = [i for i in instances if i.is_open(now_s) and i not in excluded]
        return min(found, key=lambda i: i.load(now_s)) if found else None

    def _least_bad(self, excluded: Sequence[Instance], now_s: float) -> Instance | None:
        """Where all are ejected: the one whose time is over first, if it has room."""
        best: Instance | None = None
        for revision in self._revisions:
            for instance in revision.instances:
                if instance in excluded:
                    continue
                if instance.usable(now_s):
                    return None
                sooner = best is None or instance.ejected_until_s < best.ejected_until_s
                if sooner and not instance.leaving and instance.has_room(now_s):
                    best = instance
        return best


def _first_open(instances: list[Instance], excluded: Sequence[Instance], now_s: float) -> Instance | None:
    for instance in instances:
        if instance.is_open(now_s) and instance not in excluded:
            return instance
    return None


def _with_prefix(
    order: list[Instance], drawn: Instance, excluded: Sequence[Instance], now_s: float
) -> Instance:
    """The first in the prompt's order that is not too far ahead of a lightly loaded one.

    So a prompt's beginning that all clients share spreads over as many instances as the load needs,
    one after the other, and each of them sees it again and again. What it is compared with is the
    less loaded of two drawn by chance: as good as the least loaded of all, without looking at all.

    Example: limits 32, so the lead is 4; 7, 2 and 3 in flight in this order, the third was drawn:
    the first is 4 ahead and stays; with 8 in flight it would be 5 ahead, and the second is chosen.
    """
    least = drawn.load(now_s)
    for instance in order:
        if instance is drawn:
            break
        if instance.is_open(now_s) and instance not in excluded:
            limit = instance.limit
            if (instance.load(now_s) - least) * limit <= max(_LEAST_LEAD, limit * _LEAD_SHARE):
                return instance
    return drawn


def _next_by_credit(revisions: list[_Revision]) -> _Revision:
    """Smooth weighted round robin, as nginx does it.

    Example: weights 90 and 10 -> in any ten choices in a row the second is chosen once.
    """
    total = 0
    best = revisions[0]
    for revision in revisions:
        revision.credit += revision.weight
        total += revision.weight
        if revision.credit > best.credit:
            best = revision
    best.credit -= total
    return best
