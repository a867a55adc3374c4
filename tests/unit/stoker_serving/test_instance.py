import pytest

from stoker_serving.engine_log import EngineLog
from stoker_serving.instance import Instance
from stoker_serving.liveness import Liveness, Look
from stoker_serving.shared_state import SharedState
from stoker_serving.stages import Stage
from stoker_serving.termination import Reason
from stoker_serving.warm_up import Served
from stoker_serving.weights import Weights


@pytest.fixture
def instance():
    shared = SharedState.create()
    yield Instance(revision="chat-1", shared=shared, liveness=Liveness(stuck_s=1.0, now_s=0.0))
    shared.close()


@pytest.mark.parametrize(
    ("stage", "started", "ready"),
    [
        (Stage.WEIGHTS, False, False),
        (Stage.STARTING, False, False),
        (Stage.LOADING, False, False),
        (Stage.WARMING_UP, False, False),
        (Stage.SERVING, True, True),
        (Stage.DRAINING, True, False),
    ],
)
def test_probes_by_stage(instance, stage, started, ready):
    instance.enter(stage)
    pages = instance.pages()
    assert pages["/startupz"]()[0] is started
    assert pages["/readyz"]()[0] is ready
    assert pages["/livez"]()[0] is True
    good, state = pages["/state"]()
    assert good is True
    assert state["ready"] is ready
    assert state["draining"] is (stage is Stage.DRAINING)
    assert state["stage"] == stage


def test_state_before_anything_is_known(instance):
    state = instance.state()
    assert state["weightsDigest"] == ""
    assert state["servedModels"] == []
    assert state["capacity"] is None
    assert state["measuring"] is False
    assert state["engine"] == {"name": "", "version": ""}


def test_state_says_what_is_served(instance):
    instance.weights = Weights(digest="sha256:1", model_version="a09a354")
    instance.served = Served(names=("chat", "adapter"), max_model_len=4096, owner="vllm")
    instance.engine_version = "0.32.0"
    instance.log = EngineLog()
    instance.log.feed(
        b"GPU KV cache size: 1,000 tokens, Maximum concurrency for 4,096 tokens per request: 0.24x\n"
    )
    state = instance.state()
    assert state["revision"] == "chat-1"
    assert state["modelVersion"] == "a09a354"
    assert state["weightsDigest"] == "sha256:1"
    assert state["servedModels"] == ["chat", "adapter"]
    assert state["engine"] == {"name": "vllm", "version": "0.32.0"}
    assert state["capacity"]["kvCacheTokens"] == 1000
    assert state["capacity"]["maxConcurrency"] == 0.24
    assert state["capacity"]["maxModelLen"] == 4096


def test_a_stuck_engine_fails_the_liveness_with_its_numbers(instance):
    slot = instance.shared.claim()
    slot.started()
    for at_s in range(1, 4):
        instance.liveness.look(Look(at_s=at_s, in_flight=1, last_token_s=0.0, counters=None, answers=True))
    alive, document = instance.alive()
    assert alive is False
    assert document == {"stalledSeconds": 3.0, "boundSeconds": 1.0, "inFlight": 1}
    failure = instance.stuck()
    assert failure.reason is Reason.ENGINE_STUCK
    assert "1 requests running and gave no token for 3 s; 1 s is the most" in failure.message
