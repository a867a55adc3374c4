import ssl

import pytest
import trustme
from hypothesis import HealthCheck, settings
from tests.unit.web_server import WebServer

# How long an example takes says more about the machine than about the code.
settings.register_profile("stoker", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("stoker")


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
