"""An edit that cannot work is explained on the object, and what served goes on serving."""

import pytest
from tests.cluster.world import eventually
from tests.e2e.scenarios.clients import prober
from tests.e2e.scenarios.space import engine, model


@pytest.mark.parametrize(
    ("edit", "reason", "words"),
    [
        pytest.param(
            {"model": model(sha256="0" * 64)},
            "WeightsCorrupt",
            "0" * 64,
            id="a digest that the files do not have",
        ),
        pytest.param({"model": model("no-such")}, "WeightsMissing", "404", id="a model that is not there"),
        pytest.param(
            {"model": model("~status=403/tiny")}, "WeightsForbidden", "403", id="credentials that are refused"
        ),
        pytest.param(
            {"engine": engine("--max-num-seqz", "4")},
            "BadArguments",
            "--max-num-seqs",
            id="an unknown argument",
        ),
    ],
)
async def test_a_bad_edit_is_named_and_what_serves_goes_on(space, edit, reason, words):
    await space.at_rest()
    serving, lives = await space.selected(), await space.lives()
    async with prober(await space.url()) as probes:
        await space.apply(**edit)
        rolled_out = await space.reason("RolledOut", reason)
        assert words in rolled_out["message"]
        candidate = await space.candidate(serving)
        assert candidate in rolled_out["message"], "the pod is named"
        assert (await space.condition("InstancesHealthy"))["reason"] == reason
        assert (await space.condition("Ready"))["status"] == "True"
        assert await space.selected() == serving

        await space.apply()
        await space.serving(revision=serving)
        await eventually(lambda: _only(space, serving), within_s=30)
    assert probes.failed == []
    assert await space.lives() == lives


async def test_a_new_service_without_its_model_is_not_ready_and_says_why_until_it_is_corrected(space):
    await space.apply("new", model=model("no-such"))
    ready = await space.reason("Ready", "WeightsMissing", name="new")
    assert ready["status"] == "False"
    assert "no-such" in ready["message"]
    await space.apply("new")
    await space.serving("new")


async def _only(space, revision):
    assert [d["metadata"]["name"] for d in await space.deployments()] == [revision]
    assert all(pod["metadata"]["name"].startswith(revision) for pod in await space.pods())
