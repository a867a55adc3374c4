"""Instances on loopback answer `/state`; the pods are what the API server would say about them."""

import asyncio

import aiohttp
import pytest
from aiohttp import web
from tests.unit.clock import Clock

from stoker.core.model import MeasuredCapacity
from stoker.signals.instance import InstanceReports

KEY = "demo/chat"
STATE = {
    "ready": True,
    "draining": False,
    "stage": "Serving",
    "revision": "chat-5f3a9c01",
    "modelVersion": "a09a354",
    "weightsDigest": "sha256:12",
    "inFlight": 3,
}


def pod(name="one", *, ready=True, container="c1", ip="127.0.0.1", state="running"):
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "status": {
            "podIP": ip,
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [{"name": "engine", "containerID": container, "state": {state: {}}}],
        },
    }


class Instance:
    """One server for all pods, as all of them are on loopback."""

    def __init__(self):
        self.state = dict(STATE)
        self.asked = 0

    async def handle(self, _):
        self.asked += 1
        return web.json_response(self.state)


@pytest.fixture
async def instance(unused_tcp_port):
    instance = Instance()
    application = web.Application()
    application.router.add_get("/state", instance.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    instance.port = unused_tcp_port
    await web.TCPSite(runner, "127.0.0.1", instance.port).start()
    yield instance
    await runner.cleanup()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def changed():
    return asyncio.Queue()


@pytest.fixture
async def reports(instance, clock, changed):
    async with aiohttp.ClientSession() as session:
        reports = InstanceReports(session, on_change=changed.put_nowait, clock=clock, port=instance.port)
        yield reports
        reports.close()


async def answered(changed):
    async with asyncio.timeout(5):
        return await changed.get()


async def settled(reports):
    """Wait until no question is under way."""
    async with asyncio.timeout(5):
        while questions := [
            entry.question
            for entries in reports._entries.values()
            for entry in entries.values()
            if entry.question
        ]:
            await asyncio.wait(questions)


async def test_a_ready_pod_is_asked_in_the_background_and_its_service_looked_at_again(reports, changed):
    assert reports.known(KEY, [pod()]) == {}
    assert reports.refresh(KEY, [pod()]) is not None
    assert await answered(changed) == KEY
    report = reports.known(KEY, [pod()])["one"]
    assert report.ready
    assert report.revision == "chat-5f3a9c01"
    assert report.in_flight == 3


async def test_a_pod_that_said_it_is_ready_is_not_asked_again(reports, changed, instance, clock):
    reports.refresh(KEY, [pod()])
    await answered(changed)
    clock.now_s = 1_000
    assert reports.refresh(KEY, [pod()]) is None
    await settled(reports)
    assert instance.asked == 1


MEASURED = {
    "kvCacheTokens": 65536,
    "maxConcurrency": 128.0,
    "maxModelLen": 512,
    "blocks": 4096,
    "blockSize": 16,
    "kvBytes": 1_073_741_824,
    "weightsBytes": 901_943_132,
    "visibleBytes": 2_147_483_648,
}
CAPACITY = MeasuredCapacity(
    kv_cache_tokens=65536,
    blocks=4096,
    block_size=16,
    max_concurrency=128.0,
    max_model_len=512,
    kv_bytes=1_073_741_824,
    weights_bytes=901_943_132,
    visible_bytes=2_147_483_648,
    engine_version="0.32.0",
)
NOTHING = MeasuredCapacity(**dict.fromkeys(MeasuredCapacity.__slots__) | {"engine_version": ""})


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param({"capacity": MEASURED, "engine": {"version": "0.32.0"}}, CAPACITY, id="all of it"),
        pytest.param({}, None, id="an older image says nothing"),
        pytest.param({"capacity": None}, None, id="not known"),
        pytest.param({"capacity": [1]}, None, id="not an object"),
        pytest.param({"capacity": {}, "engine": "vllm"}, NOTHING, id="an empty object"),
        pytest.param(
            {"capacity": dict(zip(MEASURED, ("9", None, -1, True, [], 10**400, -0.5), strict=False))},
            NOTHING,
            id="odd values count as not said",
        ),
    ],
)
async def test_a_report_has_what_the_engine_measured(reports, changed, instance, said, expected):
    instance.state |= said
    reports.refresh(KEY, [pod()])
    await answered(changed)
    assert reports.known(KEY, [pod()])["one"].capacity == expected


async def test_a_ready_pod_that_still_measures_is_asked_until_it_has(reports, changed, instance, clock):
    instance.state |= {"measuring": True, "capacity": MEASURED | {"visibleBytes": None}}
    reports.refresh(KEY, [pod()])
    await answered(changed)
    assert reports.known(KEY, [pod()])["one"].capacity.visible_bytes is None
    assert reports.refresh(KEY, [pod()]) == 1.0
    instance.state |= {"measuring": False, "capacity": MEASURED}
    clock.now_s = 1
    reports.refresh(KEY, [pod()])
    await answered(changed)
    assert reports.known(KEY, [pod()])["one"].capacity.visible_bytes == 2_147_483_648
    assert reports.refresh(KEY, [pod()]) is None


async def test_a_restarted_engine_is_asked_again_and_its_old_report_no_longer_counts(
    reports, changed, instance
):
    reports.refresh(KEY, [pod()])
    await answered(changed)
    restarted = pod(container="c2")
    assert reports.known(KEY, [restarted]) == {}
    instance.state["modelVersion"] = "b77c"
    reports.refresh(KEY, [restarted])
    await answered(changed)
    assert reports.known(KEY, [restarted])["one"].model_version == "b77c"


async def test_a_starting_pod_is_asked_again_later_and_at_once_when_it_becomes_ready(
    reports, changed, instance, clock
):
    instance.state |= {"ready": False, "stage": "Loading", "modelVersion": None, "weightsDigest": None}
    starting = pod(ready=False)
    reports.refresh(KEY, [starting])
    await answered(changed)
    assert reports.known(KEY, [starting])["one"].stage == "Loading"
    assert reports.known(KEY, [starting])["one"].model_version == ""
    assert reports.refresh(KEY, [starting]) == 1.0
    assert instance.asked == 1
    instance.state = dict(STATE)
    reports.refresh(KEY, [pod(ready=True)])
    await answered(changed)
    assert reports.known(KEY, [pod()])["one"].ready


async def test_an_answer_that_says_nothing_new_does_not_look_at_the_service(
    reports, changed, instance, clock
):
    instance.state |= {"ready": False, "stage": "Loading"}
    reports.refresh(KEY, [pod(ready=False)])
    await answered(changed)
    clock.now_s = 2
    reports.refresh(KEY, [pod(ready=False)])
    await settled(reports)
    assert instance.asked == 2
    assert changed.empty()


async def test_a_pod_that_cannot_be_reached_is_absent_and_asked_ever_less_often(reports, clock, instance):
    unreachable = pod(ip="127.0.0.2")  # nothing listens there
    reports._port = 1
    pauses_s = []
    for _ in range(8):
        reports.refresh(KEY, [unreachable])
        await settled(reports)
        pauses_s.append(reports.refresh(KEY, [unreachable]))
        clock.now_s += pauses_s[-1]
    assert reports.known(KEY, [unreachable]) == {}
    assert pauses_s == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.parametrize(
    "nowhere",
    [
        pytest.param(pod(ip=""), id="no address yet"),
        pytest.param(pod(state="waiting"), id="the engine is not running"),
        pytest.param({"metadata": {"name": "one", "uid": "u"}}, id="no status yet"),
    ],
)
async def test_a_pod_with_nobody_to_ask_is_not_asked(reports, nowhere):
    assert reports.refresh(KEY, [nowhere]) is None
    assert reports.known(KEY, [nowhere]) == {}


@pytest.mark.parametrize("missing", ["ready", "revision", "inFlight"])
async def test_an_answer_without_what_matters_is_no_answer(reports, instance, missing):
    del instance.state[missing]
    reports.refresh(KEY, [pod()])
    await settled(reports)
    assert reports.known(KEY, [pod()]) == {}


async def test_a_pod_or_service_that_is_gone_is_forgotten(reports, changed):
    reports.refresh(KEY, [pod("one"), pod("two")])
    await answered(changed)
    await settled(reports)
    reports.refresh(KEY, [pod("two")])
    assert set(reports._entries[KEY]) == {"uid-two"}
    reports.forget(KEY)
    assert reports._entries == {}
