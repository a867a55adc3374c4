import io
from pathlib import Path

import click
import pytest

from stoker.cli.plan.service_file import load_service, read_service

CHAT = """\
apiVersion: serving.stoker.dev/v1alpha1
kind: InferenceService
metadata: {name: chat}
spec:
  model: {uri: "hf://Qwen/Qwen2.5-7B-Instruct"}
  accelerator: {type: nvidia-l40s}
"""


@pytest.fixture
def written(tmp_path):
    """The path of a file with this text."""

    def write(text):
        path = tmp_path / "service.yaml"
        path.write_text(text)
        return path

    return write


def test_the_service_is_found_among_other_objects(written):
    service = load_service(written(f"kind: Secret\n---\n{CHAT}---\n"))
    assert read_service(service).accelerator.type == "nvidia-l40s"


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(CHAT))
    assert load_service(Path("-"))["metadata"]["name"] == "chat"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("a: [", "is not YAML", id="no YAML"),
        pytest.param("", "has to hold one InferenceService; it holds nothing", id="an empty file"),
        pytest.param("just words", "it holds a text", id="a text"),
        pytest.param("kind: Deployment", "it holds Deployment", id="another kind"),
        pytest.param("a: 1", "it holds a document without kind", id="no kind"),
        pytest.param(f"{CHAT}---\n{CHAT}", "it holds InferenceService, InferenceService", id="two of them"),
        pytest.param(
            CHAT.replace("serving.stoker.dev/v1alpha1", "serving.kserve.io/v1beta1"),
            "is of apiVersion serving.kserve.io/v1beta1; write serving.stoker.dev/v1alpha1",
            id="that of another product",
        ),
    ],
)
def test_a_file_without_one_service_is_refused(written, text, sentence):
    with pytest.raises(click.UsageError) as refused:
        load_service(written(text))
    assert sentence in refused.value.message
    assert "service.yaml" in refused.value.message
    assert "\n" not in refused.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(click.UsageError, match="No such file or directory"):
        load_service(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        pytest.param("uri:", "url:", "`spec.model.uri`: Field required", id="a field is missing"),
        pytest.param("hf://", "ftp://", "`model.uri`: the source must start with", id="a source of no kind"),
        pytest.param("type: nvidia-l40s", "count: 2", "`spec.accelerator.type`: Field", id="no accelerator"),
    ],
)
def test_a_wrong_spec_is_refused_by_its_field(written, old, new, sentence):
    with pytest.raises(click.UsageError) as refused:
        read_service(load_service(written(CHAT.replace(old, new))))
    assert sentence in refused.value.message
