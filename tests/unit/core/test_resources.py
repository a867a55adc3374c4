import copy
import json

import pytest
from tests.unit.core.simulator import CONFIG, a_service

from stoker.core.resources import (
    Ownership,
    cluster_service,
    deployment,
    disruption_budget,
    kept_template,
    named,
    needed_change,
    ownership,
    service_account,
)

SERVICE = a_service()
REVISION = "chat-5f3a9c01"
SELECTOR = {"serving.stoker.dev/service": "chat", "serving.stoker.dev/revision": REVISION}
TEMPLATE = {"metadata": {"labels": SELECTOR}, "spec": {"containers": [{"name": "engine", "image": "x:1"}]}}


def a_deployment(*, template=TEMPLATE, replicas=2):
    return deployment(SERVICE, revision=REVISION, template=template, replicas=replicas, config=CONFIG)


def children():
    return [
        a_deployment(),
        cluster_service(SERVICE, serving=REVISION),
        disruption_budget(SERVICE, serving=REVISION),
        service_account(SERVICE),
    ]


@pytest.mark.parametrize("child", children(), ids=lambda child: child["kind"])
def test_every_child_says_whose_it_is(child):
    metadata = child["metadata"]
    assert metadata["namespace"] == "prod"
    assert metadata["labels"]["serving.stoker.dev/service"] == "chat"
    assert metadata["labels"]["app.kubernetes.io/managed-by"] == "stoker"
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("InferenceService", "chat", "uid-1")
    assert owner["controller"] is True
    assert owner["blockOwnerDeletion"] is False, "deleting the service must never wait for a child"
    assert "null" not in json.dumps(child)


def test_a_deployment_never_takes_an_instance_before_another_is_ready():
    spec = a_deployment()["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (2, 0, 600)
    assert spec["selector"]["matchLabels"] == SELECTOR


def test_the_service_selects_the_serving_revision_and_reaches_the_engine():
    spec = cluster_service(SERVICE, serving=REVISION)["spec"]
    assert spec["selector"] == SELECTOR
    (port,) = spec["ports"]
    assert (port["port"], port["targetPort"]) == (80, 8000)


def test_a_node_drain_may_always_take_one_serving_instance():
    spec = disruption_budget(SERVICE, serving=REVISION)["spec"]
    assert spec["maxUnavailable"] == 1
    assert spec["selector"]["matchLabels"] == SELECTOR


def test_instances_have_an_identity_without_a_token():
    assert service_account(SERVICE)["automountServiceAccountToken"] is False


def test_the_pod_template_is_kept_as_it_was_first_applied():
    assert kept_template(a_deployment()) == TEMPLATE


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", '"x"', "{}", '{"metadata": null}'),
        *('{"metadata": {"labels": {"other": "x"}}}', '{"metadata": {"labels": []}}'),
    ],
)
def test_a_kept_template_that_is_none_is_not_taken(text):
    live = a_deployment()
    live["metadata"]["annotations"]["serving.stoker.dev/pod-template"] = text
    assert kept_template(live) is None
    del live["metadata"]["annotations"]
    assert kept_template(live) is None


@pytest.mark.parametrize("child", children(), ids=lambda child: child["kind"])
def test_a_child_that_is_as_we_want_it_needs_no_write(child):
    live = copy.deepcopy(child)
    live["metadata"] |= {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-12-01T08:00:00Z"}
    live["metadata"]["labels"]["added-by"] = "somebody"
    live["status"] = {"observedGeneration": 1}
    assert needed_change(child, live) is None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param(lambda live: live["spec"].update(replicas=9), "spec.replicas", id="replicas"),
        pytest.param(
            lambda live: live["spec"]["template"]["spec"]["containers"][0].update(image="y"),
            "spec.template.spec.containers.engine.image",
            id="image",
        ),
        pytest.param(
            lambda live: live["metadata"]["labels"].pop("serving.stoker.dev/service"),
            "metadata.labels.serving.stoker.dev/service",
            id="label",
        ),
        pytest.param(
            lambda live: live["metadata"].pop("ownerReferences"),
            "metadata.ownerReferences",
            id="owner reference",
        ),
    ],
)
def test_drift_is_noticed_and_named(change, path):
    live = copy.deepcopy(a_deployment())
    change(live)
    needed = needed_change(a_deployment(), live)
    assert needed.drift
    assert needed.reason == f"somebody else changed `{path}`"


def test_a_selector_with_one_more_label_is_drift():
    live = copy.deepcopy(cluster_service(SERVICE, serving=REVISION))
    live["spec"]["selector"]["track"] = "canary"
    assert needed_change(cluster_service(SERVICE, serving=REVISION), live).drift


def test_a_change_of_ours_is_no_drift():
    needed = needed_change(a_deployment(replicas=3), a_deployment(replicas=2))
    assert (needed.reason, needed.drift) == ("`spec.replicas` is to change", False)


def test_a_child_that_is_not_there_is_to_be_made():
    assert needed_change(a_deployment(), None).reason == "it is not there"


def test_what_we_no_longer_want_to_say_is_noticed_too():
    live = copy.deepcopy(service_account(SERVICE))
    live["secrets"] = [{"name": "from an older release"}]
    live["metadata"]["annotations"]["serving.stoker.dev/spec-hash"] = "another"
    needed = needed_change(service_account(SERVICE), live)
    assert (needed.reason, needed.drift) == ("it says more than it should", False)


@pytest.mark.parametrize(
    ("metadata", "whose"),
    [
        pytest.param(
            {
                "ownerReferences": [
                    {"kind": "InferenceService", "name": "chat", "uid": "uid-1", "controller": True}
                ]
            },
            Ownership.OURS,
            id="owned by this very service",
        ),
        pytest.param(
            {
                "ownerReferences": [
                    {"kind": "InferenceService", "name": "chat", "uid": "uid-0", "controller": True}
                ]
            },
            Ownership.FORMER_SERVICE,
            id="owned by a deleted one of the same name",
        ),
        pytest.param(
            {"ownerReferences": [{"kind": "Deployment", "name": "chat", "uid": "x", "controller": True}]},
            Ownership.SOMEBODY_ELSE,
            id="owned by something else",
        ),
        pytest.param({}, Ownership.SOMEBODY_ELSE, id="of nobody and without our labels"),
        pytest.param(
            {"labels": service_account(SERVICE)["metadata"]["labels"]},
            Ownership.OURS,
            id="of nobody with our labels, as after an orphaning delete",
        ),
        pytest.param(
            {
                "labels": service_account(SERVICE)["metadata"]["labels"],
                "ownerReferences": [{"kind": "Helm", "name": "x", "uid": "x", "controller": True}],
            },
            Ownership.SOMEBODY_ELSE,
            id="with our labels, but somebody else's",
        ),
    ],
)
def test_an_object_of_the_name_of_a_child_is(metadata, whose):
    assert ownership({"metadata": {"name": "chat"} | metadata}, service=SERVICE) is whose


def test_finds_an_object_by_name():
    assert named("chat", [service_account(SERVICE)]) == service_account(SERVICE)
    assert named("other", [service_account(SERVICE)]) is None
