"""A small engine that does what its script says: the tests' child process.

Started by the supervisor exactly as vLLM is. `SCRIPT` in the environment is a JSON object: `log` lines
to print at the start, `load_s` before it listens, `exit` to end with instead, `models` to list,
`token_every_s` and `hang_after_tokens` for streams, `health_s` for a slow `/health`, `metrics`
to add to `/metrics`, `deaf` to leave it unanswered.
"""

import argparse
import asyncio
import importlib
import json
import os
import sys
import time

import uvicorn

SCRIPT = json.loads(os.environ.get("SCRIPT", "{}"))


class App:
    def __init__(self, names):
        self._models = SCRIPT.get("models", names)
        self._tokens = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        path = scope["path"]
        if path == "/health":
            await asyncio.sleep(SCRIPT.get("health_s", 0))
            await _json(send, {})
        elif path == "/version":
            await _json(send, {"version": "1.2.3"})
        elif path == "/metrics":
            await asyncio.sleep(3600 if SCRIPT.get("deaf") else 0)
            text = f"vllm:generation_tokens_total {self._tokens}\n{SCRIPT.get('metrics', '')}\n"
            await _json(send, text)
        elif path == "/v1/models":
            data = [{"id": name, "owned_by": "scripted", "max_model_len": 4096} for name in self._models]
            await _json(send, {"data": data})
        elif path == "/v1/completions":
            request = json.loads(await _body(receive))
            completing = asyncio.ensure_future(self._complete(request, send))
            leaving = asyncio.ensure_future(_disconnected(receive))
            await asyncio.wait([completing, leaving], return_when=asyncio.FIRST_COMPLETED)
            completing.cancel()
            leaving.cancel()
        else:
            await _json(send, {"detail": "Not Found"}, status=404)

    async def _complete(self, request, send):
        wanted = request["max_tokens"]
        if not request.get("stream"):
            await self._generate(wanted)
            await _json(send, {"usage": {"completion_tokens": wanted}})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(wanted):
            await self._generate(1)
            await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def _generate(self, tokens):
        for _ in range(tokens):
            if self._tokens >= SCRIPT.get("hang_after_tokens", 10**9):
                await asyncio.sleep(3600)
            self._tokens += 1
            if self._tokens > 1:  # the first is the warm-up's
                await asyncio.sleep(SCRIPT.get("token_every_s", 0))


async def _lifespan(receive, send):
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _body(receive):
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def _disconnected(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


async def _json(send, document, *, status=200):
    body = json.dumps(document).encode()
    if isinstance(document, str):
        body = document.encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main():
    parser = argparse.ArgumentParser(prog="scripted_engine.py")
    parser.add_argument("--model")
    parser.add_argument("--served-model-name", nargs="+")
    parser.add_argument("--port", type=int)
    parser.add_argument("--api-key")
    parser.add_argument("--middleware", action="append", default=[])
    arguments = parser.parse_args()
    for line in SCRIPT.get("log", ()):
        print(line)
    time.sleep(SCRIPT.get("load_s", 0))
    if "exit" in SCRIPT:
        sys.exit(SCRIPT["exit"])
    app = App(arguments.served_model_name or [arguments.model])
    for path in arguments.middleware:
        module, _, name = path.rpartition(".")
        app = getattr(importlib.import_module(module), name)(app)
    uvicorn.run(app, host="127.0.0.1", port=arguments.port, log_level="warning", timeout_graceful_shutdown=1)


main()
