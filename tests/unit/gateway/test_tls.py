"""A certificate that is replaced while a listener uses it, seen by real clients."""

import asyncio
import contextlib
import ssl

import pytest

from stoker.gateway import tls
from stoker.gateway.tls import Certificate


@pytest.fixture
def files(authority, tmp_path):
    """Writes a new pair for a name; returns the paths."""

    def write(name="old.example", *, key_of=None):
        pair = authority.issue_cert(name)
        (tmp_path / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in pair.cert_chain_pems))
        (tmp_path / "tls.key").write_bytes((key_of or pair).private_key_pem.bytes())
        return {"certificate": str(tmp_path / "tls.crt"), "key": str(tmp_path / "tls.key")}

    return write


@pytest.fixture
async def seen(authority):
    """Names in the certificate that a client of a listener with this certificate sees."""
    servers = []

    async def look(certificate):
        if not servers:
            server = await asyncio.start_server(
                lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=certificate.context
            )
            servers.append(server)
        port = servers[0].sockets[0].getsockname()[1]
        client = ssl.create_default_context()
        client.check_hostname = False
        authority.configure_trust(client)
        client.set_alpn_protocols(["h2", "http/1.1"])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        secured = writer.get_extra_info("ssl_object")
        assert secured.selected_alpn_protocol() == "http/1.1"
        names = [name for _, name in secured.getpeercert()["subjectAltName"]]
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return names

    yield look
    for server in servers:
        server.close()
        await server.wait_closed()


async def test_new_connections_see_a_renewed_certificate(files, seen):
    certificate = Certificate(**files("old.example"))
    assert await seen(certificate) == ["old.example"]
    files("new.example")
    certificate.look()
    assert await seen(certificate) == ["new.example"]


async def test_it_is_looked_at_by_itself(files, seen, monkeypatch):
    monkeypatch.setattr(tls, "_LOOK_S", 0.01)
    certificate = Certificate(**files("old.example"))
    following = asyncio.create_task(certificate.follow())
    files("new.example")
    async with asyncio.timeout(5):
        while await seen(certificate) != ["new.example"]:
            pass
    following.cancel()


@pytest.mark.parametrize("damage", ["half", "other key", "gone"])
async def test_a_pair_that_does_not_serve_changes_nothing_and_is_said(
    files, seen, damage, authority, tmp_path, caplog
):
    certificate = Certificate(**files("old.example"))
    if damage == "other key":
        files("new.example", key_of=authority.issue_cert("x"))
    elif damage == "half":
        (tmp_path / "tls.crt").write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    else:
        (tmp_path / "tls.key").unlink()
    certificate.look()
    assert await seen(certificate) == ["old.example"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    files("new.example")
    certificate.look()
    assert await seen(certificate) == ["new.example"]


def test_a_look_that_finds_nothing_new_does_nothing(files, caplog):
    certificate = Certificate(**files())
    certificate.look()
    assert caplog.records == []


def test_files_that_do_not_serve_are_said_at_once(files, authority):
    with pytest.raises(ssl.SSLError):
        Certificate(**files(key_of=authority.issue_cert("x")))
    with pytest.raises(OSError, match="No such file"):
        Certificate(certificate="/no/such/file", key="/no/such/file")
