"""Prints what vLLM's own parser takes, as `arguments.Known` reads it.

Runs once, when the image is built: `python -m stoker_serving.engine_arguments > engine_arguments.json`.
"""

import argparse
import importlib
import json
import sys
from typing import Any


def describe(parser: argparse.ArgumentParser, *, engine: str) -> dict[str, Any]:
    """The engine's name and each option string with the values it is limited to, if any."""
    flags = {
        option: [str(choice) for choice in action.choices or ()]
        for action in parser._actions
        for option in action.option_strings
    }
    return {"engine": engine, "flags": dict(sorted(flags.items()))}


def main() -> None:
    """Writes the list to standard output."""
    # Imported here and by name: only the image has vLLM, and only its build runs this.
    vllm = importlib.import_module("vllm")
    platform = importlib.import_module("vllm.platforms").current_platform
    if not platform.device_type:
        # The machine that builds the GPU image has no accelerator, and then vLLM makes no parser at all. It
        # only wants a name, which it offers as a value of `--mm-processor-device`.
        platform.device_type = "cuda"
    launchers = importlib.import_module("vllm.entrypoints.launchers.cli_args")
    parsers = importlib.import_module("vllm.utils.argparse_utils")
    parser = launchers.make_arg_parser(parsers.FlexibleArgumentParser())
    json.dump(describe(parser, engine=f"vLLM {vllm.__version__}"), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
