"""What is the model at this source: its config, and what its weights take?

The operator asks before there is a pod, and `stoker plan` asks without a cluster. Both need some
kilobytes of a model of many gigabytes, so nothing is fetched whole but small JSON, and what is read is
bounded: in bytes and requests by `model_folder.py`, in time here.

Headers of the weights are worth some requests and not a failure: where they can't be had, the sizes
of the files have to do.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from hashlib import sha256
from typing import TYPE_CHECKING

from stoker.api.reasons import TerminationClass
from stoker.core.sources import Scheme, Source
from stoker.fetch import Listing, RemoteFile, WeightsSource, model_kind
from stoker.fetch.credentials import Credentials
from stoker.fetch.errors import FetchError, Interrupted
from stoker.fetch.local_model import ModelFiles as ModelFiles
from stoker.fetch.model_folder import FolderModel, Start, answer, read_folder
from stoker.fetch.paths import check_paths
from stoker.fetch.retry import Patience, Retry

if TYPE_CHECKING:
    from stoker.fetch.guard import AddressGuard

MOST_S = 60.0
"""Of one reading, whatever the source does."""
MOST_HEADERS_S = 20.0
"""Of that, for what a reading can do without."""
IDLE_S = 10.0
"""Longest silence of a source before its connection counts as broken."""
_RETRY = Retry(attempts=3, first_wait_s=0.5, most_wait_s=4.0)
_AT_ONCE = 8
"""Requests to one source at a time."""
_VERSION_LENGTH = 12


async def read_model_files(
    source: Source, *, revision: str, credentials: Credentials, guard: "AddressGuard"
) -> ModelFiles:
    """Read a model's config from its source; raises `FetchError`.

    WeightsMissing, WeightsForbidden, WeightsUnreachable and SourceNotAllowed are as in a fetch;
    ModelUnsupported is something that is not a model.
    """
    # Half a second of imports, which a folder on disk does not need.
    from stoker.fetch.choose import open_source

    _check_kind(source)
    fetcher = open_source(source, revision=revision, credentials=credentials, guard=guard, idle_s=IDLE_S)
    try:
        async with asyncio.timeout(MOST_S):
            return await _read(fetcher, uri=source.uri)
    except TimeoutError as error:
        raise FetchError(
            TerminationClass.WEIGHTS_UNREACHABLE,
            f"{source.uri}: its list of files and config.json took longer than {MOST_S:.0f} s",
        ) from error
    finally:
        await fetcher.close()


def _check_kind(source: Source) -> None:
    """Refuse what can be read only after it was fetched, or mounted."""
    if source.scheme is Scheme.PVC:
        raise FetchError(
            TerminationClass.SOURCE_NOT_ALLOWED,
            f"{source.uri}: only an instance mounts the claim, so config.json can't be read before it starts",
            fix="Nothing, if the model fits; otherwise the engine says so when it starts.",
        )
    if source.path.lower().endswith(".gguf"):
        raise model_kind.gguf(source.uri)


async def _read(source: WeightsSource, *, uri: str) -> ModelFiles:
    listing = await _listed(source, uri=uri)
    if listing.archive:
        raise FetchError(
            TerminationClass.SOURCE_NOT_ALLOWED,
            f"{uri} is an archive, so config.json can't be read before all of it was fetched",
            fix="Nothing, if the model fits; put the files unpacked into a folder to know it before.",
        )
    check_paths([file.path for file in listing.files], uri=uri)
    files = {file.path: file for file in listing.files}
    sizes = {path: file.size_bytes for path, file in files.items()}
    slots = asyncio.Semaphore(_AT_ONCE)

    async def start_of(start: Start) -> bytes:
        async with slots:
            return await _start(source, files[start.path], start.length, uri=uri)

    reading = read_folder(sizes, name=uri, weights_needed=True)
    step: tuple[Start, ...] | FolderModel = next(reading)
    while not isinstance(step, FolderModel):
        answers = await _answers(step, start_of)
        # Headers of a large model are 11 MB of JSON, which nobody else shall wait for.
        step = await asyncio.to_thread(answer, reading, answers)
    version = listing.version or sha256(listing.identity.encode()).hexdigest()[:_VERSION_LENGTH]
    return ModelFiles(config=step.config, stored=step.stored, version=version)


async def _listed(source: WeightsSource, *, uri: str) -> Listing:
    patience = Patience(_RETRY, what=f"the list of files of {uri}")
    while True:
        try:
            listing = await source.listing()
        except Interrupted as interrupted:
            await patience.after(interrupted)
            continue
        if not listing.files:
            raise FetchError(TerminationClass.WEIGHTS_MISSING, f"{uri} holds no file")
        return listing


async def _answers(
    asked: tuple[Start, ...], start_of: Callable[[Start], Coroutine[None, None, bytes]]
) -> tuple[bytes | None, ...]:
    """The starts of files; None for each if one of them is not vital and can't be had."""
    vital = all(start.vital for start in asked)
    failure: Exception | None = None
    try:
        async with asyncio.timeout(None if vital else MOST_HEADERS_S), asyncio.TaskGroup() as group:
            tasks = [group.create_task(start_of(start)) for start in asked]
    except* (FetchError, TimeoutError) as failures:
        failure = failures.exceptions[0]
    if failure is None:
        return tuple(task.result() for task in tasks)
    if vital:
        raise failure
    return (None,) * len(asked)


async def _start(source: WeightsSource, file: RemoteFile, length: int, *, uri: str) -> bytes:
    """The first bytes of a file."""
    if file.size_bytes is not None:
        length = min(length, file.size_bytes)
    patience = Patience(_RETRY, what=f"{uri}: the file `{file.path}`")
    while length:
        try:
            return await _first_bytes(source, file, length)
        except Interrupted as interrupted:
            await patience.after(interrupted)
    return b""  # no server answers a request for nothing


async def _first_bytes(source: WeightsSource, file: RemoteFile, length: int) -> bytes:
    data = bytearray()
    async with source.open(file, offset=0, length=length) as body, aclosing(body.chunks) as chunks:
        async for chunk in chunks:
            data += chunk
            if len(data) > length:  # the source can only send all of it
                break
    return bytes(data[:length])
