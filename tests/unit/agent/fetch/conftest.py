import ssl
from types import SimpleNamespace

import pytest
import trustme
from tests.unit.agent.fetch.web_server import WebServer

from stoker.agent.fetch.choose import open_source
from stoker.agent.fetch.credentials import Credentials
from stoker.agent.fetch.download import Limits, Wish, fetch
from stoker.agent.fetch.guard import AddressGuard
from stoker.agent.fetch.progress import Progress
from stoker.agent.fetch.retry import Retry
from stoker.agent.fetch.staging import Place
from stoker.core.sources import Source, parse_source

QUICK = Limits(retry=Retry(attempts=3, first_wait_s=0.01, most_wait_s=0.02))


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


@pytest.fixture(scope="session")
def ca_file(authority, tmp_path_factory):
    path = tmp_path_factory.mktemp("ca") / "ca.crt"
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture(scope="session")
def server_tls(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "127.0.0.2", "weights.example").configure_cert(context)
    return context


@pytest.fixture
def web(server_tls):
    with WebServer(tls=server_tls) as server:
        yield server


@pytest.fixture
def place(tmp_path):
    return Place(folder=tmp_path / "weights" / "model", manifest=tmp_path / "weights" / "manifest.json")


@pytest.fixture
def fetch_uri(place, ca_file):
    """Fetch a URI as `stoker fetch --allow-cluster-internal` does, with short waits between attempts."""

    async def run(
        uri, *, revision="", sha256=None, secrets=None, guard=None, idle_s=5.0, limits=QUICK, into=place
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
            manifest = await fetch(fetcher, wish=wish, place=into, limits=limits, progress=progress)
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
