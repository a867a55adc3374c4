"""What the chart renders, for each way that people install it.

After a change that is meant: `pytest tests/chart/test_render.py --update-golden`, and read the diff.
"""

from pathlib import Path

import pytest
import yaml
from tests.chart.cases import CASES
from tests.chart.helm import CHART, deployment_of

from stoker.gateway.settings import Settings

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]

cases = pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in CASES])


@cases
def test_renders_what_it_rendered_before(name, rendered, request):
    now = yaml.safe_dump_all(rendered(name), sort_keys=True, width=110)
    golden = GOLDEN / f"{name.replace(' ', '-')}.yaml"
    if request.config.getoption("--update-golden"):
        golden.write_text(now)
    assert now == golden.read_text()


def test_no_golden_file_is_left_of_a_case_that_is_gone():
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == {name.replace(" ", "-") for name in CASES}


@pytest.mark.parametrize("name", [None, *CASES], ids=lambda name: name or "chart alone")
def test_lints_without_a_warning(name, helm):
    assert "0 chart(s) failed" in helm(
        "lint", "--strict", str(CHART), values=CASES[name].values if name else {}
    )


def empty_fields(value, path=""):
    """Paths of nulls, empty maps and empty lists, which server-side apply would own for nothing.

    An empty selector is not one of them: it says "all".
    """
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in children:
        here = f"{path}.{key}"
        if child is None or (child in ({}, []) and not here.endswith("Selector")):
            yield here
        elif isinstance(child, dict | list):
            yield from empty_fields(child, here)


@cases
def test_nothing_is_rendered_empty(name, rendered):
    assert [path for obj in rendered(name) for path in empty_fields(obj, obj["kind"])] == []


CLUSTER_SCOPED = {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}


@cases
def test_every_object_says_where_it_lives(name, rendered):
    objects = rendered(name)
    allowed = {CASES[name].namespace, *CASES[name].values.get("watchNamespaces", [])}
    placed = {obj["metadata"].get("namespace") for obj in objects if obj["kind"] not in CLUSTER_SCOPED}
    assert placed == allowed


def test_a_namespaced_install_makes_nothing_for_the_whole_cluster(rendered):
    assert {obj["kind"] for obj in rendered("nothing outside of the namespaces")} & CLUSTER_SCOPED == set()


@cases
def test_labels_are_the_recommended_ones(name, rendered):
    for obj in rendered(name):
        labels = obj["metadata"]["labels"]
        recommended = {f"app.kubernetes.io/{key}" for key in (
            "name", "instance", "component", "version", "part-of", "managed-by"
        )}  # fmt: skip
        assert recommended <= labels.keys(), obj["metadata"]["name"]
        assert labels["app.kubernetes.io/instance"] == CASES[name].release


@cases
def test_names_fit_into_63_characters(name, rendered):
    assert [obj["metadata"]["name"] for obj in rendered(name) if len(obj["metadata"]["name"]) > 63] == []


components = pytest.mark.parametrize("component", ["operator", "gateway"])


@components
@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"commonLabels": {"a": "b"}}, id="common labels"),
        pytest.param({"operator": {"podLabels": {"a": "b"}}}, id="labels of the operator's pods"),
        pytest.param({"gateway": {"podLabels": {"a": "b"}}}, id="labels of the gateway's pods"),
        pytest.param({"image": {"tag": "9.9.9"}}, id="another version"),
    ],
)
def test_the_selector_never_changes(values, component, helm, rendered):
    before = deployment_of(rendered("defaults"), component)["spec"]
    after = deployment_of(helm.template(values=values), component)["spec"]
    assert before["selector"] == after["selector"]
    assert after["selector"]["matchLabels"].items() <= after["template"]["metadata"]["labels"].items()


@components
def test_a_pods_own_label_wins_over_a_common_one(component, helm):
    values = {"commonLabels": {"team": "a"}, component: {"podLabels": {"team": "b"}}}
    deployment = deployment_of(helm.template(values=values), component)
    assert deployment["metadata"]["labels"]["team"] == "a"
    assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "b"


def test_a_gateway_has_time_to_drain_before_it_is_killed(rendered):
    for name in ("defaults", "everything on", "gateways without a budget and bounds"):
        pod = deployment_of(rendered(name), "gateway")["spec"]["template"]["spec"]
        told = {v["name"]: v["value"] for v in pod["containers"][0]["env"]}
        needed_s = Settings().drain_delay_s + float(told["STOKER_DRAIN_SECONDS"])
        assert pod["terminationGracePeriodSeconds"] >= needed_s + 5


def test_version_is_that_of_the_distribution():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert f'version = "{chart["appVersion"]}"' in (ROOT / "pyproject.toml").read_text()


def test_notes_say_what_to_do_next(helm):
    where = ("--dry-run=client", "--namespace", "x", "--set", "watchNamespaces={users}")
    notes = helm("install", "stoker", str(CHART), *where).split("NOTES:")[1]
    for step in ("kubectl -n x rollout status", "kind: InferenceService", "kubectl -n users describe infer"):
        assert step in notes
