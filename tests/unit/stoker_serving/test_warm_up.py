import json

import pytest

from stoker_serving.loopback import Answer
from stoker_serving.warm_up import NotWarm, warm_up

TOKEN = (200, {"usage": {"completion_tokens": 1}})


class ScriptedAnswers:
    """Answers by path; stands where `loopback.Engine` does."""

    def __init__(self, models, completion=TOKEN, embedding=(404, {})):
        self._answers = {
            "/v1/models": (
                200,
                {"data": [{"id": m, "max_model_len": 99, "owned_by": "vllm"} for m in models]},
            ),
            "/v1/completions": completion,
            "/v1/embeddings": embedding,
        }
        self.posted = []

    async def get(self, path, *, timeout_s):
        return self._answer(path)

    async def post(self, path, document, *, timeout_s):
        self.posted.append((path, document["model"]))
        return self._answer(path)

    def _answer(self, path):
        status, document = self._answers[path]
        return Answer(status=status, body=json.dumps(document).encode())


async def test_one_token_under_the_first_name_is_enough():
    engine = ScriptedAnswers(["chat", "chat-latest", "adapter"])
    served = await warm_up(engine, ("chat", "chat-latest"))
    assert served.names == ("chat", "chat-latest", "adapter")
    assert served.max_model_len == 99
    assert served.owner == "vllm"
    assert engine.posted == [("/v1/completions", "chat")]


async def test_a_model_that_only_embeds_is_asked_for_an_embedding():
    engine = ScriptedAnswers(["e"], completion=(404, {}), embedding=(200, {"data": [{"embedding": [0.1]}]}))
    await warm_up(engine, ("e",))
    assert engine.posted == [("/v1/completions", "e"), ("/v1/embeddings", "e")]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        pytest.param(ScriptedAnswers([]), "does not list chat; it lists no model", id="O6: no model"),
        pytest.param(ScriptedAnswers(["other"]), "it lists other", id="another model"),
        pytest.param(
            ScriptedAnswers(["chat"], completion=(500, {})), "got 500", id="the first request fails"
        ),
        pytest.param(
            ScriptedAnswers(["chat"], completion=(200, {"usage": {"completion_tokens": 0}})),
            "got no token",
            id="an answer without a token",
        ),
        pytest.param(ScriptedAnswers(["chat"], completion=(404, {})), "got 404", id="neither of both"),
    ],
)
async def test_anything_less_is_not_warm_and_says_why(engine, words):
    with pytest.raises(NotWarm, match=words):
        await warm_up(engine, ("chat",))
