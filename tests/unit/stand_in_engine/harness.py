"""Starts the stand-in engine as a process and talks to it over real sockets."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
PATIENCE_S = 20.0


def model_folder(path, *, weights=True, **config):
    """A folder that passes for a model."""
    path.mkdir(parents=True, exist_ok=True)
    wanted = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 512} | config
    (path / "config.json").write_text(json.dumps(wanted))
    if weights:
        (path / "model.safetensors").write_bytes(b"\0" * 8)
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, *, patience_s=PATIENCE_S):
    """Look again and again; the last look decides."""
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {patience_s} s: {condition}")


class EngineProcess:
    """One run of the engine."""

    def __init__(self, model, *arguments, faults=None, path=(), **environment):
        self.port = free_port()
        command = [sys.executable, "-m", "e2e.stand_in_engine", "--model", str(model)]
        command += ["--served-model-name", "tiny", "alias", "--host", "127.0.0.1", "--port", str(self.port)]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *path)))} | environment
        if faults is not None:
            environ["STAND_IN_FAULTS"] = json.dumps(faults)
        self.log = model.parent / f"engine-{self.port}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *arguments], env=environ, stdout=log, stderr=subprocess.STDOUT
            )

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def wait_ready(self):
        wait_until(lambda: self.exit_code() is not None or self.healthy())
        assert self.exit_code() is None, self.log.read_text()
        return self

    def healthy(self):
        with contextlib.suppress(OSError):
            return self.get("/health").status == 200
        return False

    def exit_code(self):
        return self.process.poll()

    def wait_ended(self):
        return self.process.wait(PATIENCE_S)

    def stop(self):
        if self.exit_code() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(3)
        if self.exit_code() is None:
            self.process.kill()
        self.process.wait()

    def request(self, method, path, document=None):
        body = None if document is None else json.dumps(document)
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, path, body=body, headers={"content-type": "application/json"})
            answer = connection.getresponse()
            answer.text = answer.read().decode()
        return answer

    def get(self, path):
        return self.request("GET", path)

    def set_faults(self, **faults):
        answer = self.request("POST", "/faults", faults)
        assert answer.status == 200, answer.text

    def chat(self, content="hello world", **fields):
        body = {"model": "tiny", "messages": [{"role": "user", "content": content}]} | fields
        return self.request("POST", "/v1/chat/completions", body)

    def metrics(self):
        """Value of each sample by its name and labels, as the text has them."""
        lines = [line for line in self.get("/metrics").text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def metric(self, name, **labels):
        wanted = {"engine": "0", "model_name": "tiny"} | labels
        text = ",".join(f'{key}="{value}"' for key, value in sorted(wanted.items()))
        return self.metrics()[f"vllm:{name}{{{text}}}"]


def events(text):
    """The documents of a stream, and whether it ended as it should."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [json.loads(line) for line in lines if line != "[DONE]"], lines[-1:] == ["[DONE]"]


class Stream:
    """A chat stream that is read as it comes."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, engine, **fields):
        reader, writer = await asyncio.open_connection(*engine.address)
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hello world"}], "stream": True}
        text = json.dumps(body | {"ignore_eos": True} | fields).encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}content-length: {len(text)}\r\n\r\n".encode() + text)
        await writer.drain()
        return cls(reader, writer)

    async def head(self):
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)

    async def piece(self, patience_s=PATIENCE_S):
        """The next chunk; empty at the end."""
        size = int(await asyncio.wait_for(self.reader.readline(), patience_s), 16)
        chunk = await asyncio.wait_for(self.reader.readexactly(size + 2), patience_s)
        return chunk[:-2].decode()

    async def pieces(self):
        """All that are left."""
        found = []
        try:
            while piece := await self.piece():
                found.append(piece)
        finally:
            await self.leave()
        return found

    async def leave(self):
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()
