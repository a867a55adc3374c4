"""`stoker plan`: does a model fit, how many requests at once, how many replicas, for how much?

The arithmetic is `stoker.core.capacity`; here are arguments, files and what is printed. A model whose
config lies on this machine is answered in a fraction of a second, so everything that a local config does
not need (pydantic, network clients, rich) is imported where it is used.
"""

from pathlib import Path
from typing import Any

import click

from stoker.cli.plan.run import run


@click.command(name="plan")
@click.option("--model", help="Model: hf://, s3://, gs://, az:// or https://, a folder, or a config.json.")
@click.option("--revision", help="Branch, tag or commit of the model.")
@click.option("--accelerator", help="Accelerator by its name in the catalogue, such as nvidia-l40s.")
@click.option("--count", type=int, help="Accelerators of one instance.  [default: 1]")
@click.option("--context", type=int, help="Most tokens of one request.  [default: the model's own]")
@click.option("--quantization", help="Form of the weights in memory, such as fp8.  [default: as stored]")
@click.option("--kv-dtype", help="Form of the KV cache, such as fp8.  [default: the model's own]")
@click.option("--max-num-seqs", type=int, help="Most requests at once.  [default: vLLM's]")
@click.option("--load", type=float, metavar="REQ_PER_S", help="Requests per second to find replicas for.")
@click.option("--prompt", type=int, metavar="N", help="Tokens of a typical prompt.")
@click.option("--output", type=int, metavar="N", help="Tokens of a typical answer.")
@click.option(
    "--objective",
    help="How soon requests start, as 2s@99: 99 % within 2 s.  [default: the service's, or 2s@99]",
)
@click.option("--advise", is_flag=True, help="Rank accelerators and quantizations by money.")
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="NAME=PRICE",
    help="Price of one accelerator for an hour, such as nvidia-l40s=1.20; may be given again.",
)
@click.option(
    "-f",
    "--filename",
    "service_file",
    type=click.Path(allow_dash=True, path_type=Path),
    help="File with an InferenceService to plan for; other options override it. - reads standard input.",
)
@click.option("--manifest", is_flag=True, help="Print an InferenceService to apply, and nothing else.")
@click.option(
    "-o", "output_format", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)
def command(**given: Any) -> None:
    """Say whether a model fits an accelerator, how many requests at once, how many replicas, for how much.

    Needs no cluster and no GPU. Exit status: 0 it fits, 1 it does not, 2 it cannot be told.

    \b
    stoker plan --model hf://Qwen/Qwen2.5-7B-Instruct --accelerator nvidia-l40s
    stoker plan --model ./my-model --advise --load 5 --prompt 1000 --output 250
    stoker plan -f service.yaml -o json
    """
    raise SystemExit(run(**given))
