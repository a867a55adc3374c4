"""The CRDs of the chart are those of the repository, to the letter, and outlive the release."""

import shutil
from pathlib import Path

import pytest
import yaml
from tests.chart.helm import CHART

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture
def crds(helm):
    def rendered(values=None, chart=CHART):
        objects = helm.template(values=values, chart=chart)
        return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == "CustomResourceDefinition"}

    return rendered


def test_the_charts_copy_is_the_repositorys():
    copies = {path.name: path.read_text() for path in (CHART / "files" / "crds").glob("*.yaml")}
    assert copies == {path.name: path.read_text() for path in CRDS.glob("*.yaml")}, "run `make crds`"


def test_nothing_is_lost_on_the_way_through_helm(crds):
    source = [yaml.safe_load(path.read_text()) for path in CRDS.glob("*.yaml")]
    assert {crd["metadata"]["name"]: crd["spec"] for crd in source} == {
        name: crd["spec"] for name, crd in crds().items()
    }


def test_braces_in_a_description_are_no_template(crds, tmp_path):
    chart = shutil.copytree(CHART, tmp_path / "stoker")
    path = next((chart / "files" / "crds").glob("*.yaml"))
    crd = yaml.safe_load(path.read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["description"] = text = 'A message such as {{ .Values.image.tag }} or {{ fail "read" }}.'
    path.write_text(yaml.safe_dump(crd))
    rendered = crds(chart=chart)[crd["metadata"]["name"]]
    assert rendered["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] == text


def test_each_is_small_enough_for_the_annotation_of_kubectl_apply():
    too_big = {path.name: size for path in CRDS.glob("*.yaml") if (size := path.stat().st_size) > 250_000}
    assert too_big == {}


@pytest.mark.parametrize(
    ("values", "annotations"),
    [
        pytest.param(
            {},
            {"helm.sh/resource-policy": "keep", "argocd.argoproj.io/sync-options": "Prune=false"},
            id="kept unless asked otherwise",
        ),
        pytest.param({"crds": {"keep": False}}, None, id="deleted with the release when asked"),
    ],
)
def test_they_outlive_the_release(crds, values, annotations):
    assert [crd["metadata"].get("annotations") for crd in crds(values).values()] == [annotations] * 2


def test_they_can_be_left_to_someone_else(crds):
    assert crds({"crds": {"enabled": False}}) == {}
