"""Names that are hard on Kubernetes, and load that is none."""

import pytest
from tests.e2e.scenarios.clients import ask, question, session
from tests.e2e.scenarios.space import model

LONG = "llama-3.1-405b-instruct.fp8.tensor-parallel-16.long-context"


@pytest.mark.parametrize(
    ("service", "served"),
    [
        pytest.param("plain", "Meta-Llama-3.1-8B-Instruct.Q4_K_M", id="a model name in upper case with dots"),
        pytest.param("plain", "M" * 60, id="a model name of 60 characters"),
        pytest.param(LONG, LONG, id="a service name with dots of 59 characters"),
    ],
)
async def test_a_model_is_served_under_the_name_that_it_was_given(space, service, served):
    """Case O18."""
    name = {} if service == served else {"name": served}
    await space.at_rest(service, model=model(**name))
    url = await space.url(service)
    async with session() as client:
        async with client.get(f"{url}/v1/models") as response:
            assert [one["id"] for one in (await response.json())["data"]] == [served]
        await ask(client, url, question(name=served))


async def test_scrapes_and_probes_are_no_load(space):
    """Case O8: as long as only they arrive, nothing is in flight and no replica is wanted for it."""
    service = await space.at_rest("scraped", scaling={"maxReplicas": 3})
    (pod,) = await space.pods("scraped")
    address = pod["status"]["podIP"]
    async with session() as client:
        for _ in range(100):
            for page in (":8000/metrics", ":8000/health", ":8000/v1/models", ":8081/readyz", ":8081/livez"):
                async with client.get(f"http://{address}{page}") as response:
                    assert response.status == 200, page
            async with client.get(f"http://{address}:8081/state") as response:
                assert (await response.json())["inFlight"] == 0
    assert (await space.service("scraped"))["status"] == service["status"]
