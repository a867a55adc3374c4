"""One file from its source to its place: resumed where it broke, verified, then named.

A file that does not have the checksum its source states is fetched once more from the start, as
the fault may be in what an earlier run left. The second time it is `WeightsCorrupt`.
"""

from dataclasses import dataclass
from pathlib import Path

from stoker.api.reasons import TerminationClass
from stoker.fetch import RemoteFile, WeightsSource
from stoker.fetch.errors import FetchError, Interrupted
from stoker.fetch.manifest import FileDigest
from stoker.fetch.partial import FileHash, PartialFile, hash_file
from stoker.fetch.progress import Progress
from stoker.fetch.retry import Patience, Retry

_PROGRESS_BYTES = 1024 * 1024
"""An attempt that brought this much was not in vain: the count of failures starts again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileJob:
    """What it takes to fetch one file."""

    source: WeightsSource
    uri: str
    file: RemoteFile
    partial: Path
    """Where the bytes gather."""
    final: Path
    """Where the whole, verified file goes."""
    retry: Retry
    progress: Progress


async def fetch_file(job: FileJob) -> FileDigest:
    """The file at its final place; raises `FetchError`."""
    if (found := await _already_there(job)) is not None:
        return found
    partial = await _whole(job)
    if partial.hash.mismatch is not None:
        await _start_over(job, partial)
        partial = await _whole(job)
    if (mismatch := partial.hash.mismatch) is not None:
        await _start_over(job, partial)
        stated, actual = mismatch
        raise FetchError(
            TerminationClass.WEIGHTS_CORRUPT,
            f"{job.uri}: the file `{job.file.path}` has the {stated.algorithm} {actual}, "
            f"and its source states {stated.hex}",
            fix="Repair the file at its source; it was fetched twice with the same result.",
        )
    await partial.finish(job.final)
    return FileDigest(path=job.file.path, size_bytes=partial.size_bytes, sha256=partial.hash.sha256)


async def _already_there(job: FileJob) -> FileDigest | None:
    if not job.final.is_file():
        return None
    hasher = FileHash(job.file)
    size = await hash_file(job.final, hasher, count=job.progress.found)
    if hasher.mismatch is not None or job.file.size_bytes not in (None, size):
        job.progress.found(-size)
        job.final.unlink()
        return None
    return FileDigest(path=job.file.path, size_bytes=size, sha256=hasher.sha256)


async def _whole(job: FileJob) -> PartialFile:
    partial = await PartialFile.resumed(job.partial, job.file, uri=job.uri, progress=job.progress)
    patience = Patience(job.retry, what=f"{job.uri}: the file `{job.file.path}`")
    while True:
        before = partial.size_bytes
        try:
            await _read_on(job, partial)
            await partial.flush()
            return partial
        except Interrupted as interrupted:
            await partial.flush()
            if partial.size_bytes - before >= _PROGRESS_BYTES:
                patience.renew()
            await patience.after(interrupted)


async def _read_on(job: FileJob, partial: PartialFile) -> None:
    expected = job.file.size_bytes
    if expected is not None and partial.size_bytes == expected:
        return
    async with job.source.open(job.file, offset=partial.size_bytes) as body:
        if expected is None:
            expected = body.size_bytes
        elif body.size_bytes not in (None, expected):
            raise _other_size(job, f"it now has {body.size_bytes} bytes")
        if body.offset != partial.size_bytes:
            await _start_over(job, partial)
        async for chunk in body.chunks:
            if expected is not None and partial.size_bytes + len(chunk) > expected:
                raise _other_size(job, "more came")
            await partial.write(chunk)
            job.progress.read(len(chunk))
    if expected is not None and partial.size_bytes < expected:
        raise Interrupted(f"{partial.size_bytes} of {expected} bytes came before the connection ended")


async def _start_over(job: FileJob, partial: PartialFile) -> None:
    job.progress.found(-partial.size_bytes)
    await partial.restart()


def _other_size(job: FileJob, what: str) -> FetchError:
    return FetchError(
        TerminationClass.WEIGHTS_CORRUPT,
        f"{job.uri}: the file `{job.file.path}` was listed with {job.file.size_bytes} bytes, and {what}",
        fix="Fetch again after nobody changes the source any more.",
    )
