"""How people and tools see our kinds: explain, columns, scale, status, several owners."""

import json
import re
import time
from datetime import UTC, datetime

import pytest
from e2e.cluster.errors import ClusterError
from tests.kstatus import IN_PROGRESS, kstatus

from stoker.api.node_cache import NodeCacheStatus, PresentWeights, WeightsState
from stoker.api.status import (
    CacheStatus,
    CapacityStatus,
    Condition,
    InferenceServiceStatus,
    InstanceState,
    InstanceStatus,
    RevisionOutcome,
    RevisionPhase,
    RevisionStatus,
    ScalingDecision,
    ScalingStatus,
    StageTime,
    StartupStatus,
    TrafficTarget,
)

NOW = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)

STATUS = InferenceServiceStatus(
    observed_generation=1,
    conditions=(
        Condition(
            type="Ready",
            status="True",
            reason="Serving",
            message="2 of 2 instances are Ready.",
            last_transition_time=NOW,
            observed_generation=1,
        ),
    ),
    url="http://chat.default.svc",
    model_version="a09a354",
    ready="2/3",
    replicas=3,
    ready_replicas=2,
    selector="serving.stoker.dev/service=chat",
    revisions=(
        RevisionStatus(
            name="chat-5f3a9c01",
            model_revision="a09a354",
            weights_digest="sha256:" + "0" * 64,
            phase=RevisionPhase.SERVING,
            replicas=3,
            ready_replicas=2,
            weight=100,
            created=NOW,
            outcome=RevisionOutcome.PROMOTED,
            message="Took over after 40 s.",
        ),
    ),
    instances=(
        InstanceStatus(
            name="chat-5f3a9c01-5d5f8b9c7d-abcde",
            node="node-1",
            revision="chat-5f3a9c01",
            state=InstanceState.WARMING_UP,
            since=NOW,
            model_version="a09a354",
            message="Generates its first token.",
        ),
    ),
    capacity=CapacityStatus(
        requests_per_instance=32,
        context_length=8192,
        kv_cache_tokens=262_144,
        source="measured",
        arithmetic="262144 / 8192 = 32",
    ),
    scaling=ScalingStatus(
        desired=3,
        reason="Demand",
        message="61 slots of work, 32 per instance.",
        decisions=(ScalingDecision(time=NOW, desired=3, reason="Demand", message="61 / 32"),),
    ),
    startup=StartupStatus(
        p50_seconds=41.5,
        p90_seconds=60,
        stages=(StageTime(name=InstanceState.WEIGHTS, p50_seconds=20, p90_seconds=30.5),),
    ),
    cache=CacheStatus(nodes_ready=2, nodes_wanted=3, bytes=15_000_000_000),
    traffic=(TrafficTarget(revision="chat-5f3a9c01", weight=100),),
)


def chat(**spec):
    return {
        "apiVersion": "serving.stoker.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "chat"},
        "spec": {"model": {"uri": "hf://acme/tiny"}, "accelerator": {"type": "nvidia-l40s"}, **spec},
    }


@pytest.fixture(scope="module", autouse=True)
def published(kubectl):
    """The server publishes schema and short name a moment after the CRD is Established."""
    deadline_s = time.monotonic() + 30
    while True:
        try:
            kubectl("explain", "infer")
            break
        except ClusterError:
            if time.monotonic() > deadline_s:
                raise


@pytest.fixture
def explain(kubectl):
    """``explain(path)``: kubectl's text, with each paragraph in one line."""
    return lambda path: re.sub(r"(?<=\S)\n {4}(?=\S)", " ", kubectl("explain", path))


@pytest.fixture
def applied(kubectl, namespace):
    """``applied(object)``: the object, applied in the test's namespace, as the server returns it."""

    def apply(made, manager="user"):
        return kubectl(
            "apply", "--server-side", f"--field-manager={manager}", "-n", namespace, "-o", "json", "-f", "-",
            stdin=made,
        )  # fmt: skip

    return apply


@pytest.fixture
def with_status(kubectl, namespace):
    """``with_status(name, status)``: writes the status, as the operator does."""

    def write(kind, name, status):
        patch = json.dumps({"status": status.model_dump(mode="json", by_alias=True, exclude_none=True)})
        return kubectl(
            "patch", kind, name, "-n", namespace, "--subresource=status", "--type=merge", "-o", "json",
            "-p", patch,
        )  # fmt: skip

    return write


def test_explain_tells_the_fields_of_scaling(explain):
    text = explain("infer.spec.scaling")
    assert "How many replicas the scaler may and should run." in text
    assert "  schedule\t<[]Object>" in text
    assert "  minReplicas\t<integer> Fewest replicas; 0 lets the service go to zero. Default: 1." in text


def test_explain_says_which_fields_must_be_given_and_which_have_no_effect_yet(explain):
    assert "  uri\t<string> -required-" in explain("infer.spec.model")
    assert "Not in effect yet: there is no scaler." in explain("infer.spec.scaling.objective")


def test_columns_show_what_a_person_asks_first(kubectl, namespace, applied, with_status):
    applied(chat())
    with_status("infer", "chat", STATUS)
    header, row = kubectl("get", "infer", "-n", namespace).splitlines()
    assert header.split() == ["NAME", "MODEL", "VERSION", "READY", "DESIRED", "REASON", "URL", "AGE"]
    assert row.split()[:-1] == [
        "chat", "hf://acme/tiny", "a09a354", "2/3", "3", "Serving", "http://chat.default.svc",
    ]  # fmt: skip
    assert "2 of 2 instances are Ready." in kubectl("get", "infer", "-n", namespace, "-o", "wide")


def test_a_service_is_among_all_of_stokers_objects(kubectl, namespace, applied):
    applied(chat())
    assert (
        kubectl("get", "stoker", "-n", namespace, "-o", "name") == "inferenceservice.serving.stoker.dev/chat"
    )


def test_scaling_by_hand_pins_the_replicas(kubectl, namespace, applied, with_status):
    applied(chat())
    with_status("infer", "chat", STATUS)
    kubectl("scale", "infer", "chat", "--replicas=4", "-n", namespace)
    assert kubectl("get", "infer", "chat", "-n", namespace, "-o", "jsonpath={.spec.replicas}") == "4"
    scale = kubectl("get", "infer", "chat", "--subresource=scale", "-n", namespace, "-o", "json")
    assert scale["spec"]["replicas"] == 4
    assert scale["status"] == {"replicas": 3, "selector": "serving.stoker.dev/service=chat"}


def test_nothing_of_a_status_is_dropped(applied, with_status):
    applied(chat())
    written = STATUS.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert with_status("infer", "chat", STATUS)["status"] == written


def test_the_models_read_what_the_server_stores(applied, with_status):
    applied(chat())
    assert InferenceServiceStatus.model_validate(with_status("infer", "chat", STATUS)["status"]) == STATUS


def test_a_new_service_is_not_taken_for_ready_before_the_operator_has_seen_it(applied):
    made = applied(chat() | {"status": {"ready": "9/9"}})
    assert made["status"] == {"observedGeneration": -1}
    assert kstatus(made).status == IN_PROGRESS


def test_the_server_adds_nothing_to_a_spec(applied):
    whole = chat(
        engine={"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}}]},
        scaling={"objective": {}},
        rollout={"analysis": {}},
        podTemplate={
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
            "volumes": [{"name": "prompts", "configMap": {"name": "prompts", "optional": True}}],
            "volumeMounts": [{"name": "prompts", "mountPath": "/prompts", "readOnly": True}],
            "resources": {"requests": {"cpu": 2, "memory": "1.5Gi"}},
        },
    )
    assert applied(whole)["spec"] == whole["spec"]


def test_two_owners_each_keep_their_adapter(applied):
    model = {"uri": "hf://acme/tiny"}
    applied(chat(model=model | {"adapters": [{"name": "de", "uri": "hf://acme/de"}]}), manager="one")
    stored = applied(chat(model=model | {"adapters": [{"name": "fr", "uri": "hf://acme/fr"}]}), manager="two")
    assert {adapter["name"] for adapter in stored["spec"]["model"]["adapters"]} == {"de", "fr"}


def test_a_node_cache_keeps_what_both_sides_write(kubectl, applied, with_status, namespace):
    wanted = [{
        "name": "tiny-0123abcd",
        "uri": "hf://acme/tiny",
        "revision": "a09a354",
        "sha256": "0" * 64,
        "credentialsSecret": {"namespace": "default", "name": "hugging-face-token"},
    }]  # fmt: skip
    cache = {
        "apiVersion": "serving.stoker.dev/v1alpha1",
        "kind": "NodeCache",
        "metadata": {"name": namespace},
        "spec": {"wanted": wanted},
    }
    status = NodeCacheStatus(
        observed_generation=1,
        present=(
            PresentWeights(
                name="tiny-0123abcd",
                state=WeightsState.FETCHING,
                digest="sha256:" + "0" * 64,
                bytes=700_000,
                progress_percent=40,
                error="Tried 2 times.",
            ),
        ),
        free_bytes=1_000_000,
    )
    assert applied(cache)["spec"]["wanted"] == wanted
    stored = with_status("nodecache", namespace, status)
    assert stored["status"] == status.model_dump(mode="json", by_alias=True, exclude_none=True)
    kubectl("delete", "nodecache", namespace)
