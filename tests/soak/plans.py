"""What does each request of a soak do, and what does the engine do to it?

All follows from the seed and the request's number, so a request that failed can be looked at again. What
runs beside what is up to the machine.
"""

import json
import random
from dataclasses import dataclass

# What an engine does, with how often among 1,000.
ENGINE = {
    "answers": 432,
    "answers in chunks": 40,
    "answers and closes": 20,
    "answers too much": 5,
    "streams": 260,
    "streams in one write": 40,
    "streams in odd pieces": 40,
    "streams slowly": 40,
    "streams a lot": 1,
    "hangs": 2,
    "hangs after the head": 2,
    "hangs in a stream": 2,
    "dies at once": 10,
    "closes at once": 10,
    "dies after the head": 10,
    "dies between events": 10,
    "closes between events": 10,
    "dies in an event": 10,
    "dies in an answer": 10,
    "refuses with an event": 10,
    "calls it wrong with an event": 6,
    "fails with an event": 6,
    "is out of memory": 4,
    "says 500": 5,
    "says 429": 5,
    "says 503": 5,
    "says 400": 5,
    "talks nonsense": 5,
}
# What a client does, in the same way.
CLIENT = {
    "asks": 646,
    "asks twice at once": 40,
    "asks with chunks": 50,
    "asks piece by piece": 30,
    "asks and expects": 10,
    "asks as in HTTP/1.0": 20,
    "asks wrongly": 20,
    "asks for another model": 20,
    "leaves in the head": 10,
    "leaves in the body": 20,
    "leaves at once": 30,
    "leaves soon": 40,
    "leaves in the answer": 50,
    "resets at once": 10,
    "reads slowly": 3,
    "reads no more": 1,
}
STREAMING = frozenset(
    name for name in ENGINE if "event" in name or "stream" in name or name.startswith("is out")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One request."""

    number: int
    client: str
    engine: str
    events: int
    again: bool
    """Whether a second instance that is asked does the same; else it answers well."""
    pause_s: float

    @property
    def name(self) -> bytes:
        """The request's `x-request-id`."""
        return b"soak-%d" % self.number

    @property
    def body(self) -> bytes:
        """What is asked, with what the engine is to do."""
        if self.client == "asks wrongly":
            return b'{"model": "chat", "messages": ['
        script = {"engine": self.engine, "events": self.events, "again": self.again, "pause_s": self.pause_s}
        return json.dumps(
            {
                "model": "no such" if self.client == "asks for another model" else "chat",
                "stream": self.engine in STREAMING or self.engine == "hangs after the head",
                "messages": [{"role": "user", "content": "x" * (self.number % 2000)}],
                "script": script,
            }
        ).encode()


def plan(seed: int, number: int) -> Plan:
    """The request with this number."""
    chance = random.Random(seed << 32 | number)
    client = chance.choices(list(CLIENT), CLIENT.values())[0]
    engine = chance.choices(list(ENGINE), ENGINE.values())[0]
    if client in ("reads slowly", "reads no more"):
        engine = "streams a lot"
    return Plan(
        number=number,
        client=client,
        engine=engine,
        events=chance.randint(1, 12),
        again=chance.random() < 0.3,
        pause_s=chance.random() * 0.03,
    )
