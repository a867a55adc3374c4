"""Requests whose answers by the real vLLM are kept in `vllm-0.32.0.json`, to compare ours with.

Record again, against a vLLM that serves any small model as `--served-model-name tiny alias` with
`--max-model-len 512 --enable-server-load-tracking`:

    python tests/unit/stand_in_engine/recording.py http://127.0.0.1:8000 > vllm-0.32.0.json
"""

import http.client
import json
import sys
from urllib.parse import urlsplit

MESSAGES = [{"role": "user", "content": "hello world"}]
JSON = {"content-type": "application/json"}


def post(path, body, **headers):
    return ("POST", path, JSON | headers, json.dumps(body))


def chat(**body):
    return post("/v1/chat/completions", {"model": "tiny", "messages": MESSAGES, "max_tokens": 3} | body)


def completion(**body):
    return post("/v1/completions", {"model": "tiny", "prompt": "hello world", "max_tokens": 3} | body)


def streamed(**options):
    return {"stream": True, "ignore_eos": True, "stream_options": options or None}


CASES = {
    "health": ("GET", "/health", {}, None),
    "version": ("GET", "/version", {}, None),
    "ping": ("GET", "/ping", {}, None),
    "models": ("GET", "/v1/models", {}, None),
    "load": ("GET", "/load", {}, None),
    "unknown path": ("GET", "/v1/nothing", {}, None),
    "wrong method": ("GET", "/v1/chat/completions", {}, None),
    "embeddings of a model that generates": post("/v1/embeddings", {"model": "tiny", "input": "hello"}),
    "chat": chat(ignore_eos=True),
    "chat to an alias": chat(model="alias", ignore_eos=True),
    "chat without a model": chat(model=None, ignore_eos=True),
    "chat with max_completion_tokens": chat(max_completion_tokens=2, ignore_eos=True),
    "chat with a request id": post(
        "/v1/chat/completions",
        {"model": "tiny", "messages": MESSAGES, "max_tokens": 1},
        **{"x-request-id": "mine"},
    ),
    "chat with two choices": chat(n=2, ignore_eos=True),
    "chat with parts of text": chat(
        messages=[{"role": "user", "content": [{"type": "text", "text": "hello world"}]}], ignore_eos=True
    ),
    "chat stream": chat(**streamed()),
    "chat stream with two choices": chat(n=2, **streamed()),
    "chat stream with usage": chat(**streamed(include_usage=True)),
    "chat stream with continuous usage": chat(**streamed(include_usage=True, continuous_usage_stats=True)),
    "completion": completion(ignore_eos=True),
    "completion of two prompts": completion(prompt=["hello", "world"], ignore_eos=True),
    "completion of token ids": completion(prompt=[5, 6, 7], ignore_eos=True),
    "completion with echo": completion(echo=True, ignore_eos=True),
    "completion stream": completion(**streamed()),
    "completion stream with usage": completion(**streamed(include_usage=True)),
    "completion stream with continuous usage": completion(
        **streamed(include_usage=True, continuous_usage_stats=True)
    ),
    "tokenize a prompt": post("/tokenize", {"model": "tiny", "prompt": "hello world"}),
    "tokenize messages": post("/tokenize", {"model": "tiny", "messages": MESSAGES}),
    "tokenize with strings": post("/tokenize", {"prompt": "hello", "return_token_strs": True}),
    "unknown model in chat": chat(model="other"),
    "unknown model in a completion": completion(model="other"),
    "unknown model in tokenize": post("/tokenize", {"model": "other", "prompt": "hello"}),
    "unknown model in a stream": chat(model="other", stream=True),
    "no messages": post("/v1/chat/completions", {"model": "tiny"}),
    "no prompt": post("/v1/completions", {"model": "tiny"}),
    "empty messages": chat(messages=[]),
    "messages of a wrong type": chat(messages="hello"),
    "max_tokens of a wrong type": chat(max_tokens="many"),
    "max_tokens of zero": chat(max_tokens=0),
    "max_tokens below zero": chat(max_tokens=-1),
    "a completion of zero tokens": completion(max_tokens=0),
    "more max_tokens than the context": chat(max_tokens=100_000, stop=None, ignore_eos=True),
    "temperature below zero": chat(temperature=-1),
    "n of zero": chat(n=0),
    "stream_options without a stream": chat(stream_options={"include_usage": True}),
    "body that is no JSON": ("POST", "/v1/chat/completions", JSON, "{"),
    "body of a wrong media type": ("POST", "/v1/chat/completions", {"content-type": "text/plain"}, "{}"),
    "empty body": ("POST", "/v1/chat/completions", JSON, ""),
    "body that is a list": ("POST", "/v1/chat/completions", JSON, "[]"),
    "model of a wrong type": chat(model=5),
    "max_tokens as text": chat(max_tokens="3", ignore_eos=True),
    "max_tokens with a fraction": chat(max_tokens=2.5),
    "max_tokens of a list": chat(max_tokens=[3]),
    "empty prompt": completion(prompt=""),
    "prompt of no prompts": completion(prompt=[]),
    "prompt with too many characters": completion(prompt="hello world " * 600),
    "prompt with too many tokens": completion(prompt="a b " * 400),
    "prompt with too many token ids": completion(prompt=[5] * 600),
    "prompt that fills the context": completion(prompt=[5] * 512),
    "messages with too many characters": chat(messages=[{"role": "user", "content": "hello world " * 600}]),
    "messages with too many tokens": chat(messages=[{"role": "user", "content": "a b " * 400}]),
    "prompt and answer too long together": chat(
        messages=[{"role": "user", "content": "hello world " * 40}], max_tokens=500, ignore_eos=True
    ),
    "prompt too long in a stream": completion(prompt="a b " * 400, stream=True),
}


def ask(address, case):
    """Send one request; status, the headers that matter, and the body as text."""
    method, path, headers, body = case
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    kept = {name: answer.headers[name] for name in ("content-type", "allow") if name in answer.headers}
    return {"status": answer.status, "headers": kept, "body": text}


if __name__ == "__main__":
    url = urlsplit(sys.argv[1])
    answers = {name: ask((url.hostname, url.port), case) for name, case in CASES.items()}
    metrics = ask((url.hostname, url.port), ("GET", "/metrics", {}, None))
    json.dump({"answers": answers, "metrics": metrics}, sys.stdout, indent=1)
