"""What does the gateway say to more requests at once than it has places for?"""

import http.client
import json
import queue
import threading
from dataclasses import dataclass

from e2e.cluster.errors import ClusterError

_DEADLINE_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that was sent away."""

    status: int
    code: str
    message: str
    retry_after_s: int


def flood(port: int, *, model: str, requests: int) -> Refusal:
    """Send so many requests at once to 127.0.0.1, until the first is refused with 429; the others end
    with the connection that the port is a way to.
    """
    answers: queue.SimpleQueue[tuple[int, int, bytes]] = queue.SimpleQueue()
    for _ in range(requests):
        threading.Thread(target=_ask, args=(port, model, answers), daemon=True).start()
    for _ in range(requests):
        status, retry_after_s, body = answers.get(timeout=_DEADLINE_S)
        if status == http.HTTPStatus.TOO_MANY_REQUESTS:
            error = json.loads(body)["error"]
            return Refusal(
                status=status,
                code=error["code"],
                message=error["message"],
                retry_after_s=retry_after_s,
            )
    raise ClusterError(f"{requests} requests to {model} at once, and none was refused")


def _ask(port: int, model: str, answers: queue.SimpleQueue[tuple[int, int, bytes]]) -> None:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Tell me much."}],
        "max_tokens": 256,
        "ignore_eos": True,
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_DEADLINE_S)
    try:
        connection.request(
            "POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        answers.put((response.status, int(response.getheader("retry-after") or 0), response.read()))
    except (OSError, http.client.HTTPException):
        answers.put((0, 0, b""))
    finally:
        connection.close()
