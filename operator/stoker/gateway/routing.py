"""Which instance gets this request?

First the revision, by the traffic weights; then the instance within it: the one that the client's
session belongs to, if it named one; else the one that has probably seen the beginning of this
prompt, unless it is too far ahead of the least loaded; else the less loaded of two drawn by chance.
Where an instance belongs is a rendezvous hash: the same in every gateway replica without shared
state, and when an instance comes or goes, only what belongs to that instance moves.

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

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from stoker.gateway.instances import Instance

_LEAST_LEAD = 4
"""Requests that the preferred instance may be ahead of the least loaded one, at least."""
_LEAD_SHARE = 1 / 8
"""The same as a share of its limit."""


class Request(Protocol):
    """What a choice depends on."""

    @property
    def prefix_key(self) -> int | None:
        """Hash of the beginning of the prompt (`key_of`); None if it does not matter."""

    @property
    def session_key(self) -> int | None:
        """Hash of the session that the client named (`key_of`); None if it named none."""

    @property
    def excluded(self) -> Sequence[Instance]:
        """Instances that already failed this request."""


def key_of(raw: bytes) -> int:
    """A number that stands for these bytes in a rendezvous hash."""
    return zlib.crc32(raw)


class _Revision:
    """The instances of one revision, with its weight and credit."""

    __slots__ = ("credit", "instances", "name", "seed", "weight")

    def __init__(self, name: str, *, weight: int) -> None:
        self.name = name
        self.seed = zlib.crc32(name.encode())
        self.weight = weight
        self.credit = 0
        self.instances: list[Instance] = []


class Router:
    """Chooses among the instances of one service."""

    __slots__ = ("_draw", "_revisions", "instances")

    def __init__(self, *, draw: Callable[[], float]) -> None:
        """`draw` gives a number in [0, 1) by chance."""
        self._draw = draw
        self._revisions: list[_Revision] = []
        """Those that get requests."""
        self.instances: list[Instance] = []
        """All that may get requests; empty if none is there."""

    def set(self, instances: Iterable[Instance], weights: Mapping[str, int]) -> None:
        """Take note of which instances there are, leaving ones included, and of the weights.

        Without any weight, all instances count alike.
        """
        self.instances = [i for i in instances if not i.leaving]
        credits = {r.name: r.credit for r in self._revisions}
        weighted = {i.revision for i in self.instances if weights.get(i.revision, 0) > 0}
        revisions: dict[str, _Revision] = {}
        for instance in self.instances:
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
            return self._within(revisions[0].instances, request, now_s)
        eligible = [r for r in revisions if _first_open(r.instances, request.excluded, now_s)]
        if not eligible:
            # All full, or all ejected: one of the ejected is better than none.
            return self._least_bad(request, now_s)
        if request.session_key is not None:
            revision = _revision_of(request.session_key, eligible)
        else:
            revision = _next_by_credit(eligible)
        return self._within(revision.instances, request, now_s)

    def could_go_elsewhere(self, excluded: Sequence[Instance]) -> bool:
        """Whether there is an instance, full or not, that has not failed this request yet."""
        return any(i not in excluded for r in self._revisions for i in r.instances)

    def settled(self, now_s: float) -> bool:
        """Whether time alone makes no room on any instance."""
        return all(i.settled(now_s) for i in self.instances)

    def _within(self, instances: list[Instance], request: Request, now_s: float) -> Instance | None:
        excluded = request.excluded
        if request.session_key is not None:
            chosen = _home(request.session_key, _open(instances, excluded, now_s))
        elif request.prefix_key is not None and len(instances) > 1:
            chosen = _with_prefix(request.prefix_key, _open(instances, excluded, now_s), now_s)
        else:
            chosen = self._less_loaded_of_two(instances, excluded, now_s)
        return chosen or self._least_bad(request, now_s)

    def _less_loaded_of_two(
        self, instances: list[Instance], excluded: Sequence[Instance], now_s: float
    ) -> Instance | None:
        """Power of two choices; if chance drew one that is not open, the least loaded of all that are."""
        count = len(instances)
        if count > 1:
            first_at = int(self._draw() * count)
            second_at = int(self._draw() * (count - 1))
            first = instances[first_at]
            second = instances[second_at + 1 if second_at >= first_at else second_at]
            if _is_open(first, excluded, now_s) and _is_open(second, excluded, now_s):
                return first if first.load(now_s) <= second.load(now_s) else second
        found = _open(instances, excluded, now_s)
        return min(found, key=lambda i: i.load(now_s)) if found else None

    def _least_bad(self, request: Request, now_s: float) -> Instance | None:
        """Where all are ejected: the one whose time is over first, if it has room."""
        instances = [i for r in self._revisions for i in r.instances if i not in request.excluded]
        if any(i.usable(now_s) for i in instances):
            return None
        with_room = [i for i in instances if not i.leaving and i.has_room(now_s)]
        return min(with_room, key=lambda i: i.ejected_until_s) if with_room else None


def _is_open(instance: Instance, excluded: Sequence[Instance], now_s: float) -> bool:
    return instance.has_room(now_s) and instance.usable(now_s) and not (excluded and instance in excluded)


def _open(instances: list[Instance], excluded: Sequence[Instance], now_s: float) -> list[Instance]:
    return [i for i in instances if _is_open(i, excluded, now_s)]


def _first_open(instances: list[Instance], excluded: Sequence[Instance], now_s: float) -> Instance | None:
    for instance in instances:
        if _is_open(instance, excluded, now_s):
            return instance
    return None


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


def _revision_of(session_key: int, revisions: list[_Revision]) -> _Revision:
    """The revision that a session belongs to: a rendezvous hash with weights.

    Each revision gets -ln(u) / weight with u in (0, 1) from the hash, the least wins: the shares are
    those of the weights, and a session moves only to a revision whose weight grew.
    Source: Schindelhauer and Schomaker, "Weighted distributed hash tables", SPAA 2005.
    """
    return min(revisions, key=lambda r: -math.log((_score(session_key, r.seed) + 1) / 2**64) / r.weight)


def _score(key: int, seed: int) -> int:
    """64 bits that depend on both; Python's hash of numbers is the same in every process."""
    return hash((key, seed)) & 0xFFFFFFFFFFFFFFFF


def _home(key: int, found: list[Instance]) -> Instance | None:
    """Where the key belongs among these."""
    return max(found, key=lambda i: _score(key, i.seed)) if found else None


def _with_prefix(key: int, found: list[Instance], now_s: float) -> Instance | None:
    """The first in the key's order that is not too far ahead of the least loaded.

    So a prompt's beginning that all clients share spreads over as many instances as the load needs,
    one after the other, and each of them sees it again and again.

    Example: limits 32, so the lead is 4; 7, 2 and 3 in flight, order 1, 2, 3 -> the second, as the
    first is 5 ahead of it.
    """
    if len(found) < 2:
        return found[0] if found else None
    loads = [i.load(now_s) for i in found]
    least = min(loads)
    best: Instance | None = None
    best_score = -1
    for instance, load in zip(found, loads, strict=True):
        limit = instance.limit
        if (load - least) * limit <= max(_LEAST_LEAD, limit * _LEAD_SHARE):
            score = _score(key, instance.seed)
            if score > best_score:
                best, best_score = instance, score
    return best
