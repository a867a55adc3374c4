"""Reading objects of our kinds."""

import pytest
from pydantic import ValidationError

from stoker.api.spec import SpreadDomain
from stoker.api.v1alpha1 import InferenceService, NodeCache

MINIMAL = {
    "metadata": {"name": "chat"},
    "spec": {"model": {"uri": "hf://acme/tiny"}, "accelerator": {"type": "nvidia-l40s"}},
}


def service(**spec):
    return InferenceService.model_validate({**MINIMAL, "spec": {**MINIMAL["spec"], **spec}})


def test_five_lines_of_spec_give_what_the_design_says():
    spec = service().spec
    assert (spec.scaling.min_replicas, spec.scaling.max_replicas) == (1, 1)
    assert (spec.scaling.objective.start_within_seconds, spec.scaling.objective.percent) == (2, 99)
    assert (spec.queue.max_requests, spec.queue.max_wait_seconds) == (100, 30)
    assert [(step.weight, step.hold_seconds) for step in spec.rollout.steps] == [(10, 60), (50, 60)]
    assert (spec.rollout.max_surge, spec.rollout.keep_previous_seconds, spec.rollout.history_limit) == (
        1,
        600,
        5,
    )
    assert spec.availability.spread == (SpreadDomain.ZONE, SpreadDomain.NODE)
    assert spec.cache.prefetch
    assert spec.replicas is None


@pytest.mark.parametrize(
    ("scaling", "most"),
    [
        pytest.param({}, 1, id="one, if nothing is said"),
        pytest.param({"minReplicas": 0}, 1, id="one, if the service may go to zero"),
        pytest.param({"minReplicas": 3}, 3, id="as many as the least"),
        pytest.param({"minReplicas": 3, "maxReplicas": 8}, 8, id="what the user says"),
    ],
)
def test_the_most_replicas(scaling, most):
    assert service(scaling=scaling).spec.scaling.max_replicas == most


@pytest.mark.parametrize(
    ("accelerator", "resource"),
    [
        pytest.param({"type": "cpu"}, None, id="a processor is no extended resource"),
        pytest.param({"type": "nvidia-h100-80g"}, "nvidia.com/gpu", id="nvidia's device plugin"),
        pytest.param({"type": "amd-mi300x"}, "amd.com/gpu", id="amd's device plugin"),
        pytest.param(
            {"type": "nvidia-a100-40g", "resource": "nvidia.com/mig-3g.20gb"},
            "nvidia.com/mig-3g.20gb",
            id="what the user says",
        ),
    ],
)
def test_the_resource_of_an_accelerator(accelerator, resource):
    assert service(accelerator=accelerator).spec.accelerator.extended_resource == resource


def test_a_field_of_a_newer_release_is_left_out():
    assert service(scaling={"maxReplicas": 2, "inventedLater": 1}).spec.scaling.max_replicas == 2


def test_a_spec_cannot_be_changed_by_who_reads_it():
    with pytest.raises(ValidationError, match="frozen"):
        service().spec.replicas = 3


def test_python_code_may_use_its_own_spelling():
    assert service(scaling={"min_replicas": 2}).spec.scaling.min_replicas == 2


def test_a_node_cache_starts_empty():
    cache = NodeCache.model_validate({"metadata": {"name": "node-1"}})
    assert (cache.spec.wanted, cache.status.present) == ((), ())
