"""What the API server takes and refuses as an InferenceService, and what it says to a person."""
# ruff: noqa: E501 - the bad objects are a table, one a line

import re
from pathlib import Path

import pytest
from e2e.cluster.errors import ClusterError

from stoker.core.config import Config
from stoker.core.validation import ValidSpec, read_spec

ROOT = Path(__file__).parents[2]
CONFIG = Config(stoker_image="stoker", serving_image="serving", serving_image_cpu="serving-cpu")


def service(changes, name="sample"):
    """A minimal object with `changes`: values by dotted path; None takes a field away."""
    made = {
        "apiVersion": "serving.stoker.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"model": {"uri": "hf://acme/tiny"}, "accelerator": {"type": "nvidia-l40s"}},
    }
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = made
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            del place[last]
        else:
            place[last] = value
    return made


@pytest.fixture
def create(kubectl):
    """Has the API server look at an object as if it were to be made."""
    return lambda made: kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=made)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_taken(kubectl, example):
    kubectl("create", "--dry-run=server", "-f", str(example))


def entry(**changes):
    return [{"name": "day", "start": "08:00", "end": "18:00", "minReplicas": 1, **changes}]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"spec.model.uri": "hf://meta-llama/Llama-3.1-8B"}, id="a repository"),
        pytest.param({"spec.model.uri": "s3://acme-models/llama/3.1"}, id="a bucket"),
        pytest.param({"spec.model.uri": "gs://acme_models/llama"}, id="a bucket with an underscore"),
        pytest.param({"spec.model.uri": "az://models/llama"}, id="a container"),
        pytest.param(
            {"spec.model.uri": "oci://registry.acme.io:5000/models/llama"}, id="a registry with a port"
        ),
        pytest.param({"spec.model.uri": f"oci://r.acme.io/llama@sha256:{'a' * 64}"}, id="an image by digest"),
        pytest.param(
            {"spec.model.uri": "https://models.acme.io:8443/a/b.tar.gz"}, id="a web server with a port"
        ),
        pytest.param({"spec.model.uri": "pvc://models"}, id="a whole volume"),
        pytest.param({"spec.model.uri": "pvc://models/llama/3.1"}, id="a folder of a volume"),
        pytest.param({"spec.model.uri": "s3://acme-models/a..b/c"}, id="two dots inside a name"),
        pytest.param({"spec.model.revision": "refs/pr/7"}, id="a revision with slashes"),
        pytest.param({"spec.model.sha256": "0" * 64}, id="a digest"),
        pytest.param({"spec.model.name": "Qwen/Qwen2.5-7B-Instruct"}, id="a name as clients know it"),
        pytest.param({"metadata.name": "llama-3.1-8b"}, id="an object's name with dots"),
        pytest.param({"metadata.name": "a" * 63}, id="an object's name of 63 characters"),
        pytest.param({"spec.accelerator": {"type": "cpu"}}, id="no accelerator"),
        pytest.param({"spec.accelerator": {"type": "cpu", "count": 1}}, id="no accelerator, said twice"),
        pytest.param(
            {"spec.accelerator": {"type": "gaudi-3", "resource": "habana.ai/gaudi"}}, id="another vendor"
        ),
        pytest.param({"spec.scaling": {"minReplicas": 5}}, id="a floor alone"),
        pytest.param({"spec.scaling": {"minReplicas": 3, "warmReplicas": 3}}, id="a floor that is the most"),
        pytest.param({"spec.scaling": {"minReplicas": 0, "zeroAfterSeconds": 60}}, id="down to zero"),
        pytest.param({"spec.scaling.schedule": entry(start="22:00", end="06:00")}, id="over midnight"),
        pytest.param(
            {"spec.scaling.schedule": entry(timeZone="America/Argentina/Buenos_Aires")}, id="a long zone"
        ),
        pytest.param({"spec.scaling.objective": {"percent": 99.9}}, id="part of a percent"),
        pytest.param({"spec.replicas": 0}, id="stopped by hand"),
        pytest.param({"spec.rollout.steps": [{"weight": 1}, {"weight": 99}]}, id="two steps"),
        pytest.param({"spec.availability.spread": []}, id="spread over nothing"),
        pytest.param(
            {"spec.engine.args": ["--port-range", "1-2", "--hosted", "x"]}, id="arguments that look alike"
        ),
        pytest.param({"spec.podTemplate.resources.requests": {"cpu": 2, "memory": "1.5Gi"}}, id="quantities"),
    ],
)
def test_a_good_object_is_taken_and_comes_back_as_it_was(create, changes):
    made = service(changes)
    stored = create(made)
    assert stored["spec"] == made["spec"]
    assert isinstance(read_spec(stored, config=CONFIG), ValidSpec)


BAD = [
    # model
    pytest.param({"spec.model": None}, "spec.model: Required value", id="no model"),
    pytest.param({"spec.model": {}}, "spec.model.uri: Required value", id="no address"),
    pytest.param({"spec.model.uri": 7}, "spec.model.uri in body must be of type string", id="address of a wrong type"),
    pytest.param({"spec.model.uri": "ftp://acme/tiny"}, "spec.model.uri: .* start the address with hf://, s3://", id="unknown scheme"),
    pytest.param({"spec.model.uri": "acme/tiny"}, "start the address with hf://", id="no scheme"),
    pytest.param({"spec.model.uri": "hf://tiny"}, "hf:// is followed by OWNER/NAME", id="repository without owner"),
    pytest.param({"spec.model.uri": "hf://acme/tiny/a09a354"}, "a commit or tag goes into model.revision", id="repository with more"),
    pytest.param({"spec.model.uri": "s3://models"}, "s3:// is followed by BUCKET/PATH", id="bucket without path"),
    pytest.param({"spec.model.uri": "s3://Models/a"}, "s3:// is followed by BUCKET/PATH", id="bucket in upper case"),
    pytest.param({"spec.model.uri": "gs:///a"}, "gs:// is followed by BUCKET/PATH", id="no bucket"),
    pytest.param({"spec.model.uri": "az://models"}, "az:// is followed by CONTAINER/PATH", id="container without path"),
    pytest.param({"spec.model.uri": "oci://registry.acme.io"}, "oci:// is followed by REGISTRY/NAME", id="registry without name"),
    pytest.param({"spec.model.uri": "https://me:secret@acme.io/a"}, "without user, query and fragment", id="password in the address"),
    pytest.param({"spec.model.uri": "https://acme.io/a?token=secret"}, "keys go into the Secret", id="token in the address"),
    pytest.param({"spec.model.uri": "https://acme.io"}, "https:// is followed by HOST/PATH", id="host without path"),
    pytest.param({"spec.model.uri": "pvc://Models/a"}, "pvc:// is followed by CLAIM", id="claim in upper case"),
    pytest.param({"spec.model.uri": "s3://acme-models/../secrets"}, "without . or ..", id="path that leaves"),
    pytest.param({"spec.model.uri": "pvc://models/./a"}, "without . or ..", id="path with a dot"),
    pytest.param({"spec.model.uri": "s3://acme-models//a"}, "without . or .. or nothing", id="path with nothing"),
    pytest.param({"spec.model.uri": "https://acme.io/%2e%2e/a"}, "HOST/PATH in plain characters", id="path in disguise"),
    pytest.param({"spec.model.uri": "s3://acme-models/" + "a" * 1024}, "spec.model.uri: Too long", id="endless address"),
    pytest.param({"spec.model.revision": "--to=/etc"}, "write a commit, tag or version", id="revision that is an argument"),
    pytest.param({"spec.model.revision": 1e10}, "spec.model.revision in body must be of type string", id="revision without quotes"),
    pytest.param({"spec.model.sha256": "sha256:" + "a" * 64}, "without sha256: in front", id="digest with prefix"),
    pytest.param({"spec.model.sha256": "A" * 64}, "64 lower-case hexadecimal characters", id="digest in upper case"),
    pytest.param({"spec.model.sha256": "a" * 63}, "64 lower-case hexadecimal characters", id="digest too short"),
    pytest.param({"spec.model.name": "my model"}, "spec.model.name: .* start the name with a letter or digit", id="name with a space"),
    pytest.param({"spec.model.aliases": ["--trust-remote-code"]}, r"spec.model.aliases\[0\]: .* start the name", id="alias that is an argument"),
    pytest.param({"spec.model.aliases": ["a", "a"]}, r"spec.model.aliases\[1\]: Duplicate value", id="alias twice"),
    pytest.param({"spec.model.name": "a", "spec.model.aliases": ["a"]}, "remove the name of the model from aliases", id="alias that is the name"),
    pytest.param({"spec.model.credentialsSecret": "My_Secret"}, "write the name of a Secret", id="Secret of a wrong name"),
    pytest.param({"spec.model.contextLength": 0}, "greater than or equal to 1", id="context of nothing"),
    pytest.param({"spec.model.contextLength": "32k"}, "must be of type integer", id="context in words"),
    pytest.param({"spec.model.quantization": "fp 8"}, "use one word as the engine knows it", id="quantization with a space"),
    pytest.param(
        {"spec.model.adapters": [{"name": "a", "uri": "hf://x/a"}, {"name": "a", "uri": "hf://x/b"}]},
        r"spec.model.adapters\[1\]: Duplicate value",
        id="adapter twice",
    ),
    pytest.param(
        {"spec.model.name": "a", "spec.model.adapters": [{"name": "a", "uri": "hf://x/a"}]},
        "give the adapter another name than the model",
        id="adapter with the model's name",
    ),
    pytest.param({"spec.model.adapters": [{"name": "a"}]}, r"adapters\[0\].uri: Required value", id="adapter from nowhere"),
    pytest.param({"spec.model.adapters": [{"name": "../a", "uri": "hf://x/a"}]}, "start the name with a letter", id="adapter that leaves its folder"),
    pytest.param({"spec.model.adapters": [{"name": "a", "uri": "pvc://x/a"}]}, "only the model can come from pvc://", id="adapter from a volume"),
    pytest.param({"spec.model.adapters": [{"name": "a", "uri": "http://x/a"}]}, "start the address with hf://", id="adapter of an unknown scheme"),
    # engine
    pytest.param({"spec.engine.image": "my image"}, "write an image as REGISTRY/NAME:TAG", id="image with a space"),
    pytest.param({"spec.engine.args": ["--port=9000"]}, "as Stoker says where an instance listens", id="another port"),
    pytest.param({"spec.engine.args": ["--model", "x"]}, "which model.uri and model.name say", id="another model"),
    pytest.param({"spec.engine.args": ["--served_model_name=x"]}, "which model.uri and model.name say", id="another name, with underscores"),
    pytest.param({"spec.engine.args": ["--uds", "/tmp/x"]}, "as Stoker says where an instance listens", id="a socket"),
    pytest.param({"spec.engine.args": ["--ssl-keyfile", "/tmp/x"]}, "as Stoker says where an instance listens", id="a key of its own"),
    pytest.param({"spec.engine.args": "--enforce-eager"}, "spec.engine.args in body must be of type array", id="arguments in one string"),
    pytest.param({"spec.engine.env": [{"name": "A", "value": 1}]}, "must be of type string", id="variable with a number"),
    pytest.param({"spec.engine.env": [{"name": "1A"}]}, "start the name with a letter or _", id="variable of a wrong name"),
    pytest.param({"spec.engine.env": [{"name": "A"}, {"name": "A"}]}, r"env\[1\]: Duplicate value", id="variable twice"),
    pytest.param(
        {"spec.engine.env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
        "give value or valueFrom, not both",
        id="variable with two values",
    ),
    pytest.param({"spec.engine.env": [{"name": "STOKER_REVISION", "value": "x"}]}, "Stoker sets it for every instance", id="variable of ours"),
    pytest.param({"spec.engine.performance": "fast"}, 'supported values: "interactivity", "balanced", "throughput"', id="unknown tuning"),
    # accelerator
    pytest.param({"spec.accelerator": None}, "spec.accelerator: Required value", id="no accelerator"),
    pytest.param({"spec.accelerator.type": "NVIDIA L40S"}, "use lower-case letters, digits and dashes", id="type in upper case"),
    pytest.param({"spec.accelerator.type": "l40s"}, "name the extended resource in resource", id="type without vendor"),
    pytest.param({"spec.accelerator": {"type": "cpu", "resource": "nvidia.com/gpu"}}, "remove resource, or name an accelerator in type", id="resource for no accelerator"),
    pytest.param({"spec.accelerator": {"type": "cpu", "count": 2}}, "set count to 1, or name an accelerator", id="split over processors"),
    pytest.param({"spec.accelerator.count": 0}, "greater than or equal to 1", id="none of an accelerator"),
    pytest.param({"spec.accelerator.count": 17}, "less than or equal to 16", id="more than a node has"),
    pytest.param({"spec.accelerator.count": 1.5}, "must be of type integer", id="half an accelerator"),
    pytest.param({"spec.accelerator.resource": "gpu"}, "write the extended resource as DOMAIN/NAME", id="resource without domain"),
    pytest.param({"spec.accelerator.alternatives": []}, "alternatives in body should have at least 1 items", id="empty alternatives"),
    pytest.param({"spec.accelerator.alternatives": [{"type": "tpu-v5"}]}, r"alternatives\[0\].type: .* name the extended resource", id="alternative without resource"),
    # scaling
    pytest.param({"spec.scaling": {"minReplicas": 3, "maxReplicas": 2}}, "spec.scaling.maxReplicas: .* raise maxReplicas or lower minReplicas", id="fewest above most"),
    pytest.param({"spec.scaling.minReplicas": -1}, "greater than or equal to 0", id="negative floor"),
    pytest.param({"spec.scaling.maxReplicas": 0}, "greater than or equal to 1", id="most of nothing"),
    pytest.param({"spec.scaling.maxReplicas": 501}, "less than or equal to 500", id="most above the limit"),
    pytest.param({"spec.scaling.minReplicas": "2"}, "must be of type integer", id="floor in quotes"),
    pytest.param({"spec.scaling.warmReplicas": 2}, "raise maxReplicas or lower warmReplicas", id="warm above the implied most"),
    pytest.param({"spec.scaling": {"minReplicas": 1, "zeroAfterSeconds": 600}}, "set minReplicas to 0", id="zero with a floor"),
    pytest.param({"spec.scaling": {"zeroAfterSeconds": 600}}, "set minReplicas to 0", id="zero with the usual floor"),
    pytest.param({"spec.scaling.holdSeconds": -1}, "greater than or equal to 0", id="negative seconds"),
    pytest.param({"spec.scaling.holdSeconds": "10m"}, "must be of type integer", id="seconds as a duration"),
    pytest.param({"spec.scaling.objective.percent": 100}, "percent in body should be less than 100", id="a promise of 100 percent"),
    pytest.param({"spec.scaling.objective.startWithinSeconds": 0}, "should be greater than 0", id="start in no time"),
    pytest.param({"spec.scaling.concurrency": 0}, "greater than or equal to 1", id="no concurrency"),
    pytest.param({"spec.scaling.schedule": entry(timeZone="CET+1")}, "write the IANA name of a time zone", id="zone as an offset"),
    pytest.param({"spec.scaling.schedule": entry(timeZone="europe/zurich")}, "write the IANA name of a time zone", id="zone in lower case"),
    pytest.param({"spec.scaling.schedule": entry(start="8:00")}, 'write the time as "HH:MM"', id="time of three digits"),
    pytest.param({"spec.scaling.schedule": entry(end="24:00")}, 'write the time as "HH:MM"', id="time after the day"),
    pytest.param({"spec.scaling.schedule": entry(start=480)}, "must be of type string", id="time without quotes"),
    pytest.param({"spec.scaling.schedule": entry(end="08:00")}, "end at another time than start", id="a moment"),
    pytest.param({"spec.scaling.schedule": entry(days=["Monday"])}, 'supported values: "Mon", "Tue"', id="unknown day"),
    pytest.param({"spec.scaling.schedule": entry(days=[])}, "should have at least 1 items", id="no day"),
    pytest.param({"spec.scaling.schedule": entry(minReplicas=2)}, "raise maxReplicas to the highest minReplicas", id="floor above the most"),
    pytest.param({"spec.scaling.schedule": entry() + entry()}, r"schedule\[1\]: Duplicate value", id="entry twice"),
    # replicas, queue
    pytest.param({"spec.replicas": -1}, "greater than or equal to 0", id="replicas below the range"),
    pytest.param({"spec.replicas": 501}, "less than or equal to 500", id="replicas above the range"),
    pytest.param({"spec.queue.maxRequests": -5}, "greater than or equal to 0", id="negative queue"),
    pytest.param({"spec.queue.maxWaitSeconds": 0}, "greater than or equal to 1", id="no patience"),
    # rollout
    pytest.param({"spec.rollout.strategy": "Recreate"}, 'supported values: "Canary", "BlueGreen"', id="unknown strategy"),
    pytest.param({"spec.rollout.steps": []}, "should have at least 1 items", id="no steps"),
    pytest.param({"spec.rollout.steps": [{"weight": 50}, {"weight": 10}]}, "order the steps by weight", id="steps that go down"),
    pytest.param({"spec.rollout.steps": [{"weight": 50}, {"weight": 50}]}, "each with more than the one before", id="steps that stay"),
    pytest.param({"spec.rollout.steps": [{"weight": 100}]}, "less than or equal to 99", id="a step with everything"),
    pytest.param({"spec.rollout": {"strategy": "BlueGreen", "steps": [{"weight": 5}]}}, "remove steps, or set strategy to Canary", id="steps without canary"),
    pytest.param({"spec.rollout.maxSurge": -1}, "greater than or equal to 0", id="negative surge"),
    pytest.param({"spec.rollout.paused": "yes"}, "must be of type boolean", id="paused in words"),
    pytest.param({"spec.rollout.historyLimit": 0}, "greater than or equal to 1", id="no history"),
    pytest.param({"spec.rollbackTo": "Chat_1"}, "write the name of a revision", id="revision of a wrong name"),
    # the rest
    pytest.param({"spec.availability.spread": ["Rack"]}, 'supported values: "Zone", "Node"', id="unknown domain"),
    pytest.param({"spec.cost.perAcceleratorHour": -0.5}, "greater than or equal to 0", id="negative price"),
    pytest.param({"spec.objectives.timeToFirstToken": {"percent": 95}}, "withinMilliseconds: Required value", id="promise without a time"),
    pytest.param({"spec.cache.nodeSelector": {"pool": "a b"}}, "use label values of letters", id="label with a space"),
    pytest.param({"spec.podTemplate.labels": {"serving.stoker.dev/revision": "x"}}, "remove labels that start with serving.stoker.dev/", id="label of ours"),
    pytest.param({"spec.podTemplate.volumes": [{"name": "weights", "emptyDir": {}}]}, "weights, model, credentials, tmp and shm are Stoker's own", id="volume of ours"),
    pytest.param(
        {"spec.podTemplate.volumeMounts": [{"name": "a", "mountPath": "/a"}]},
        "name a volume of podTemplate.volumes",
        id="mount of no volume",
    ),
    pytest.param(
        {
            "spec.podTemplate.volumes": [{"name": "a", "emptyDir": {}}],
            "spec.podTemplate.volumeMounts": [{"name": "a", "mountPath": "/weights/model"}],
        },
        "mount at an absolute path that is not below /weights",
        id="mount over the weights",
    ),
    pytest.param({"spec.podTemplate.resources.limits": {"nvidia.com/gpu": 1}}, "say the number of accelerators in accelerator.count", id="accelerators in two places"),
    pytest.param({"spec.podTemplate.resources.requests": {"memory": "64 GB"}}, "write quantities as Kubernetes does", id="quantity with a space"),
    pytest.param({"metadata.name": "a" * 64}, "shorten metadata.name to at most 63 characters", id="object's name of 64 characters"),
    pytest.param({"spec.scalling": {}}, 'unknown field "spec.scalling"', id="misspelt field"),
    pytest.param({"spec": []}, "spec in body must be of type object", id="spec of a wrong type"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "says"), BAD)
def test_a_bad_object_is_refused_with_what_to_change(create, changes, says):
    with pytest.raises(ClusterError, match=re.compile(says, re.DOTALL)):
        create(service(changes))
