import ipaddress
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
