"""`hf://OWNER/NAME`: a repository of the Hugging Face hub, or of a mirror that speaks its API.

`huggingface_hub` knows the hub's addresses and answers. The requests go over our own transport:
the library's client is one for the whole process, so it cannot hold an address guard, a token and
certificate authorities for each model; and its download keeps partial files in a cache of its own.

A revision is resolved to its commit first, and every file is read at that commit, so that a branch
that moves in the middle cannot mix two versions.
"""

import json
import re
from contextlib import AbstractAsyncContextManager
from urllib.parse import quote

from huggingface_hub import ModelInfo, hf_hub_url
from yarl import URL

from stoker.api.reasons import TerminationClass
from stoker.core.sources import Source
from stoker.fetch import Body, Checksum, Listing, RemoteFile
from stoker.fetch.errors import FetchError, Interrupted
from stoker.fetch.selection import needed
from stoker.fetch.transport import HttpClient

DEFAULT_ENDPOINT = "https://huggingface.co"
_LISTING_LIMIT_BYTES = 64 * 1024 * 1024
_COMMIT = re.compile(r"[0-9a-f]{40}")


class HuggingFaceSource:
    """One repository at one revision."""

    def __init__(self, source: Source, *, revision: str, endpoint: str, client: HttpClient) -> None:
        self._source = source
        self._revision = revision
        self._endpoint = endpoint.rstrip("/")
        self._client = client
        self._commit = ""

    async def listing(self) -> Listing:
        """The files that a server needs (`selection.py`), at the commit of the revision."""
        info = await self._model_info()
        if info.sha is None or not _COMMIT.fullmatch(info.sha):
            raise FetchError(
                TerminationClass.WEIGHTS_UNREACHABLE,
                f"{self._source.uri}: {self._endpoint} names no commit for `{self._revision or 'main'}`",
                fix="Check that `HF_ENDPOINT` is a hub or a mirror of one.",
            )
        self._commit = info.sha
        siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
        files = []
        for path in needed(list(siblings)):
            sibling = siblings[path]
            checksum = None
            if sibling.lfs is not None:
                checksum = Checksum(algorithm="sha256", hex=sibling.lfs.sha256)
            elif sibling.blob_id is not None:
                checksum = Checksum(algorithm="git-sha1", hex=sibling.blob_id)
            files.append(RemoteFile(path=path, size_bytes=sibling.size, checksum=checksum, key=path))
        return Listing(version=info.sha, identity=f"{self._source.uri}@{info.sha}", files=tuple(files))

    def open(
        self, file: RemoteFile, *, offset: int, length: int | None = None
    ) -> AbstractAsyncContextManager[Body]:
        """The bytes of a file at the commit that `listing` found."""
        url = hf_hub_url(self._source.repository, file.key, revision=self._commit, endpoint=self._endpoint)
        return self._client.read(
            URL(url, encoded=True),
            what=f"{self._source.uri}: the file `{file.path}`",
            offset=offset,
            length=length,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def _model_info(self) -> ModelInfo:
        url = f"{self._endpoint}/api/models/{self._source.repository}"
        if self._revision:
            url += f"/revision/{quote(self._revision, safe='')}"
        what = f"{self._source.uri} at revision {self._revision or 'main'}"
        try:
            text = await self._client.read_all(
                URL(f"{url}?blobs=true", encoded=True), what=what, limit_bytes=_LISTING_LIMIT_BYTES
            )
        except FetchError as error:
            raise self._explained(error) from error
        try:
            return ModelInfo(**json.loads(text))  # type: ignore[no-untyped-call]
        except (ValueError, TypeError, KeyError) as error:
            raise Interrupted(f"{self._endpoint} answered something that is not the hub's JSON") from error

    def _explained(self, error: FetchError) -> FetchError:
        """Add what only this hub's users can know.

        Without a token it answers 401 for a repository that does not exist, as for a private one.
        """
        if error.reason is TerminationClass.WEIGHTS_FORBIDDEN:
            fix = (
                "Check the name; for a private or gated model accept its licence on its page, and name a "
                "Secret with a valid `HF_TOKEN` in `model.credentialsSecret`."
            )
        elif error.reason is TerminationClass.WEIGHTS_MISSING:
            fix = (
                "Correct `model.uri` or `model.revision` (a branch, a tag or all 40 characters of a commit)."
            )
        else:
            return error
        return FetchError(error.reason, error.message, fix=fix)
