"""What Helm, Flux and Argo CD make of our statuses: done, in progress or failed, as a person would say.

kstatus is what Helm's `--wait` and Flux use. Argo CD runs the script of docs/install.md, which is
run here as it stands there, in the Lua that Argo CD has (5.1).
"""

import re
from pathlib import Path

import pytest
from lupa.lua51 import LuaRuntime
from tests.kstatus import CURRENT, FAILED, IN_PROGRESS, kstatus
from tests.unit.core.simulator import Cluster, a_service, a_spec

INSTALL = Path(__file__).parents[3] / "docs" / "install.md"
(SCRIPT,) = re.findall(r"```lua\n(.*?)```", INSTALL.read_text(), re.DOTALL)
ARGO_CD = {CURRENT: "Healthy", FAILED: "Degraded", IN_PROGRESS: "Progressing"}


def argo_cd_health(obj):
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.globals().obj = lua.table_from(obj, recursive=True)
    return lua.execute(SCRIPT)


def first_look():
    cluster = Cluster()
    cluster.step()
    return cluster


def serving(**spec):
    cluster = Cluster(a_service(a_spec(**spec)))
    cluster.settle()
    return cluster


def scaled_to_zero():
    return serving(replicas=0)


def edited_and_not_looked_at():
    cluster = serving()
    cluster.edit(engine={"image": "other:1"})
    return cluster


def candidate_that_is_not_ready():
    cluster = serving(replicas=2)
    cluster.edit(engine={"image": "broken:1"})
    cluster.step()
    (candidate,) = [name for name in cluster.deployments if name != cluster.selected]
    cluster.never_ready.add(candidate)
    for pod in [pod for pod in cluster.pods if pod.startswith(candidate)]:
        cluster.fail(pod, terminated={"exitCode": 1})
    cluster.step()
    return cluster


def candidate_past_its_deadline():
    cluster = candidate_that_is_not_ready()
    for name, deployment in cluster.deployments.items():
        if name != cluster.selected:
            deployment["status"]["conditions"] = [
                {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}
            ]
    cluster.step()
    return cluster


def one_of_three_crashes():
    cluster = serving(replicas=3)
    cluster.fail(next(iter(cluster.pods)), terminated={"exitCode": 1})
    cluster.move_on()
    cluster.step()
    return cluster


def all_crash():
    cluster = serving()
    for pod in cluster.pods:
        cluster.fail(pod, terminated={"exitCode": 1})
    cluster.move_on()
    cluster.step()
    return cluster


def impossible_spec():
    cluster = serving()
    cluster.edit(model={"uri": "ftp://x/y"})
    cluster.step()
    return cluster


@pytest.mark.parametrize(
    ("cluster", "verdict"),
    [
        pytest.param(first_look, IN_PROGRESS, id="new, its first pod not there yet"),
        pytest.param(serving, CURRENT, id="serving"),
        pytest.param(scaled_to_zero, CURRENT, id="scaled to zero on purpose is done"),
        pytest.param(edited_and_not_looked_at, IN_PROGRESS, id="an edit that nobody looked at yet"),
        pytest.param(candidate_that_is_not_ready, IN_PROGRESS, id="the old revision serves, the new starts"),
        pytest.param(candidate_past_its_deadline, FAILED, id="the old revision serves, the new gave up"),
        pytest.param(one_of_three_crashes, IN_PROGRESS, id="fewer instances than wanted"),
        pytest.param(all_crash, IN_PROGRESS, id="no instance, and it is being tried again"),
        pytest.param(impossible_spec, FAILED, id="a spec that cannot be carried out"),
    ],
)
def test_tools_see_what_a_person_would_say(cluster, verdict):
    service = cluster().service
    judged = kstatus(service)
    assert judged.status == verdict, service["status"]["conditions"]
    health = argo_cd_health(service)
    assert health.status == ARGO_CD[verdict]
    assert health.message


def test_argo_cd_does_not_take_a_service_without_a_status_for_healthy():
    assert argo_cd_health(a_service()).status == "Progressing"


@pytest.mark.parametrize(
    "cluster", [candidate_that_is_not_ready, candidate_past_its_deadline, impossible_spec]
)
def test_progress_and_failure_are_never_told_at_once(cluster):
    types = [condition["type"] for condition in cluster().status["conditions"]]
    assert len({"Reconciling", "Stalled"} & set(types)) == 1
