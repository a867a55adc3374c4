import ipaddress
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker.core import sources
from stoker.core.sources import Source, parse_source
from stoker.fetch.choose import open_source
from stoker.fetch.credentials import Credentials
from stoker.fetch.download import Limits, Wish, fetch
from stoker.fetch.guard import AddressGuard
from stoker.fetch.progress import Progress
from stoker.fetch.retry import Retry
from stoker.fetch.staging import Place

QUICK = Limits(retry=Retry(attempts=3, first_wait_s=0.01, most_wait_s=0.02))


@pytest.fixture
def place(tmp_path):
    return Place(folder=tmp_path / "weights" / "model", manifest=tmp_path / "weights" / "manifest.json")


@pytest.fixture
def fetch_uri(place, ca_file):
    """Fetch a URI as `stoker fetch --allow-cluster-internal` does, with short waits between attempts."""

    async def run(
        uri, *, revision="", sha256=None, secrets=None, guard=None, idle_s=30.0, ca_file=ca_file, limits=QUICK
    ):
        said = []
        source = parse_source(uri, allow_cluster_internal=True)
        assert isinstance(source, Source), source
        fetcher = open_source(
            source,
            revision=revision,
            credentials=Credentials(values=secrets or {}, ca_file=ca_file),
            guard=guard or AddressGuard(allow_internal=True),
            idle_s=idle_s,
        )
        wish = Wish(uri=uri, revision=revision, sha256=sha256)
        progress = Progress(say=said.append, every_s=0.05)
        try:
            manifest = await fetch(fetcher, wish=wish, place=place, limits=limits, progress=progress)
        finally:
            await fetcher.close()
        return SimpleNamespace(manifest=manifest, said=said, wish=wish)

    return run


@pytest.fixture
def content(place):
    """What lies in the model's folder, by relative path."""

    def read():
        found = [path for path in place.folder.rglob("*") if path.is_file()]
        return {str(path.relative_to(place.folder)): path.read_bytes() for path in found}

    return read


@pytest.fixture
def loopback_counts_as_public(monkeypatch):
    """Nothing public can be reached from here, so 127.0.0.1 and .2 stand for the public network."""
    judge = sources.is_internal_address
    public = ipaddress.ip_network("127.0.0.0/30")
    monkeypatch.setattr(sources, "is_internal_address", lambda ip: ip not in public and judge(ip))


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """Address of an S3 server (moto's)."""
    installed = Path(sys.prefix) / "s3-server"
    assert installed.is_dir(), "run `make install` first: it puts the S3 server there"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("s3") / "log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            env={**os.environ, "PYTHONPATH": str(installed)},
            stdout=out,
            stderr=out,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_it_answers(url, server, log)
        yield url
    finally:
        server.terminate()
        server.wait(10)


def _wait_until_it_answers(url, server, log):
    deadline = time.monotonic() + 60
    while True:
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(f"{url}/moto-api/", timeout=10).close()
            return
        except OSError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
