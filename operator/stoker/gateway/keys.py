"""Who sends this request, and may they send it now?

Off by default. When it is on, a request needs an API key (`Authorization: Bearer KEY`). Each key is
an entry of a Secret: its name says who the requests are for, as the workload of their records, and
its value is JSON:

    team-a: |
      {"sha256": ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
       "requestsPerMinute": 600, "tokensPerMinute": 200000, "concurrency": 16, "maxPriority": 5}

Only the digest of a key is kept anywhere (`printf %s KEY | sha256sum`), so that who reads the Secret
cannot use the service; several digests let a key be exchanged without a gap. What is left out is not
limited. A faulty entry is reported and its key refused; the others work on.

The limits hold for all gateway replicas together: each takes its share. Tokens are reserved when a
request comes, as many as it may take, and corrected when it has ended.

A digest is looked up by a keyed hash of it and then compared in constant time, so that the time of
an answer tells nothing about the digests that there are. Rejected: comparing with every key (a
millisecond for a few thousand); a slow password hash (for keys made by machines a fast one is as
safe, and each request pays).
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import ConfigDict, Field, ValidationError

from stoker.api.base import ApiModel
from stoker.gateway.errors import Code, Rejection
from stoker.gateway.rate_window import RateWindow

_SCHEME = b"bearer "
_LONGEST_KEY = 4096
_BUSY_RETRY_S = 1.0
"""When to come back where another request of the same key must end first, which nobody can know."""

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Limit = Annotated[int, Field(ge=1, le=1_000_000_000)]


class KeySpec(ApiModel):
    """An entry of the Secret."""

    # A limit with a misspelt name would be no limit.
    model_config = ConfigDict(extra="forbid")

    sha256: Annotated[tuple[Digest, ...], Field(min_length=1, max_length=8)]
    """SHA-256 digests of the keys that count as this one, in 64 lower-case hexadecimal characters."""
    requests_per_minute: Limit | None = None
    """Requests in any 60 s. Default: no limit."""
    tokens_per_minute: Limit | None = None
    """Tokens, of prompts and answers together, in any 60 s. Default: no limit."""
    concurrency: Limit | None = None
    """Requests at the same time, waiting ones included. Default: no limit."""
    max_priority: Annotated[int, Field(ge=0, le=9)] = 9
    """Highest priority that its requests may have; a higher one counts as this. Default: 9, any."""


class Key:
    """One key and what is used of it, in this gateway replica."""

    __slots__ = ("_replicas", "in_flight", "name", "requests", "spec", "tokens")

    def __init__(self, name: str, spec: KeySpec) -> None:
        self.name = name
        self.spec = spec
        self.in_flight = 0
        self.requests = RateWindow()
        self.tokens = RateWindow()
        self._replicas = 1

    def set(self, spec: KeySpec, *, replicas: int) -> None:
        """Take over new limits; what was used still counts."""
        self.spec = spec
        self._replicas = replicas

    def capped(self, priority: int) -> int:
        """The priority that its request gets."""
        return min(priority, self.spec.max_priority)

    def admit(self, tokens: int, now_s: float, draw: Callable[[], float]) -> "KeyLease | Rejection":
        """Count a request in that may take so many tokens (0 if not known), or say when to come back."""
        spec = self.spec
        wait_s = 0.0
        limited = ""
        if spec.concurrency is not None and self.in_flight >= self._share(spec.concurrency):
            wait_s, limited = _BUSY_RETRY_S, self._in_words(spec.concurrency, "requests at the same time")
        if spec.requests_per_minute is not None:
            least_s = self.requests.wait_s(1, limit=self._share(spec.requests_per_minute), now_s=now_s)
            if least_s > wait_s:
                wait_s, limited = least_s, self._in_words(spec.requests_per_minute, "requests a minute")
        if spec.tokens_per_minute is not None:
            if tokens > spec.tokens_per_minute:
                return self._too_large(tokens, spec.tokens_per_minute)
            # A request without known tokens waits until some are free; one that is larger than this
            # replica's share until all of it is.
            most = self._share(spec.tokens_per_minute)
            least_s = self.tokens.wait_s(min(max(1, tokens), most), limit=most, now_s=now_s)
            if least_s > wait_s:
                wait_s, limited = least_s, self._in_words(spec.tokens_per_minute, "tokens a minute")
        if limited:
            return Rejection(
                code=Code.RATE_LIMITED,
                message=f"The key {self.name} has used up its {limited}.",
                retry_after_s=max(1.0, wait_s) * (1 + draw() / 2),
            )
        self.in_flight += 1
        self.requests.add(1, now_s)
        self.tokens.add(tokens, now_s)
        return KeyLease(self, tokens, now_s)

    def _share(self, limit: int) -> int:
        """This replica's share: never more than promised, unless it were nothing."""
        return max(1, limit // self._replicas)

    def _in_words(self, limit: int, what: str) -> str:
        if self._replicas == 1:
            return f"{limit} {what}"
        return f"share of {limit} {what} in this gateway replica, which is {self._share(limit)}"

    def _too_large(self, tokens: int, limit: int) -> Rejection:
        return Rejection(
            code=Code.RATE_LIMITED,
            message=f"The request may take {tokens} tokens, and the key {self.name} has {limit} a minute; "
            "ask for fewer, such as with `max_tokens`.",
        )


class KeyLease:
    """A request that counts against a key until it has ended."""

    __slots__ = ("_admitted_s", "_reserved", "key")

    def __init__(self, key: Key, reserved: int, admitted_s: float) -> None:
        self.key = key
        self._reserved = reserved
        self._admitted_s = admitted_s

    def end(self, tokens: int, now_s: float) -> None:
        """The request is over and took so many tokens; exactly once."""
        self.key.in_flight -= 1
        self.key.tokens.correct(tokens - self._reserved, then_s=self._admitted_s, now_s=now_s)


class KeyRing:
    """All keys that there are."""

    __slots__ = ("_by_digest", "_keys", "_salt")

    def __init__(self, *, salt: bytes) -> None:
        """`salt` is 16 or more random bytes of this process."""
        self._salt = salt
        self._keys: dict[str, Key] = {}
        self._by_digest: dict[bytes, tuple[bytes, Key]] = {}

    def update(self, entries: Mapping[str, bytes], *, replicas: int) -> tuple[str, ...]:
        """Take over all entries of the Secret; returns a sentence for each that is faulty.

        What was used of a key that stays still counts. No entry, no valid key: nobody is let in.
        """
        problems: list[str] = []
        keys: dict[str, Key] = {}
        by_digest: dict[bytes, tuple[bytes, Key]] = {}
        for name, value in sorted(entries.items()):
            try:
                spec = KeySpec.model_validate_json(value)
            except ValidationError as error:
                problems.append(
                    f"The entry {name} of the keys is not valid, so its key is refused: {_why(error)}"
                )
                continue
            key = self._keys.get(name) or Key(name, spec)
            key.set(spec, replicas=replicas)
            keys[name] = key
            for digest in map(bytes.fromhex, spec.sha256):
                other = by_digest.setdefault(self._hidden(digest), (digest, key))[1]
                if other is not key:
                    problems.append(
                        f"The entries {other.name} and {name} of the keys have the same digest; "
                        f"its requests count as {other.name}'s."
                    )
        self._keys = keys
        self._by_digest = by_digest
        return tuple(problems)

    def authenticate(self, authorization: bytes | None) -> Key | Rejection:
        """Whose request this is, by its `Authorization` header."""
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            return _NO_KEY
        sent = authorization[len(_SCHEME) :].strip()
        if not sent or len(sent) > _LONGEST_KEY:
            return _NO_KEY
        digest = hashlib.sha256(sent).digest()
        known, key = self._by_digest.get(self._hidden(digest), _NOBODY)
        if key is not None and hmac.compare_digest(known, digest):
            return key
        return _WRONG_KEY

    def _hidden(self, digest: bytes) -> bytes:
        """What the digest is looked up by: nobody outside can tell which digests are near each other."""
        return hashlib.blake2b(digest, digest_size=16, key=self._salt).digest()


_NOBODY: tuple[bytes, Key | None] = (b"", None)
_NO_KEY = Rejection(
    code=Code.UNAUTHORIZED, message="An API key is needed: send the header `Authorization: Bearer KEY`."
)
_WRONG_KEY = Rejection(code=Code.UNAUTHORIZED, message="The API key is not known here.")


def _why(error: ValidationError) -> str:
    """What is wrong, without the value, which may be a key that somebody put there in clear."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where or 'the whole'}: {first['msg']}."
