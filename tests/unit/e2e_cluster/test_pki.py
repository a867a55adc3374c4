import base64
import json

import pytest
from e2e.cluster.command import run
from e2e.cluster.pki import Authority


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "pki")


def test_a_client_certificate_is_signed_and_names_user_and_group(authority):
    certificate, _ = authority.issue("node-1", "/O=system:nodes/CN=system:node:node-1")
    run("openssl", "verify", "-purpose", "sslclient", "-CAfile", authority.certificate, certificate)
    subject = run("openssl", "x509", "-in", certificate, "-noout", "-subject", "-nameopt", "compat")
    assert subject.strip() == "subject=/O=system:nodes/CN=system:node:node-1"


def test_a_server_certificate_holds_its_names(authority):
    names = ["DNS:kubernetes.default.svc", "IP:10.250.0.1"]
    certificate, _ = authority.issue("api", "/CN=api", alt_names=names)
    run("openssl", "verify", "-purpose", "sslserver", "-CAfile", authority.certificate, certificate)
    for host in (["-checkhost", "kubernetes.default.svc"], ["-checkip", "10.250.0.1"]):
        assert "does match" in run("openssl", "x509", "-in", certificate, "-noout", *host)


def test_no_member_can_sign_others(authority):
    certificate, _ = authority.issue("admin", "/CN=admin")
    extensions = run("openssl", "x509", "-in", certificate, "-noout", "-ext", "basicConstraints,keyUsage")
    assert "CA:FALSE" in extensions
    assert "Certificate Sign" not in extensions


def test_what_was_issued_is_kept(authority):
    first = authority.issue("admin", "/CN=admin")[0].read_bytes()
    assert authority.issue("admin", "/CN=admin")[0].read_bytes() == first


def test_a_kubeconfig_holds_the_certificates_themselves(authority):
    text = authority.kubeconfig("admin", "/O=system:masters/CN=admin", server="https://10.250.0.1:6443")
    config = json.loads(text)
    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://10.250.0.1:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == authority.certificate.read_bytes()


def test_keys_are_readable_by_their_owner_only(authority):
    _, key = authority.issue("admin", "/CN=admin")
    assert key.parent.stat().st_mode & 0o077 == 0
