import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.core.model import Refusal
from stoker.core.sources import Scheme, Source, is_cluster_name, is_internal_address, parse_source


def parse(uri, *, allow_cluster_internal=False):
    return parse_source(uri, allow_cluster_internal=allow_cluster_internal)


@pytest.mark.parametrize(
    ("uri", "scheme", "authority", "path"),
    [
        pytest.param("hf://Qwen/Qwen2.5-7B-Instruct", Scheme.HF, "Qwen", "Qwen2.5-7B-Instruct", id="hf"),
        pytest.param("s3://acme-models/llama/8b", Scheme.S3, "acme-models", "llama/8b", id="s3"),
        pytest.param("s3://acme-models", Scheme.S3, "acme-models", "", id="a whole bucket"),
        pytest.param("gs://acme_models/llama/", Scheme.GS, "acme_models", "llama", id="a slash at the end"),
        pytest.param("az://models/llama", Scheme.AZ, "models", "llama", id="az"),
        pytest.param(
            "oci://Registry.acme.io:5000/m/llama:3.1",
            Scheme.OCI,
            "registry.acme.io:5000",
            "m/llama:3.1",
            id="oci",
        ),
        pytest.param(
            "oci://registry.acme.io/m/llama@sha256:" + "0" * 64,
            Scheme.OCI,
            "registry.acme.io",
            "m/llama@sha256:" + "0" * 64,
            id="oci by digest",
        ),
        pytest.param("https://models.acme.io/a%20b", Scheme.HTTPS, "models.acme.io", "a%20b", id="https"),
        pytest.param("https://8.8.8.8/x", Scheme.HTTPS, "8.8.8.8", "x", id="a public address"),
        pytest.param(
            "https://[2606:4700::1111]:8443/x", Scheme.HTTPS, "[2606:4700::1111]:8443", "x", id="IPv6"
        ),
        pytest.param("pvc://models/llama", Scheme.PVC, "models", "llama", id="pvc"),
        pytest.param("pvc://models", Scheme.PVC, "models", "", id="a whole claim"),
    ],
)
def test_reads_each_kind(uri, scheme, authority, path):
    assert parse(uri) == Source(uri=uri, scheme=scheme, authority=authority, path=path)


def test_a_hugging_face_source_has_a_repository():
    assert parse("hf://Qwen/Qwen2.5-7B").repository == "Qwen/Qwen2.5-7B"


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        pytest.param("", "must start with one of hf://, s3://", id="nothing"),
        pytest.param("Qwen/Qwen2.5-7B", "must start with one of", id="no scheme"),
        pytest.param("http://models.acme.io/x", "must start with one of", id="plain http"),
        pytest.param("file:///etc/passwd", "must start with one of", id="a file"),
        pytest.param("hf://Qwen", "hf://OWNER/NAME", id="half a repository"),
        pytest.param("hf://a/b/c", "hf://OWNER/NAME", id="too much of a repository"),
        pytest.param("oci://registry.acme.io", "oci://REGISTRY/NAME:TAG", id="a registry without an image"),
        pytest.param("s3:///path", "is not a name that s3:// can have", id="no bucket"),
        pytest.param("pvc://Models/x", "is not a name that pvc:// can have", id="a claim in upper case"),
        pytest.param("https://me:secret@models.acme.io/x", "model.credentialsSecret", id="a password"),
        pytest.param("https://models.acme.io/x?token=abc", "not allowed", id="a query"),
        pytest.param("https://models.acme.io/x#y", "not allowed", id="a fragment"),
        pytest.param("https://models.acme.io/a b", "not allowed", id="a blank"),
        pytest.param("s3://bucket/a\nb", "not allowed", id="a line break"),
        pytest.param("s3://bucket/a\\b", "not allowed", id="a backslash"),
        pytest.param("s3://bucket/a/../b", "leaves its folder", id="the folder above"),
        pytest.param("s3://bucket/./b", "leaves its folder", id="a dot"),
        pytest.param("s3://bucket/a//b", "empty part", id="an empty part"),
        pytest.param(
            "https://models.acme.io/a/%2e%2e/b", "leaves its folder", id="the folder above in disguise"
        ),
        pytest.param("https://models.acme.io/a/%252e%252e/b", "leaves its folder", id="in a second disguise"),
        pytest.param("https://models.acme.io/a%5cb", "leaves its folder", id="a backslash in disguise"),
        pytest.param("https://models.acme.io/a%0ab", "leaves its folder", id="a line break in disguise"),
        pytest.param("https://models.acme.io:99999/x", "port that does not exist", id="a port too high"),
        pytest.param(
            "https://2130706433/x", "neither a host name nor an address", id="127.0.0.1 as a number"
        ),
        pytest.param("https://0x7f.1/x", "neither a host name nor an address", id="127.0.0.1 in hexadecimal"),
        pytest.param("https://127.1/x", "neither a host name nor an address", id="127.0.0.1 cut short"),
        pytest.param("https://[::1/x", "is not a name", id="half a bracket"),
        pytest.param("https://[1:2]/x", "neither a host name nor an address", id="half an address"),
    ],
)
def test_refuses_what_it_cannot_read_or_trust(uri, words):
    answer = parse(uri, allow_cluster_internal=True)
    assert isinstance(answer, Refusal)
    assert words in answer.message
    assert "secret" not in answer.message.lower() or "credentialsSecret" in answer.message


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "169.254.169.254",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[fe80::1]",
        "[fd00::1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::a00:1]",
        "[2002:a00:1::1]",
        "localhost",
        "files",
        "files.models.svc",
        "files.models.svc.cluster.local",
        "files.models.svc.acme.io",
        "metadata.google.internal",
        "printer.local.",
        "LOCALHOST",
    ],
)
@pytest.mark.parametrize("scheme", ["https", "oci"])
def test_an_address_inside_is_taken_only_if_the_operator_allows_it(scheme, host):
    uri = f"{scheme}://{host}/model"
    answer = parse(uri)
    assert isinstance(answer, Refusal)
    assert answer.reason.value == "SourceNotAllowed"
    assert "inside the cluster or the site" in answer.message
    assert isinstance(parse(uri, allow_cluster_internal=True), Source)


@pytest.mark.parametrize(
    ("address", "internal"),
    [
        ("8.8.8.8", False),
        ("2606:4700::1111", False),
        ("64:ff9b::808:808", False),
        ("::ffff:8.8.8.8", False),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", True),
        ("198.18.0.1", True),
        ("ff02::1", True),
    ],
)
def test_knows_addresses_that_only_the_inside_can_reach(address, internal):
    assert is_internal_address(ipaddress.ip_address(address)) is internal


def test_a_public_name_is_no_cluster_name():
    assert not is_cluster_name("huggingface.co")
    assert not is_cluster_name("svc.acme.io")


@given(st.text(max_size=60))
def test_never_raises_for_what_a_user_wrote(text):
    for scheme in ("", "hf://", "https://", "oci://", "s3://", "pvc://"):
        answer = parse(scheme + text)
        assert isinstance(answer, Source) or answer.message
