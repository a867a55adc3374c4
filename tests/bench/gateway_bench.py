"""What does the gateway cost beside nginx and the routers that users would pick instead?

One engine, one proxy and the clients at a time, on loopback: the proxy has a core of its own, engine and
clients share the other. All proxies are run in turn within each round, and each figure is the median of the
rounds, so that what else goes on in the machine hits all of them. Processor time is what the kernel accounts
to the proxy and its children (`/proc`), start and end of connections included. Ratios are against nginx in
the same run. Nothing here passes or fails; it prints a table and writes `build/bench/gateway.json`.
"""

import json
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from tests.bench.gateway import machine, proxies
from tests.bench.gateway.proxies import OTHER_CORE, Proxy

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "bench"
ENGINE_PORT, FIRST_PORT = 9401, 9402
STREAMS, CHUNKS = 1_000, 100
MOST_STREAMS = 8_000
CONSOLE = Console(stderr=True)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one proxy did in one round; times in microseconds of processor or wall time."""

    start_s: float
    """From the start of the process to its first answer."""
    added_p50_us: float
    """Latency of a small request on one connection, less the one without a proxy."""
    added_p99_us: float
    cpu_per_request_us: float
    """32 connections, closed loop."""
    cpu_per_chunk_us: float
    """1,000 streams (100 for a heavy proxy) of 20 chunks a second."""
    lag_p99_us: float
    bytes_per_idle_stream: float
    """Growth of the proportional set size by 1,000 streams that are open and silent."""
    failed: int


class Clients:
    """The load generator and the engine, built once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        source = ROOT / "tests" / "bench" / "gateway"
        subprocess.run(["go", "build", "-o", folder, "./..."], cwd=source, check=True)

    @contextmanager
    def engine(self) -> Iterator[str]:
        """The engine's address, while it runs."""
        address = f"127.0.0.1:{ENGINE_PORT}"
        command = [self._folder / "engine", "-listen", address]
        process = proxies.pinned(command, core=OTHER_CORE, log=self._folder / "engine.log")
        try:
            yield address
        finally:
            process.terminate()
            process.wait()

    def run(self, port: int, **flags: object) -> dict[str, float]:
        """What the clients saw."""
        return json.loads(self.start(port, **flags).communicate()[0])

    def start(self, port: int, **flags: object) -> subprocess.Popen[bytes]:
        words = [f"-{name}={value}" for name, value in flags.items()]
        command = [
            "taskset",
            "-c",
            str(OTHER_CORE),
            self._folder / "load",
            f"-target=127.0.0.1:{port}",
            *words,
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE)


@contextmanager
def running(proxy: Proxy, log: Path) -> Iterator[tuple[int, float]]:
    """The proxy's process id and the seconds until it answered, while it runs."""
    began_s = time.monotonic()
    process = proxy.start(log)
    try:
        while not _answers(proxy.port):
            if process.poll() is not None or time.monotonic() - began_s > 120:
                raise SystemExit(f"{proxy.name} does not start: see {log}")
            time.sleep(0.01)
        yield process.pid, time.monotonic() - began_s
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    body = json.dumps({"model": proxies.MODEL, "messages": [{"role": "user", "content": "?"}]}).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", data=body, headers=headers
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def measure(proxy: Proxy, clients: Clients, *, direct: dict[str, float], log: Path) -> Figures:
    """One round of one proxy."""
    streams = STREAMS // 10 if proxy.heavy else STREAMS
    with running(proxy, log) as (pid, start_s):
        clients.run(proxy.port, mode="small", connections=32, duration="1s")
        low = clients.run(proxy.port, mode="small", connections=1, duration="2s")
        before_s = machine.cpu_s(pid)
        full = clients.run(proxy.port, mode="small", connections=32, duration="3s")
        request_s = machine.cpu_s(pid) - before_s
        # The first streams of this proxy: what memory they take is not there yet.
        idle_bytes = _idle_bytes(proxy, clients, pid=pid, streams=streams)
        before_s = machine.cpu_s(pid)
        wave = clients.run(proxy.port, mode="streams", connections=streams, tokens=CHUNKS)
        chunk_s = machine.cpu_s(pid) - before_s
    return Figures(
        start_s=start_s,
        added_p50_us=low["p50_us"] - direct["p50_us"],
        added_p99_us=low["p99_us"] - direct["p99_us"],
        cpu_per_request_us=1e6 * request_s / max(full["requests"], 1),
        cpu_per_chunk_us=1e6 * chunk_s / max(wave["chunks"], 1),
        lag_p99_us=wave["lag_p99_us"],
        bytes_per_idle_stream=idle_bytes,
        failed=int(low["failed"] + full["failed"] + wave["failed"]),
    )


def _idle_bytes(proxy: Proxy, clients: Clients, *, pid: int, streams: int) -> float:
    before = machine.memory_bytes(pid)
    waiting = clients.start(
        proxy.port, mode="streams", connections=streams, tokens=1, silence="4s", ramp="1s"
    )
    time.sleep(3)
    during = machine.memory_bytes(pid)
    waiting.communicate()
    return (during - before) / streams


def open_streams(proxy: Proxy, clients: Clients, log: Path) -> int:
    """Streams that were open at once and all ended well; 0 if one failed."""
    with running(proxy, log):
        seen = clients.run(
            proxy.port, mode="streams", connections=MOST_STREAMS, tokens=3, silence="8s", ramp="6s"
        )
    return int(seen["requests"]) if not seen["failed"] else 0


def median(rounds: list[Figures]) -> Figures:
    """The median of each figure; failures are summed."""
    values = {key: [asdict(one)[key] for one in rounds] for key in asdict(rounds[0])}
    return Figures(**{key: (sum if key == "failed" else statistics.median)(v) for key, v in values.items()})


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, help="Rounds; each figure is their median.")
@click.option("--rivals/--no-rivals", default=True, help="Measure other routers too; installs them once.")
def main(rounds: int, rivals: bool) -> None:
    """Measure, print, write."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        clients = Clients(folder)
        with clients.engine() as engine:
            compared = [
                proxies.nginx(folder, port=FIRST_PORT, engine=engine),
                proxies.stoker(port=FIRST_PORT + 1, engine=engine),
            ]
            if rivals:
                compared += proxies.rivals(BUILD, first_port=FIRST_PORT + 2, engine=engine)
            figures: dict[str, list[Figures]] = {proxy.name: [] for proxy in compared}
            for number in range(rounds):
                direct = clients.run(ENGINE_PORT, mode="small", connections=1, duration="2s")
                for proxy in compared:
                    CONSOLE.print(f"round {number + 1} of {rounds}: {proxy.name}")
                    log = folder / f"{proxy.name}.log"
                    figures[proxy.name].append(measure(proxy, clients, direct=direct, log=log))
            most = open_streams(compared[1], clients, folder / "stoker.log")
    medians = {name: median(seen) for name, seen in figures.items()}
    _print(medians)
    _write(medians, open_streams=most)


def _print(medians: dict[str, Figures]) -> None:
    table = Table(title="One core each; times in microseconds")
    for column in (
        "proxy",
        "CPU/request",
        "CPU/chunk",
        "added p50",
        "p99",
        "lag p99",
        "B/idle stream",
        "start s",
    ):
        table.add_column(column, justify="left" if column == "proxy" else "right")
    for name, one in medians.items():
        table.add_row(
            f"{name} ({one.failed} failed)" if one.failed else name,
            *(f"{value:.1f}" for value in (one.cpu_per_request_us, one.cpu_per_chunk_us)),
            *(f"{value:.0f}" for value in (one.added_p50_us, one.added_p99_us, one.lag_p99_us)),
            f"{one.bytes_per_idle_stream:.0f}",
            f"{one.start_s:.2f}",
        )
    CONSOLE.print(table)


def _write(medians: dict[str, Figures], *, open_streams: int) -> None:
    base, ours = medians["nginx"], medians["stoker"]
    summary = {
        "cpu_per_request_ratio": ours.cpu_per_request_us / base.cpu_per_request_us,
        "cpu_per_chunk_ratio": ours.cpu_per_chunk_us / base.cpu_per_chunk_us,
        "added_p50_ratio": ours.added_p50_us / base.added_p50_us,
        "added_p99_ratio": ours.added_p99_us / base.added_p99_us,
        "bytes_per_idle_stream": ours.bytes_per_idle_stream,
        "open_streams": open_streams,
        "start_seconds": ours.start_s,
        "rivals": {name: asdict(one) for name, one in medians.items() if name not in ("nginx", "stoker")},
        "method": " ".join(__doc__.split()),
        "proxies": {name: asdict(one) for name, one in medians.items()},
    }
    (BUILD / "gateway.json").write_text(json.dumps(summary, indent=2) + "\n")
    CONSOLE.print_json(json.dumps({key: value for key, value in summary.items() if key != "proxies"}))


if __name__ == "__main__":
    main()
