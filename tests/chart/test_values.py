"""The values are described in one place, and a wrong one is refused with a message that helps."""

import json

import pytest
import yaml
from charts import generate
from tests.chart.helm import CHART, Refused

VALUES_YAML = (CHART / "values.yaml").read_text()
VALUES = yaml.safe_load(VALUES_YAML)
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def leaves(value, name=""):
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from leaves(child, f"{name}.{key}" if name else key)
    else:
        yield name


def test_every_value_is_described():
    described = generate.descriptions(VALUES_YAML)
    missing = [
        leaf
        for leaf in leaves(VALUES)
        if not any(leaf == name or leaf.startswith(f"{name}.") for name in described)
    ]
    assert missing == []


def test_every_comment_belongs_to_a_value():
    comments = [line for line in VALUES_YAML.splitlines() if line.lstrip().startswith("# ") and ": " in line]
    starts = {line.lstrip(" #").partition(": ")[0] for line in comments}
    names = {start for start in starts if start.replace(".", "").isalnum()} - {"Empty"}
    assert names == generate.descriptions(VALUES_YAML).keys()


def test_the_readme_holds_the_table_of_now():
    readme = (CHART / "README.md").read_text()
    assert readme == generate.with_table(readme, VALUES_YAML), "run `make chart`"


def our_objects(schema, name=""):
    """Schemas of the objects whose keys are ours, by dotted name."""
    if "properties" in schema:
        yield name, schema
        for key, child in schema["properties"].items():
            yield from our_objects(child, f"{name}.{key}" if name else key)


def test_the_schema_knows_exactly_the_values():
    for name, schema in our_objects(SCHEMA):
        values = VALUES
        for key in name.split(".") if name else []:
            values = values[key]
        assert schema["properties"].keys() - {"global"} == values.keys(), name
        assert schema["additionalProperties"] is False, name


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param({"replicas": 2}, ["additional properties 'replicas' not allowed"], id="unknown key"),
        pytest.param({"operator": {"replica": 2}}, ["/operator", "'replica' not allowed"], id="mistyped key"),
        pytest.param(
            {"operator": {"replicas": "2"}},
            ["/operator/replicas", "got string, want integer"],
            id="text for a number",
        ),
        pytest.param(
            {"operator": {"replicas": -1}}, ["/operator/replicas", "minimum"], id="negative replicas"
        ),
        pytest.param({"watchNamespaces": "team-a"}, ["/watchNamespaces", "want array"], id="text for a list"),
        pytest.param(
            {"watchNamespaces": ["Team_A"]}, ["/watchNamespaces/0", "'Team_A'"], id="no namespace's name"
        ),
        pytest.param({"watchNamespaces": ["a", "a"]}, ["/watchNamespaces", "equal"], id="a namespace twice"),
        pytest.param(
            {"image": {"repository": "stoker:dev"}},
            ["/image/repository", "'stoker:dev'"],
            id="tag in the repository",
        ),
        pytest.param(
            {"image": {"digest": "sha256:12"}}, ["/image/digest", "'sha256:12'"], id="half a digest"
        ),
        pytest.param(
            {"image": {"registry": "https://example.com"}}, ["/image/registry"], id="URL for a registry"
        ),
        pytest.param(
            {"image": {"tag": 1.1}}, ["/image/tag", "want string"], id="tag that YAML took for a number"
        ),
        pytest.param(
            {"image": {"pullPolicy": "Sometimes"}},
            ["/image/pullPolicy", "'IfNotPresent'"],
            id="no pull policy",
        ),
        pytest.param(
            {"image": {"pullSecrets": [{"name": "a"}]}},
            ["/image/pullSecrets/0", "want string"],
            id="object for a name",
        ),
        pytest.param(
            {"gateway": {"url": "models.example.com"}}, ["/gateway/url"], id="a host for a base URL"
        ),
        pytest.param({"gateway": {"workers": 0}}, ["/gateway/workers", "minimum"], id="no process at all"),
        pytest.param(
            {"gateway": {"service": {"type": "ExternalName"}}},
            ["/gateway/service/type", "'ClusterIP'"],
            id="no type of Service for a gateway",
        ),
        pytest.param({"log": {"format": "xml"}}, ["/log/format", "'json', 'text'"], id="unknown log format"),
        pytest.param(
            {"progressDeadlineSeconds": 0}, ["/progressDeadlineSeconds", "minimum"], id="no time at all"
        ),
        pytest.param(
            {"serviceMonitor": {"interval": "30"}},
            ["/serviceMonitor/interval", "'30'"],
            id="duration without a unit",
        ),
        pytest.param(
            {"networkPolicy": {"apiServerPorts": []}},
            ["/networkPolicy/apiServerPorts"],
            id="no way to the API server",
        ),
        pytest.param(
            {"crds": {"enabled": "yes please"}}, ["/crds/enabled", "want boolean"], id="text for a switch"
        ),
        pytest.param(
            {"commonLabels": {"app.kubernetes.io/name": "x"}},
            ["app.kubernetes.io/name is the chart's own", "commonLabels"],
            id="a label of the chart's own",
        ),
        pytest.param({"commonLabels": {"a": 1}}, ["/commonLabels/a", "want string"], id="number for a label"),
    ],
)
def test_refuses_a_wrong_value(helm, values, words):
    with pytest.raises(Refused) as refused:
        helm.template(values=values)
    for word in words:
        assert word in str(refused.value)


def test_a_parent_chart_may_set_globals(helm):
    assert helm.template(values={"global": {"clusterName": "blue"}})
