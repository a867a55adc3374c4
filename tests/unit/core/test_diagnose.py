import json

import pytest

from stoker.api.reasons import TerminationClass, Verdict
from stoker.core.diagnose import diagnose, sentences


def a_pod(name="chat-1", *, ready=False, scheduled=True, message="", node="node-1", **status):
    conditions = [
        {"type": "PodScheduled", "status": str(scheduled), "reason": "Unschedulable", "message": message},
        {"type": "Ready", "status": str(ready)},
    ]
    return {
        "metadata": {"name": name, "labels": {"serving.stoker.dev/revision": "chat-5f3a9c01"}},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": "Running", "conditions": conditions, **status},
    }


def engine(**status):
    return [{"name": "engine", "ready": False, "restartCount": 0, "state": {"running": {}}, **status}]


def weights(**status):
    return [{"name": "weights", "ready": False, "restartCount": 0, "state": {"running": {}}, **status}]


def waiting(reason, message=None, **status):
    return {"state": {"waiting": {"reason": reason, **({"message": message} if message else {})}}, **status}


def ended(code, reason="Error", message=None):
    return {"terminated": {"exitCode": code, "reason": reason, **({"message": message} if message else {})}}


def words(reason, message="", fix=""):
    return json.dumps({"reason": reason, "message": message, "fix": fix})


NO_CONFIG = "CreateContainerConfigError"
CRASH_LOOP = waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container")


@pytest.mark.parametrize(
    ("pod", "reason", "verdict", "told"),
    [
        pytest.param(
            a_pod(containerStatuses=engine(**CRASH_LOOP, lastState=ended(137, "OOMKilled"), restartCount=4)),
            "OutOfMemory",
            Verdict.CRASHING,
            [
                "exit code 137, 4 restarts",
                "chat-1 on node-1",
                "contextLength",
            ],
            id="killed by the kernel for its memory",
        ),
        pytest.param(
            a_pod(containerStatuses=engine(lastState=ended(137, "OOMKilled"), restartCount=1)),
            "OutOfMemory",
            Verdict.CRASHING,
            ["exit code 137)"],
            id="killed for its memory and starting again",
        ),
        pytest.param(
            a_pod(
                containerStatuses=engine(
                    **CRASH_LOOP,
                    lastState=ended(1, message=words("BadArguments", "--max-seq is unknown", "Use -x.")),
                )
            ),
            "BadArguments",
            Verdict.CRASHING,
            ["container engine: --max-seq is unknown", "Use -x."],
            id="the engine's supervisor says why",
        ),
        pytest.param(
            a_pod(containerStatuses=engine(state=ended(1, message=words("EngineStuck")))),
            "EngineStuck",
            Verdict.STUCK,
            [TerminationClass.ENGINE_STUCK.meaning.rstrip("."), TerminationClass.ENGINE_STUCK.what_to_do],
            id="a class alone brings its own words",
        ),
        pytest.param(
            a_pod(
                initContainerStatuses=weights(
                    **CRASH_LOOP, lastState=ended(1, message=words("WeightsMissing", "404"))
                )
            ),
            "WeightsMissing",
            Verdict.WEIGHTS_UNAVAILABLE,
            ["container weights: 404"],
            id="the fetcher says why",
        ),
        pytest.param(
            a_pod(
                initContainerStatuses=weights(
                    **CRASH_LOOP, lastState=ended(2, message="Traceback\nValueError: x\n")
                )
            ),
            "WeightsUnavailable",
            Verdict.WEIGHTS_UNAVAILABLE,
            ["container weights ended with exit code 2: ValueError: x"],
            id="the fetcher's last line of log",
        ),
        pytest.param(
            a_pod(containerStatuses=engine(**CRASH_LOOP, lastState=ended(139, message=words("NoSuchClass")))),
            "EngineCrashed",
            Verdict.CRASHING,
            ["ended with exit code 139"],
            id="words of a class that this version does not know",
        ),
        pytest.param(
            a_pod(containerStatuses=engine(**CRASH_LOOP, lastState=ended(1, message='"cut off'))),
            "EngineCrashed",
            Verdict.CRASHING,
            ['exit code 1: "cut off'],
            id="words that were cut off",
        ),
        pytest.param(
            a_pod(containerStatuses=engine(**CRASH_LOOP, lastState=ended(0, "Completed"))),
            "EngineCrashed",
            Verdict.CRASHING,
            ["ended with exit code 0"],
            id="an engine that ends again and again without an error",
        ),
        pytest.param(
            a_pod(containerStatuses=engine(**waiting("ImagePullBackOff", "not found"), image="acme/x:2")),
            "ImageUnavailable",
            Verdict.IMAGE_UNAVAILABLE,
            ["container engine cannot get its image acme/x:2: not found"],
            id="an image that is not there",
        ),
        pytest.param(
            a_pod(initContainerStatuses=weights(**waiting("ErrImagePull"))),
            "ImageUnavailable",
            Verdict.IMAGE_UNAVAILABLE,
            ["container weights cannot get its image"],
            id="an image of the fetcher",
        ),
        pytest.param(
            a_pod(
                initContainerStatuses=weights(
                    **waiting("CreateContainerConfigError", 'secret "token" not found')
                )
            ),
            "ReferenceMissing",
            Verdict.CRASHING,
            ['container weights cannot be made: secret "token" not found', "Create it in the namespace"],
            id="a Secret of the source that is not there",
        ),
        pytest.param(
            a_pod(
                containerStatuses=engine(**waiting("CreateContainerConfigError", 'configmap "x" not found'))
            ),
            "ReferenceMissing",
            Verdict.CRASHING,
            ['container engine cannot be made: configmap "x" not found'],
            id="a ConfigMap of the engine that is not there",
        ),
        pytest.param(
            a_pod(containerStatuses=engine(**waiting("RunContainerError", "exec: no such file"))),
            "Crashing",
            Verdict.CRASHING,
            ["container engine cannot be started: exec: no such file"],
            id="a container that cannot be started",
        ),
        pytest.param(
            a_pod(scheduled=False, node=None, message="0/3 nodes: 3 Insufficient nvidia.com/gpu."),
            "WaitingForNode",
            Verdict.WAITING_FOR_NODE,
            ["0/3 nodes: 3 Insufficient nvidia.com/gpu. Add a node"],
            id="O4: no node fits",
        ),
        pytest.param(
            a_pod(scheduled=False, node=None),
            "WaitingForNode",
            Verdict.WAITING_FOR_NODE,
            ["no node fits"],
            id="no node fits, and the scheduler is silent",
        ),
        pytest.param(
            {**a_pod(), "status": {"phase": "Failed", "reason": "Evicted"}},
            "Evicted",
            Verdict.CRASHING,
            ["the node put the instance out"],
            id="put out by its node",
        ),
        pytest.param(
            {**a_pod(), "status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}},
            "Evicted",
            Verdict.CRASHING,
            ["low on memory"],
            id="put out by its node, which says why",
        ),
    ],
)
def test_a_pod_with_a_problem_says_class_cause_and_fix(pod, reason, verdict, told):
    diagnosis = diagnose(pods=[pod], deployments=[])
    (problem,) = diagnosis.problems
    assert (problem.reason.value, problem.verdict, diagnosis.verdict) == (reason, verdict, verdict)
    for part in told:
        assert part in problem.sentence


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(ready=True, containerStatuses=engine(ready=True)), id="it is Ready"),
        pytest.param(
            a_pod(ready=True, containerStatuses=engine(ready=True, lastState=ended(137, "OOMKilled"))),
            id="it is Ready again after a crash",
        ),
        pytest.param(a_pod(containerStatuses=engine()), id="it starts"),
        pytest.param(
            a_pod(initContainerStatuses=weights(state=ended(0, "Completed"))), id="it has its weights"
        ),
        pytest.param(
            a_pod(containerStatuses=engine(**waiting("PodInitializing"))), id="it waits for weights"
        ),
        pytest.param(
            {**a_pod(scheduled=False), "metadata": {**a_pod()["metadata"], "deletionTimestamp": "x"}},
            id="it leaves",
        ),
        pytest.param({"metadata": {"name": "x"}}, id="it belongs to no revision"),
        pytest.param({"metadata": a_pod()["metadata"]}, id="it was made this moment"),
    ],
)
def test_a_pod_is_no_problem_when(pod):
    assert diagnose(pods=[pod], deployments=[]).problems == ()
    assert diagnose(pods=[pod], deployments=[]).verdict is None


def refused(message):
    condition = {"type": "ReplicaFailure", "status": "True", "message": message}
    return {"metadata": {"name": "chat-5f3a9c01"}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("message", "reason", "verdict"),
    [
        (
            'pods "x" is forbidden: exceeded quota: gpus',
            "QuotaExceeded",
            Verdict.WAITING_FOR_NODE,
        ),
        ('violates PodSecurity "restricted:latest": hostPath volumes', "PodRefused", Verdict.CRASHING),
        (None, "PodRefused", Verdict.CRASHING),
    ],
)
def test_pods_that_cannot_even_be_made_are_a_problem_of_the_revision(message, reason, verdict):
    (problem,) = diagnose(pods=[], deployments=[refused(message)]).problems
    assert (problem.subject, problem.reason.value, problem.verdict) == ("chat-5f3a9c01", reason, verdict)


def test_a_deployment_that_works_is_no_problem():
    fine = {
        "metadata": {"name": "x"},
        "status": {"conditions": [{"type": "ReplicaFailure", "status": "False"}]},
    }
    assert diagnose(pods=[], deployments=[fine, {"metadata": {"name": "y"}}]).problems == ()


def test_all_pods_are_looked_at_and_the_worst_comes_first():
    unscheduled = a_pod("chat-0", scheduled=False, node=None)
    no_image = a_pod("chat-1", containerStatuses=engine(**waiting("ImagePullBackOff")))
    crashing = a_pod("chat-2", containerStatuses=engine(**CRASH_LOOP, lastState=ended(1)))
    diagnosis = diagnose(pods=[unscheduled, no_image, a_pod("chat-3", ready=True), crashing], deployments=[])
    assert [problem.subject for problem in diagnosis.problems] == ["chat-2", "chat-1", "chat-0"]
    assert [problem.subject for problem in diagnosis.unhealthy] == ["chat-2", "chat-1"]
    assert [problem.subject for problem in diagnosis.short_of_nodes] == ["chat-0"]
    assert diagnosis.of_pod("chat-1").reason is Verdict.IMAGE_UNAVAILABLE
    assert diagnosis.of_pod("chat-3") is None
    assert diagnosis.of_revision("chat-5f3a9c01") == diagnosis
    assert diagnosis.of_revision("other").problems == ()


def test_a_page_of_an_answer_is_cut_to_what_a_status_can_hold():
    page = "<html>" * 10_000
    no_image = a_pod(containerStatuses=engine(**waiting("ErrImagePull", page)))
    crashed = a_pod("chat-2", containerStatuses=engine(state=ended(1, message=words("DiskFull", page, page))))
    for problem in diagnose(pods=[no_image, crashed], deployments=[]).problems:
        assert len(problem.sentence) < 2200


def test_a_message_names_five_and_counts_the_rest():
    pods = [a_pod(f"chat-{index}", scheduled=False) for index in range(7)]
    message = sentences(diagnose(pods=pods, deployments=[]).problems)
    assert message.count("WaitingForNode") == 5
    assert message.endswith("And 2 more like these.")
