"""`stoker fetch`: put the weights of a model into a folder, verified.

It is the init container of an instance, and works as well by hand. Everything it does is in
`stoker.fetch`, where others find it too; here are arguments, environment and the last words.
"""

import asyncio
import os
import re
import signal
import sys
import time
from pathlib import Path

import click

from stoker.api.reasons import TerminationClass
from stoker.core.model import Refusal
from stoker.core.sources import Scheme, parse_source
from stoker.fetch import termination
from stoker.fetch.choose import open_source
from stoker.fetch.credentials import Credentials, load_credentials
from stoker.fetch.download import Limits, Wish, fetch, present
from stoker.fetch.errors import FetchError
from stoker.fetch.guard import AddressGuard
from stoker.fetch.local import verify_in_place
from stoker.fetch.manifest import Manifest
from stoker.fetch.progress import Progress
from stoker.fetch.staging import Place

_DIGEST = re.compile(r"(sha256:)?[0-9a-fA-F]{64}")
_ADAPTER = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,62})=(?P<uri>.+)")


@click.command(help="Put the weights of a model into a folder, verified.")
@click.option("--uri", required=True, help="Source: hf://, s3://, gs://, az://, https:// or pvc://.")
@click.option(
    "--to",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder that gets model/ and manifest.json; for pvc:// model/ is there already.",
)
@click.option("--revision", default="", help="Branch, tag or commit of the source.")
@click.option("--sha256", default=None, help="Digest that the weights must have.")
@click.option(
    "--adapter", "adapters", multiple=True, metavar="NAME=URI", help="LoRA adapter, into adapters/NAME."
)
@click.option(
    "--allow-cluster-internal",
    is_flag=True,
    help="Fetch from private, loopback and cluster addresses too, also http.",
)
@click.option(
    "--credentials",
    "credentials_folder",
    default="/credentials",
    type=click.Path(path_type=Path),
    help="Folder with ca.crt; tokens and keys come from the environment.",
)
@click.option(
    "--termination-log",
    default=None,
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"File for the last words; default {termination.DEFAULT_PATH}, where there is one.",
)
def command(
    uri: str,
    folder: Path,
    revision: str,
    sha256: str | None,
    adapters: tuple[str, ...],
    allow_cluster_internal: bool,
    credentials_folder: Path,
    termination_log: Path | None,
) -> None:
    """Run the fetch and say how it ended."""
    signal.signal(signal.SIGTERM, _end_at_once)
    started_s = time.monotonic()
    if termination_log is None and termination.DEFAULT_PATH.exists():
        termination_log = termination.DEFAULT_PATH
    try:
        model = Wish(uri=uri, revision=revision, sha256=_checked_digest(sha256))
        wishes = [(model, Place(folder=folder / "model", manifest=folder / "manifest.json"))]
        wishes += [_adapter(text, folder=folder) for text in adapters]
        credentials = load_credentials(environment=os.environ, folder=credentials_folder)
        guard = AddressGuard(allow_internal=allow_cluster_internal)
        manifest = asyncio.run(_all(wishes, credentials=credentials, guard=guard))[0]
    except FetchError as error:
        if termination_log is not None:
            termination.write(termination.failure(error), termination_log)
        raise click.ClickException(f"{error.reason}: {error.message}\n{error.fix}") from error
    except OSError as error:
        raise click.ClickException(f"cannot read or write below {folder}: {error}") from error
    done = termination.success(manifest, seconds=time.monotonic() - started_s)
    if termination_log is not None:
        termination.write(done, termination_log)
    _say(f"{uri}: {done['files']} files, {done['bytes']} bytes, verified in {done['seconds']} s")
    click.echo(f"{manifest.digest} {manifest.model_version}")


async def _all(
    wishes: list[tuple[Wish, Place]], *, credentials: Credentials, guard: AddressGuard
) -> list[Manifest]:
    return [await _one(wish, place, credentials=credentials, guard=guard) for wish, place in wishes]


async def _one(wish: Wish, place: Place, *, credentials: Credentials, guard: AddressGuard) -> Manifest:
    source = parse_source(wish.uri, allow_cluster_internal=guard.allow_internal)
    if isinstance(source, Refusal):
        allowed_but_wrong = source.reason is not TerminationClass.SOURCE_NOT_ALLOWED
        fix = "Correct `model.uri`." if allowed_but_wrong else None
        raise FetchError(TerminationClass.SOURCE_NOT_ALLOWED, f"{wish.uri}: {source.message}", fix=fix)
    if (manifest := present(wish, place)) is not None:
        _say(f"{wish.uri}: already there, {manifest.digest}")
        return manifest
    progress = Progress(say=_say)
    if source.scheme is Scheme.PVC:
        return await verify_in_place(wish=wish, place=place, progress=progress)
    fetcher = open_source(source, revision=wish.revision, credentials=credentials, guard=guard)
    try:
        return await fetch(fetcher, wish=wish, place=place, limits=Limits(), progress=progress)
    finally:
        await fetcher.close()


def _adapter(text: str, *, folder: Path) -> tuple[Wish, Place]:
    match = _ADAPTER.fullmatch(text)
    if match is None:
        raise FetchError(
            TerminationClass.SOURCE_NOT_ALLOWED,
            f"the adapter {text!r} is not NAME=URI with a name of letters, digits, `.`, `_` and `-`",
            fix="Correct `model.adapters`.",
        )
    place = Place(
        folder=folder / "adapters" / match["name"],
        manifest=folder / "adapters" / f"{match['name']}.manifest.json",
    )
    return Wish(uri=match["uri"]), place


def _checked_digest(sha256: str | None) -> str | None:
    if sha256 is not None and not _DIGEST.fullmatch(sha256):
        raise FetchError(
            TerminationClass.WEIGHTS_CORRUPT,
            f"{sha256!r} is not a digest",
            fix="Write `model.sha256` as 64 hexadecimal digits.",
        )
    return sha256


def _say(line: str) -> None:
    click.echo(line, err=True)


def _end_at_once(signum: int, _frame: object) -> None:
    """End without cleaning up: what is on disk is good for the next run at any moment.

    A handler is needed at all because process 1 of a container ignores signals without one, and
    the pod would hang until its grace period is over.
    """
    sys.stderr.flush()
    os._exit(128 + signum)
