"""Where does a key belong, when all must agree without asking each other?

Rendezvous hashing: every name has a score for the key, and the key belongs to the name with the
highest. All gateway replicas compute the same; when a name goes, only its keys move, each to its
own second choice.
Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.

The score is Carter and Wegman's universal hash, `(factor * key + offset) mod (2**61 - 1)`, with the
factor and offset of the name from a good hash of it: one multiplication for each name and key,
measured as even over 2 to 16 names as chance is.

Rejected: Python's own hash of a pair (its upper bits are so uneven that 10 % becomes 6 %); a
cryptographic hash of each pair (ten times the price).
"""

import hashlib
import math
import zlib
from typing import NamedTuple

_PRIME = 2**61 - 1


class Line(NamedTuple):
    """What a name is in the hash."""

    factor: int
    offset: int


def line_of(name: str) -> Line:
    """The factor and offset that stand for a name, the same in every process."""
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    factor = int.from_bytes(digest[:8], "big") % (_PRIME - 1) + 1
    return Line(factor, int.from_bytes(digest[8:], "big") % _PRIME)


def key_of(raw: bytes) -> int:
    """The key that stands for these bytes: 32 bits, as two keys that meet only share a place."""
    return zlib.crc32(raw)


def score(key: int, line: Line) -> int:
    """How much the key belongs to the name; the highest of several has it."""
    factor, offset = line
    return (factor * key + offset) % _PRIME


def weighted_distance(key: int, line: Line, weight: int) -> float:
    """The same for names with weights; the lowest has it, each as often as its weight says.

    -ln(u) / weight with u in (0, 1) from the score: an exponential variable with that rate. When a
    weight grows, keys move only to that name.
    Source: Schindelhauer and Schomaker, "Weighted distributed hash tables", SPAA 2005.
    """
    return -math.log((score(key, line) + 1) / (_PRIME + 1)) / weight
