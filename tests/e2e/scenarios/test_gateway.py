"""What clients of the gateway get while instances and gateways come, leave, hang and die."""

import asyncio
import contextlib
import time
import uuid
from collections import Counter
from functools import partial

import aiohttp
import pytest
from e2e import install
from tests.cluster.world import eventually
from tests.e2e.scenarios import gateway as gateways
from tests.e2e.scenarios import operator_pods
from tests.e2e.scenarios.clients import prober, question, session, stream
from tests.e2e.scenarios.space import FIRST_BYTE_S, engine, model

SLOW = {"STAND_IN_FAULTS": '{"slow_factor": 10}'}
BOTH = f"both-{uuid.uuid4().hex[:8]}"
"""A name that two services claim. That of an earlier run may still be there, with its namespace."""
PAIR = {"model": model(aliases=[BOTH]), "engine": engine(**SLOW), "replicas": 2}
"""Two slow instances."""
TINY = {
    "model": model(aliases=[BOTH]),
    "engine": engine("--max-num-seqs", "2"),
    "queue": {"maxRequests": 2},
}
"""One instance; each replica of the gateway has half of its slots and one of its two places."""
LONG = {"max_tokens": 500, "ignore_eos": True}
"""About 10 s on a slow engine: longer than a gateway that leaves takes new requests."""
RUNNING = "stoker_gateway_num_requests_running"
WAITING = "stoker_gateway_num_requests_waiting"


@pytest.fixture
async def gateway(space):
    return await gateways.find(space)


async def test_services_of_two_namespaces_are_asked_by_their_names(space, elsewhere, gateway):
    await space.at_rest(**PAIR)
    await elsewhere.at_rest(**TINY)
    names = {BOTH: space, f"{space.namespace}/{BOTH}": space, f"{elsewhere.namespace}/{BOTH}": elsewhere}
    async with session() as client:
        for name, owner in names.items():
            status, headers, _ = await answer(client, gateway, name)
            assert status == 200
            assert headers["x-stoker-instance"] in [pod["metadata"]["name"] for pod in await owner.pods()]
        async with client.get(f"{gateway.url}/v1/models") as response:
            listed = {one["id"]: one for one in (await response.json())["data"]}
    for name, owner in ((BOTH, space), (f"{elsewhere.namespace}/{BOTH}", elsewhere)):
        version = (await owner.service())["status"]["modelVersion"]
        assert version
        assert (listed[name]["version"], listed[name]["owned_by"]) == (version, owner.namespace)


async def test_a_full_queue_and_no_instance_are_told_apart_and_the_next_instance_serves_at_once(
    elsewhere, gateway, record_property
):
    """Case G1."""
    await elsewhere.at_rest(**TINY)
    name = full_name(elsewhere)
    (pod,) = await elsewhere.pods()
    async with session() as client:
        async with fault(pod, stall_after_tokens=0):
            asked = [asyncio.create_task(answer(client, gateway, name)) for _ in range(60)]
            await eventually(lambda: _taken_or_done(gateway, asked, elsewhere), within_s=10)
        answers = await asyncio.gather(*asked)
        statuses = Counter(status for status, _, _ in answers)
        assert statuses.keys() == {200, 429}
        assert statuses[200] <= 16 + 2
        for status, headers, body in answers:
            if status == 429:
                assert (body["error"]["code"], body["error"]["type"]) == ("queue_full", "rate_limit_error")
                assert int(headers["Retry-After"]) >= 1

        await elsewhere.kubectl("scale", "infer", "chat", "--replicas=0")
        headers = await eventually(lambda: _no_instance(client, gateway, name), within_s=30)
        assert int(headers["Retry-After"]) >= 1

        await elsewhere.kubectl("scale", "infer", "chat", "--replicas=1")
        first = asyncio.create_task(eventually(lambda: _answered_at(client, gateway, name), within_s=60))
        ready_at = await eventually(lambda: _ready_at(elsewhere), within_s=60)
        waited_s = await first - ready_at
    record_property("ready_to_first_answer_s", f"{waited_s:.2f}")
    assert waited_s <= 1


async def test_a_gateway_that_is_deleted_finishes_its_streams_and_no_request_fails(space, gateway):
    await space.at_rest(**PAIR)
    name, pod = next(iter((await gateway.pods()).items()))
    async with (
        prober(gateway.url, name=full_name(space)) as probes,
        streams_to_each(gateway, 4, space, **LONG) as running,
    ):
        await eventually(lambda: _running(gateway, space, 8), within_s=5)
        await space.kubectl("delete", "pod", name, "--wait=false", "-n", install.NAMESPACE)
        await eventually(lambda: _closed(gateways.address(pod)), within_s=20)
        assert not any(one.done() for one in running), "streams outlive the port"
        assert [len(pieces) for pieces in await asyncio.gather(*running)] == [500] * 8
        await gateway.pods()
    assert probes.failed == []
    assert probes.answered > 50


async def test_streams_in_prefill_on_an_instance_that_is_killed_finish_on_the_other_one(
    space, gateway, layout, record_property
):
    """Case G6, and requests that come while the dead address is still listed."""
    await space.at_rest(**PAIR)
    doomed, other = await space.pods()
    of_service = {"namespace": space.namespace, "service": "chat"}
    async with fault(other, stall_after_tokens=0):
        await set_fault(doomed, stall_after_tokens=0)
        async with streams_to_each(gateway, 10, space) as asked:
            await eventually(lambda: _running(gateway, space, 20), within_s=5)
            assert await gateway.count(RUNNING, instance=doomed["metadata"]["name"], **of_service) >= 5
            operator_pods.kill(layout, doomed)
            await eventually(partial(_all_on, gateway, other, 20, **of_service), within_s=5)
            assert not any(one.done() for one in asked)
            await set_fault(other, slow_factor=10)
            async with prober(gateway.url, name=full_name(space)) as probes:
                assert [len(pieces) for pieces in await asyncio.gather(*asked)] == [4] * 20
                await eventually(lambda: _started_again(space, doomed), within_s=30)
                await space.at_rest(**PAIR)
    record_property("probes", str(probes))
    assert probes.failed == []


async def test_an_engine_that_hangs_holds_up_only_its_own_requests_and_gets_no_more(
    space, gateway, record_property
):
    """Case G7: about half of the streams meet the instance that never answers, then none."""
    await space.at_rest(**PAIR)
    _, hanging = await space.pods()
    of_service = {"namespace": space.namespace, "service": "chat"}
    retries = await gateway.count("stoker_gateway_retries_total", **of_service)
    async with fault(hanging, hang=True):
        async with streams_to_each(gateway, 12, space) as asked:
            of_hanging = of_service | {"instance": hanging["metadata"]["name"]}
            held = await eventually(
                lambda: _all_but_those_on(gateway, asked, **of_hanging), within_s=FIRST_BYTE_S / 2
            )
            assert 6 <= held <= 18
            assert [len(pieces) for pieces in await asyncio.gather(*asked)] == [4] * 24
        assert await gateway.count("stoker_gateway_instances", state="ejected", **of_service) == 2
        assert await gateway.count("stoker_gateway_retries_total", **of_service) == retries + held
        asked_at = time.monotonic()
        async with streams_to_each(gateway, 8, space) as asked:
            await asyncio.gather(*asked)
        waited_s = time.monotonic() - asked_at
    record_property("all_answered_once_ejected_s", f"{waited_s:.2f}")
    assert waited_s < FIRST_BYTE_S / 2


async def test_a_takeover_and_a_scale_down_fail_no_request(space, gateway, record_property):
    """Case G4 with the other reason to leave, too."""
    await space.at_rest(**PAIR)
    old = await space.selected()
    edited = PAIR | {"engine": engine("--max-num-seqs", "16", **SLOW)}
    async with prober(gateway.url, name=full_name(space)) as probes:
        async with streams_to_each(gateway, 4, space, **LONG) as running:
            await eventually(lambda: _running(gateway, space, 8), within_s=5)
            await space.apply(**edited)
            new = await space.candidate(old)
            await space.serving(revision=new, replicas=2)
            assert [len(pieces) for pieces in await asyncio.gather(*running)] == [500] * 8
        async with streams_to_each(gateway, 4, space, **LONG) as running:
            await eventually(lambda: _running(gateway, space, 8), within_s=5)
            await space.apply(**edited | {"replicas": 1})
            assert [len(pieces) for pieces in await asyncio.gather(*running)] == [500] * 8
        await space.at_rest(**edited | {"replicas": 1})
    retries = await gateway.count("stoker_gateway_retries_total", namespace=space.namespace, service="chat")
    record_property("probes", f"{probes}, {retries:.0f} retries")
    assert probes.failed == []


def full_name(space):
    """What always means this service; services of other files may claim its bare name."""
    return f"{space.namespace}/chat"


async def answer(client, gateway, name):
    """Status, headers and body of the gateway's answer to one question."""
    async with client.post(f"{gateway.url}/v1/completions", json=question(name=name)) as response:
        return response.status, response.headers, await response.json()


@contextlib.asynccontextmanager
async def streams_to_each(gateway, number, space, **fields):
    """So many streams on each replica, ended with the block."""
    body = question(name=full_name(space), **fields)
    urls = [gateways.address(pod) for pod in (await gateway.pods()).values()]
    async with session() as client:
        running = [asyncio.create_task(stream(client, url, body)) for url in urls for _ in range(number)]
        try:
            yield running
        finally:
            for one in running:
                one.cancel()


@contextlib.asynccontextmanager
async def fault(pod, **faults):
    """The engine of a pod has these faults, beside those that it had, within the block."""
    async with session() as client:
        async with client.get(f"{gateways.address(pod)}/faults") as response:
            before = await response.json()
        await set_fault(pod, **before | faults)
        try:
            yield
        finally:
            await set_fault(pod, **before)


async def set_fault(pod, **faults):
    """The engine of a pod has these faults and no other ones."""
    async with session() as client, client.post(f"{gateways.address(pod)}/faults", json=faults) as response:
        assert response.status == 200, await response.text()


async def _running(gateway, space, number):
    """So many requests are on instances, besides those of a prober."""
    assert await gateway.count(RUNNING, namespace=space.namespace) >= number


async def _all_on(gateway, pod, number, **labels):
    """So many requests are on the instance, or wait as it has no more room."""
    running = await gateway.count(RUNNING, instance=pod["metadata"]["name"], **labels)
    assert running + await gateway.count(WAITING, **labels) == number


async def _all_but_those_on(gateway, tasks, **labels):
    """How many requests are on an instance, once all others are answered."""
    held = await gateway.count(RUNNING, **labels)
    assert held + sum(task.done() for task in tasks) == len(tasks)
    return held


async def _taken_or_done(gateway, tasks, space):
    """Each request is on an instance, waits, or was refused."""
    taken = [await gateway.count(metric, namespace=space.namespace) for metric in (RUNNING, WAITING)]
    assert sum(taken) + sum(task.done() for task in tasks) == len(tasks)


async def _started_again(space, pod):
    assert (await space.lives())[pod["metadata"]["uid"]] > 0


async def _no_instance(client, gateway, name):
    status, headers, body = await answer(client, gateway, name)
    assert (status, body.get("error", {}).get("code")) == (503, "no_instance")
    return headers


async def _answered_at(client, gateway, name):
    status, _, body = await answer(client, gateway, name)
    assert status == 200, body
    return time.monotonic()


async def _ready_at(space):
    pods = [pod for pod in await space.pods() if "deletionTimestamp" not in pod["metadata"]]
    conditions = [c for pod in pods for c in pod["status"].get("conditions", ()) if c["type"] == "Ready"]
    assert [c["status"] for c in conditions] == ["True"], conditions
    return time.monotonic()


async def _closed(url):
    async with session(keep_alive=False) as client:
        try:
            async with client.get(f"{url}/v1/models"):
                pass
        except aiohttp.ClientConnectorError:
            return
    raise AssertionError("the port is open")
