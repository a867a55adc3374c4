"""Which fetcher serves a source?"""

import base64

from stoker.api.reasons import TerminationClass
from stoker.core.sources import Scheme, Source
from stoker.fetch import WeightsSource
from stoker.fetch.credentials import Credentials
from stoker.fetch.errors import FetchError
from stoker.fetch.guard import AddressGuard
from stoker.fetch.http import ARCHIVE_ENDINGS, HttpArchiveSource, HttpFolderSource
from stoker.fetch.object_store import ObjectStoreSource
from stoker.fetch.transport import HttpClient
from stoker.fetch.tunnel import GuardedTunnel

IDLE_S = 60.0
"""Longest silence of a source before its connection counts as broken."""


def open_source(
    source: Source, *, revision: str, credentials: Credentials, guard: AddressGuard, idle_s: float = IDLE_S
) -> WeightsSource:
    """The fetcher for a source that is downloaded; raises `FetchError` if there is none."""
    match source.scheme:
        case Scheme.HF:
            # Half a second of imports, which the start of a pod with another source shall not pay.
            from stoker.fetch.hf import DEFAULT_ENDPOINT, HuggingFaceSource

            client = _client(_bearer(credentials.get("HF_TOKEN")), credentials, guard, idle_s)
            endpoint = credentials.get("HF_ENDPOINT") or DEFAULT_ENDPOINT
            return HuggingFaceSource(source, revision=revision, endpoint=endpoint, client=client)
        case Scheme.HTTPS:
            client = _client(_web_authorization(credentials), credentials, guard, idle_s)
            if source.path.endswith(ARCHIVE_ENDINGS):
                return HttpArchiveSource(source, client=client)
            return HttpFolderSource(source, client=client)
        case Scheme.S3 | Scheme.GS | Scheme.AZ:
            tunnel = None if guard.allow_internal else GuardedTunnel(guard)
            return ObjectStoreSource(source, credentials=credentials, tunnel=tunnel, idle_s=idle_s)
        case _:
            raise FetchError(
                TerminationClass.SOURCE_NOT_ALLOWED,
                f"{source.uri}: {source.scheme}:// sources are not supported yet",
                fix="Use hf://, s3://, gs://, az://, https:// or pvc://.",
            )


def _client(
    authorization: str | None, credentials: Credentials, guard: AddressGuard, idle_s: float
) -> HttpClient:
    if authorization is not None and not (authorization.isascii() and authorization.isprintable()):
        raise FetchError(
            TerminationClass.WEIGHTS_FORBIDDEN,
            "the token in the credentials Secret has a character that no header can hold",
            fix="Put the bare token into the Secret, without line breaks inside.",
        )
    return HttpClient(guard=guard, ca_file=credentials.ca_file, authorization=authorization, idle_s=idle_s)


def _web_authorization(credentials: Credentials) -> str | None:
    """Basic (RFC 7617) if a user is given, else Bearer."""
    user, password = credentials.get("HTTP_USERNAME"), credentials.get("HTTP_PASSWORD")
    if user is not None and password is not None:
        return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
    return _bearer(credentials.get("HTTP_BEARER_TOKEN"))


def _bearer(token: str | None) -> str | None:
    return None if token is None else f"Bearer {token}"
