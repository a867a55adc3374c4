import socket

import pytest
from tests.unit.web_server import Fault, WebServer

from stoker.api.reasons import TerminationClass
from stoker.fetch.errors import FetchError
from stoker.fetch.guard import AddressGuard, GuardedResolver

FILES = {"config.json": b"{}"}
STRICT = AddressGuard(allow_internal=False)


@pytest.fixture
def names(monkeypatch):
    """What the name server answers, by host."""
    answers: dict[str, list[str]] = {}
    ask = socket.getaddrinfo

    def getaddrinfo(host, port, *args, **kwargs):
        if host not in answers:
            return ask(host, port, *args, **kwargs)
        found = []
        for ip in answers[host]:
            family = socket.AF_INET6 if ":" in ip else socket.AF_INET
            where = (ip, port, 0, 0) if ":" in ip else (ip, port)
            found.append((family, socket.SOCK_STREAM, 6, "", where))
        return found

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return answers


@pytest.fixture
def folder(web):
    web.put_folder("/m", FILES)
    return f"{web.url}/m"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        pytest.param("weights.example", ["169.254.169.254"], id="the cloud's metadata service"),
        pytest.param("weights.example", ["127.0.0.1"], id="loopback"),
        pytest.param("weights.example", ["10.96.0.1"], id="a Service of the cluster"),
        pytest.param("weights.example", ["100.64.0.1"], id="carrier-grade NAT"),
        pytest.param("weights.example", ["::1"], id="loopback, version 6"),
        pytest.param("weights.example", ["fe80::1"], id="link-local, version 6"),
        pytest.param("weights.example", ["::ffff:169.254.169.254"], id="metadata dressed as version 6"),
        pytest.param(
            "weights.example", ["93.184.215.14", "10.0.0.1"], id="one internal address among public ones"
        ),
        pytest.param(
            "kubernetes.default.svc", ["93.184.215.14"], id="a cluster name, whatever it resolves to"
        ),
        pytest.param("kubernetes", ["93.184.215.14"], id="a name that search domains complete"),
    ],
)
async def test_refuses_what_a_name_turns_out_to_be(names, name, answer):
    names[name] = answer
    with pytest.raises(FetchError) as refused:
        await GuardedResolver(STRICT).resolve(name, 443)
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED
    assert name in refused.value.message


async def test_gives_the_addresses_of_a_public_name(names):
    names["weights.example"] = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"]
    results = await GuardedResolver(STRICT).resolve("weights.example", 443)
    assert [result["host"] for result in results] == names["weights.example"]


async def test_lets_all_pass_when_internal_sources_are_allowed(names):
    names["files.storage.svc"] = ["10.0.0.1"]
    results = await GuardedResolver(AddressGuard(allow_internal=True)).resolve("files.storage.svc", 443)
    assert [result["host"] for result in results] == ["10.0.0.1"]


async def test_no_connection_is_opened_to_a_refused_address(web, fetch_uri, names):
    names["weights.example"] = ["127.0.0.1"]
    port = web.server_address[1]
    with pytest.raises(FetchError, match=r"weights\.example has the internal address 127\.0\.0\.1"):
        await fetch_uri(f"https://weights.example:{port}/m", guard=STRICT)
    assert web.requests == []


async def test_fetches_from_a_public_address(folder, fetch_uri, content, loopback_counts_as_public):
    await fetch_uri(folder, guard=STRICT)
    assert content() == FILES


@pytest.mark.parametrize(
    "location",
    [
        pytest.param("https://169.254.169.254/latest/meta-data", id="the metadata service"),
        pytest.param("https://[::ffff:10.0.0.1]/x", id="a private address dressed as version 6"),
        pytest.param("https://kubernetes.default.svc/api", id="the API server's name"),
        pytest.param("https://localhost/x", id="the pod itself"),
        pytest.param("https://rebound.example/x", id="a name that resolves to a private address"),
        pytest.param("http://127.0.0.1/x", id="a connection without TLS"),
        pytest.param("file:///etc/passwd", id="a file"),
        pytest.param("ftp://127.0.0.1/x", id="another protocol"),
        pytest.param("https://127.0.0.1:port/x", id="no address at all"),
    ],
)
async def test_a_redirect_cannot_lead_inside(
    web, folder, fetch_uri, names, loopback_counts_as_public, location
):
    names["rebound.example"] = ["192.168.1.1"]
    web.fail("GET /m/config.json", Fault(status=302, headers={"Location": location}))
    with pytest.raises(FetchError) as refused:
        await fetch_uri(folder, guard=STRICT)
    assert refused.value.reason is TerminationClass.SOURCE_NOT_ALLOWED


async def test_a_redirect_to_another_host_loses_the_credentials(web, folder, fetch_uri, content, server_tls):
    web.authorization = "Bearer t0ken"
    with WebServer(tls=server_tls, address="127.0.0.2") as other:
        other.files["/signed"] = FILES["config.json"]
        signed = f"{other.url}/signed?X-Signature=a%2Fb%2Bc"
        web.fail("GET /m/config.json", Fault(status=302, headers={"Location": signed}))
        await fetch_uri(folder, secrets={"HTTP_BEARER_TOKEN": "t0ken"})
        assert content() == FILES
        assert [request.path for request in other.requests] == ["/signed?X-Signature=a%2Fb%2Bc"]
        assert "authorization" not in other.requests[0].headers


async def test_a_redirect_on_the_same_host_keeps_the_credentials(web, folder, fetch_uri, content):
    web.authorization = "Bearer t0ken"
    web.files["/elsewhere"] = FILES["config.json"]
    web.fail("GET /m/config.json", Fault(status=307, headers={"Location": "/elsewhere"}))
    await fetch_uri(folder, secrets={"HTTP_BEARER_TOKEN": "t0ken"})
    assert content() == FILES


async def test_redirects_without_end_are_said(web, folder, fetch_uri):
    again = Fault(status=302, headers={"Location": "/m/config.json"})
    web.fail("GET /m/config.json", *[again] * 10)
    with pytest.raises(FetchError, match="more than 5 redirects"):
        await fetch_uri(folder)


async def test_a_certificate_nobody_vouches_for_is_said_with_the_way_out(web, folder, fetch_uri):
    with pytest.raises(FetchError) as untrusted:
        await fetch_uri(folder, ca_file=None)
    assert untrusted.value.reason is TerminationClass.WEIGHTS_UNREACHABLE
    assert "certificate of 127.0.0.1 is not trusted" in untrusted.value.message
    assert "`ca.crt`" in untrusted.value.fix
