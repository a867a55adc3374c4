"""Plain data on standard output: JSON, YAML, and the service to apply."""

import json

import click

from stoker.cli.plan.options import Options
from stoker.cli.plan.question import Question
from stoker.core.model import JsonObject


def print_document(document: JsonObject, output_format: str) -> None:
    """A document in the format that was asked for."""
    if output_format == "json":
        click.echo(json.dumps(document, indent=2))
    else:
        import yaml

        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def print_manifest(question: Question, options: Options) -> None:
    """The service to apply, of the very commit that the plan is about."""
    from stoker.cli.plan.manifest import is_local, new_service, with_options

    request = question.request
    service = with_options(request.service or new_service(request.model), options)
    if is_local(request.model):
        click.echo(f"# {request.model} lies on your machine: say in model.uri where pods find it.")
    elif request.model.startswith("hf://"):
        service["spec"]["model"]["revision"] = question.version
    print_document(service, "yaml")
