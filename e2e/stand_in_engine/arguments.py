"""vLLM's command line, as far as an operator and its users set it.

An unknown flag ends with vLLM's message and exit code 2. Flags that change nothing here, because there
is no model to run, are taken and ignored; flags that would change answers and are not known here are
refused rather than ignored.
"""

import argparse
import json
import re

_KV_CACHE_DTYPES = (
    *("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla"),
    *("int8_per_token_head", "fp8_per_token_head", "nvfp4"),
)
_DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}

_IGNORED_SWITCHES = (
    *("--trust-remote-code", "--enforce-eager", "--enable-prefix-caching", "--enable-chunked-prefill"),
    *("--disable-log-stats", "--enable-log-requests", "--enable-prompt-tokens-details"),
    *("--async-scheduling", "--enable-expert-parallel", "--enable-sleep-mode", "--disable-fastapi-docs"),
)
_IGNORED_VALUES = (
    *("--tokenizer", "--tokenizer-mode", "--revision", "--code-revision", "--tokenizer-revision"),
    *(
        "--load-format",
        "--download-dir",
        "--quantization",
        "--seed",
        "--generation-config",
        "--config-format",
    ),
    *("--override-generation-config", "--hf-overrides", "--chat-template", "--compilation-config"),
    *("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--max-loras"),
    *("--max-lora-rank", "--distributed-executor-backend", "--disable-access-log-for-endpoints"),
    *("--uvicorn-log-level", "--limit-mm-per-prompt", "--root-path"),
)
_SHORT = {"--tensor-parallel-size": "-tp", "--pipeline-parallel-size": "-pp", "--data-parallel-size": "-dp"}
_SHORT |= {"--quantization": "-q"}


def make_parser() -> argparse.ArgumentParser:
    """The parser, from which the image's list of arguments is made as well."""
    parser = argparse.ArgumentParser(
        prog="api_server.py", description="vLLM OpenAI-Compatible RESTful API server (stand-in)."
    )
    add = parser.add_argument
    add("model_tag", nargs="?", help="folder of the model, as --model")
    add("--model", default="Qwen/Qwen3-0.6B", help="folder of the model")
    add("--served-model-name", nargs="+", help="names that clients may send, the first one for answers")
    add("--host", default="")
    add("--port", type=int, default=8000)
    add("--max-model-len", type=_length, help="context length; default: the model's")
    add("--max-num-seqs", type=int, help="requests in a batch; default: the profile's")
    add("--max-num-batched-tokens", type=_number, help="tokens in a step; default: the profile's")
    add("--max-num-queued-reqs", type=int, help="requests that wait or run, before 503")
    add("--gpu-memory-utilization", type=float, default=0.92)
    add("--num-gpu-blocks-override", type=int, help="blocks of KV cache, whatever the memory")
    add("--kv-cache-dtype", choices=_KV_CACHE_DTYPES, default="auto")
    add("--dtype", choices=_DTYPES, default="auto")
    add("--performance-mode", choices=("balanced", "interactivity", "throughput"), default="balanced")
    add("--runner", choices=("auto", "generate", "pooling", "draft"), default="auto")
    add("--middleware", action="append", default=[], help="import path of an ASGI middleware class")
    add("--enable-lora", action=argparse.BooleanOptionalAction, default=False)
    add("--lora-modules", nargs="+", default=[], help="NAME=PATH or JSON")
    add("--enable-server-load-tracking", action=argparse.BooleanOptionalAction, default=False)
    add("--disable-uvicorn-access-log", action=argparse.BooleanOptionalAction, default=False)
    for flag in _IGNORED_SWITCHES:
        add(flag, action=argparse.BooleanOptionalAction, default=False, help="ignored")
    for flag in _IGNORED_VALUES:
        names = (flag, _SHORT[flag]) if flag in _SHORT else (flag,)
        add(*names, help="ignored")
    return parser


def parse(words: list[str]) -> argparse.Namespace:
    """Read the command line; exits with code 2 and a message when it is wrong."""
    parser = make_parser()
    arguments = parser.parse_args([_spelled(word) for word in words])
    arguments.model = arguments.model_tag or arguments.model
    arguments.served_model_name = arguments.served_model_name or [arguments.model]
    try:
        arguments.lora_modules = dict(_adapter(text) for text in arguments.lora_modules)
    except ValueError as error:
        parser.error(f"argument --lora-modules: {error}")
    return arguments


def _spelled(word: str) -> str:
    """vLLM takes `_` for `-` in a flag."""
    if not word.startswith("--"):
        return word
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value


def _number(text: str) -> int:
    """`8192`, `8k` (8,000) or `8K` (8,192)."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG])", text.strip())
    return int(float(match[1]) * _SUFFIXES[match[2]]) if match else int(text)


_number.__name__ = "human_readable_int"


def _length(text: str) -> int | None:
    """As `_number`, or `auto` for what the model allows."""
    return None if text.strip() in ("-1", "auto") else _number(text)


_length.__name__ = "human_readable_int_or_auto"


def _adapter(text: str) -> tuple[str, str]:
    if text.startswith("{"):
        module = json.loads(text)
        return module["name"], module["path"]
    name, equals, path = text.partition("=")
    if not equals:
        raise ValueError(f"invalid lora module {text!r}: it must be NAME=PATH or JSON")
    return name, path


if __name__ == "__main__":
    # Here, as the engine itself does without the supervisor's package.
    from stoker_serving.engine_arguments import describe

    print(json.dumps(describe(make_parser(), engine="The stand-in engine"), indent=1))
