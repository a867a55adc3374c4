import http.client
import ssl
import threading
import time

import pytest
from e2e.cluster.pki import Authority
from e2e.file_server.manifests import make_tls
from e2e.file_server.server import make_server

CONTENT = bytes(range(256)) * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "served" / "tiny").mkdir(parents=True)
    (folder / "served" / "tiny" / "model").write_bytes(CONTENT)
    (folder / "secret").write_text("outside of what is served")
    authority = Authority(folder / "pki")
    certificate, key = authority.issue("server", "/CN=server", alt_names=["DNS:localhost"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    serving = make_server(folder / "served", address="127.0.0.1", port=0, tls=tls)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    yield serving.server_port, trusting
    serving.shutdown()
    thread.join()
    serving.server_close()


@pytest.fixture
def get(server):
    port, trusting = server

    def call(path, *, method="GET", **headers):
        connection = http.client.HTTPSConnection("localhost", port, context=trusting, timeout=20)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    return call


def test_a_whole_file(get):
    status, headers, body = get("/tiny/model")
    assert (status, body) == (200, CONTENT)
    assert headers["Accept-Ranges"] == "bytes"


def test_head_tells_the_length_only(get):
    status, headers, body = get("/tiny/model", method="HEAD")
    assert (status, int(headers["Content-Length"]), body) == (200, len(CONTENT), b"")


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        pytest.param("bytes=1000-1999", 1000, 2000, id="a part in the middle"),
        pytest.param("bytes=200000-", 200000, len(CONTENT), id="the rest of a file"),
        pytest.param("bytes=262143-999999", 262143, len(CONTENT), id="no more than there is"),
    ],
)
def test_a_part_of_a_file(get, asked, first, end):
    status, headers, body = get("/tiny/model", Range=asked)
    assert (status, body) == (206, CONTENT[first:end])
    assert headers["Content-Range"] == f"bytes {first}-{end - 1}/{len(CONTENT)}"


def test_a_part_behind_the_end_is_refused_with_the_size(get):
    status, headers, _ = get("/tiny/model", Range="bytes=262144-")
    assert (status, headers["Content-Range"]) == (416, "bytes */262144")


@pytest.mark.parametrize("path", ["/tiny/none", "/tiny", "/../secret", "/%2e%2e/secret", "//etc/passwd"])
def test_what_is_not_a_served_file_is_missing(get, path):
    assert get(path)[0] == 404


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_answers_the_status_that_the_path_asks_for(get, status):
    assert get(f"/~status={status}/tiny/model")[0] == status


def test_a_token_is_asked_for(get):
    assert get("/~token=right/tiny/model")[0] == 401
    assert get("/~token=right/tiny/model", Authorization="Bearer wrong")[0] == 401
    assert get("/~token=right/tiny/model", Authorization="Bearer right")[0] == 200


def test_a_corrupt_file_has_the_right_length_and_one_wrong_bit(get):
    status, _, body = get("/~corrupt/tiny/model")
    assert (status, len(body)) == (200, len(CONTENT))
    assert body == CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])


def test_a_dropped_connection_can_be_resumed(get):
    with pytest.raises(http.client.IncompleteRead) as caught:
        get("/~drop_after_bytes=200000/tiny/model")
    read = caught.value.partial
    assert read == CONTENT[:200000]
    _, _, rest = get("/~drop_after_bytes=200000/tiny/model", Range=f"bytes={len(read)}-")
    assert read + rest == CONTENT


def test_a_throttled_file_takes_its_time(get):
    started_at = time.monotonic()
    _, _, body = get(f"/~bytes_per_s={len(CONTENT) * 4}/tiny/model")
    assert body == CONTENT
    assert time.monotonic() - started_at >= 0.25


def test_the_certificate_holds_the_names_of_the_service(tmp_path):
    tls = make_tls(tmp_path, namespace="models")
    (tmp_path / "server.pem").write_bytes(tls.certificate + tls.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    client = ssl.create_default_context(cadata=tls.authority.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = context.wrap_bio(to_server, to_client, server_side=True)
    ours = client.wrap_bio(to_client, to_server, server_hostname="file-server.models.svc.cluster.local")
    for side in (ours, theirs, ours, theirs):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert ours.getpeercert()["subject"] == ((("commonName", "file-server"),),)
