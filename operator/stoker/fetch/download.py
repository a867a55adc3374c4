"""From a source to a verified folder: the same for all kinds of source.

List, check names and room, fetch a few files at a time, verify, rename, write the manifest last.
A folder whose manifest says what is asked for now, and whose files have their sizes, is done: a
restarted pod does no work.
"""

import asyncio
from dataclasses import dataclass, field

from stoker.api.reasons import TerminationClass
from stoker.fetch import Listing, WeightsSource
from stoker.fetch.archive import unpack
from stoker.fetch.disk import check_room
from stoker.fetch.errors import FetchError, Interrupted
from stoker.fetch.manifest import (
    FileDigest,
    Manifest,
    digest_of,
    read_manifest,
    same_digest,
    write_manifest,
)
from stoker.fetch.one_file import FileJob, fetch_file
from stoker.fetch.paths import check_paths
from stoker.fetch.progress import Progress
from stoker.fetch.retry import Patience, Retry
from stoker.fetch.staging import Place, Staging

_VERSION_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which weights are wanted."""

    uri: str
    revision: str = ""
    """Branch, tag or commit; empty for the source's default."""
    sha256: str | None = None
    """Digest that they must have (`manifest.digest_of`); None to take what is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How hard to pull."""

    parallel_files: int = 4
    retry: Retry = field(default_factory=Retry)


def present(wish: Wish, place: Place) -> Manifest | None:
    """The manifest, if what is wished for is already there whole; None otherwise."""
    manifest = read_manifest(place.manifest)
    if manifest is None or (manifest.uri, manifest.revision) != (wish.uri, wish.revision):
        return None
    if wish.sha256 is not None and not same_digest(manifest.digest, wish.sha256):
        return None
    for file in manifest.files:
        path = place.folder / file.path
        if not path.is_file() or path.stat().st_size != file.size_bytes:
            return None
    return manifest


async def fetch(
    source: WeightsSource, *, wish: Wish, place: Place, limits: Limits, progress: Progress
) -> Manifest:
    """Bring the weights to their place; raises `FetchError`."""
    listing = await _listed(source, wish=wish, retry=limits.retry)
    check_paths([file.path for file in listing.files], uri=wish.uri)
    _check_stated_digest(listing, wish=wish)
    place.folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Staging(place)
    staging.prepare(listing)
    needed = staging.missing_bytes(listing)
    if listing.archive:
        needed += sum(file.size_bytes or 0 for file in listing.files)
    check_room(staging.root, needed_bytes=needed, uri=wish.uri)

    sizes = [file.size_bytes for file in listing.files]
    progress.start(total_bytes=sum(size or 0 for size in sizes) if None not in sizes else None)
    async with progress.reported(wish.uri):
        folder, digests = staging.files, await _fetched(source, listing, staging, wish, limits, progress)
    if listing.archive:
        progress.say(f"{wish.uri}: unpacking {digests[0].size_bytes} bytes")
        archive = staging.final(listing.files[0].path)
        folder, digests = await asyncio.to_thread(unpack, archive, staging.unpacked, uri=wish.uri)

    try:
        manifest = verified(digests, wish=wish, version=listing.version)
    except FetchError:
        _forget_unverified(listing, staging)
        raise
    staging.publish(folder)
    write_manifest(manifest, place.manifest)
    staging.discard()
    return manifest


def verified(files: tuple[FileDigest, ...], *, wish: Wish, version: str | None) -> Manifest:
    """The manifest of these files; raises `WeightsCorrupt` if they are not what is wished for.

    A source without versions gets what the user calls it, or the start of the digest.
    """
    digest = _checked(digest_of(files), wish=wish)
    return Manifest(
        uri=wish.uri,
        revision=wish.revision,
        model_version=version or wish.revision or digest.removeprefix("sha256:")[:_VERSION_LENGTH],
        digest=digest,
        files=tuple(sorted(files, key=lambda file: file.path.encode())),
    )


async def _listed(source: WeightsSource, *, wish: Wish, retry: Retry) -> Listing:
    patience = Patience(retry, what=f"the list of files of {wish.uri}")
    while True:
        try:
            listing = await source.listing()
        except Interrupted as interrupted:
            await patience.after(interrupted)
            continue
        if not listing.files:
            raise FetchError(
                TerminationClass.WEIGHTS_MISSING, f"{wish.uri} holds no file that a server needs"
            )
        return listing


async def _fetched(
    source: WeightsSource, listing: Listing, staging: Staging, wish: Wish, limits: Limits, progress: Progress
) -> tuple[FileDigest, ...]:
    slots = asyncio.Semaphore(limits.parallel_files)

    async def in_a_slot(job: FileJob) -> FileDigest:
        async with slots:
            return await fetch_file(job)

    jobs = [
        FileJob(
            source=source,
            uri=wish.uri,
            file=file,
            partial=staging.partial(file.path),
            final=staging.final(file.path),
            retry=limits.retry,
            progress=progress,
        )
        for file in listing.files
    ]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(in_a_slot(job)) for job in jobs]
    except* FetchError as failures:
        # One sentence for the person: the first failure stopped the others.
        raise failures.exceptions[0] from None
    return tuple(task.result() for task in tasks)


def _check_stated_digest(listing: Listing, *, wish: Wish) -> None:
    """Refuse before anything is fetched where the source states every file's SHA-256."""
    if wish.sha256 is None or listing.archive:
        return
    stated = []
    for file in listing.files:
        if file.checksum is None or file.checksum.algorithm != "sha256":
            return
        stated.append(FileDigest(path=file.path, size_bytes=0, sha256=file.checksum.hex))
    _checked(digest_of(tuple(stated)), wish=wish)


def _forget_unverified(listing: Listing, staging: Staging) -> None:
    """Remove files whose content nobody but the digest vouches for: the fault may be in ours."""
    for file in listing.files:
        if file.checksum is None:
            staging.final(file.path).unlink(missing_ok=True)


def _checked(digest: str, *, wish: Wish) -> str:
    if wish.sha256 is not None and not same_digest(digest, wish.sha256):
        raise FetchError(
            TerminationClass.WEIGHTS_CORRUPT,
            f"{wish.uri} has the digest {digest}, and {wish.sha256} was asked for",
        )
    return digest
