"""Reads what the files of models say of their size: once for each revision, in the background.

Reading never holds up a reconcile: `known` answers from memory, `refresh` starts what is missing, and
an answer that is new puts the service into the queue like any other change. The plan writes it into a
ConfigMap (`core/model_files.py`), and from then on it is neither read again nor held here.

A new revision waits for the first attempt, and no longer than 20 s, its waiting for a turn included; a
slow source is read to the end all the same. What failed is tried again after a pause that doubles, as a
Secret may be corrected at any time. It is read for each attempt, by its name, and not kept.
"""

import asyncio
import base64
import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.api.reasons import Reason
from stoker.controller.queue import Key
from stoker.core.capacity.container import loaded_as
from stoker.core.capacity.form import weights_in_form
from stoker.core.capacity.model_config import read_model_config
from stoker.core.model import ModelFacts, ModelReading, ModelToRead, Refusal
from stoker.fetch.credentials import CA_FILE, Credentials
from stoker.fetch.errors import FetchError
from stoker.fetch.guard import AddressGuard
from stoker.fetch.model_files import ModelFiles, read_model_files
from stoker.kube import resources
from stoker.kube.client import Client
from stoker.kube.errors import KubeError

_PATIENCE_S = 20.0
"""A new revision waits so long for the first attempt."""
_AT_ONCE = 8
"""Models that are read at a time, over all services."""
_FIRST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 600.0
_GOOGLE_PATH, _GOOGLE_KEY = "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT_KEY"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Entry:
    """What is known of one service's model."""

    wanted: ModelToRead
    answer: ModelFacts | Refusal | None = None
    failures: int = 0
    """Attempts that have failed, in a row."""
    read_again_s: float = 0.0
    """When to try next, on the monotonic clock."""
    attempt: asyncio.Task[None] | None = None


class ModelFilesReader:
    """The models of all services, by the key of their service."""

    def __init__(
        self,
        client: Client,
        *,
        guard: AddressGuard,
        on_change: Callable[[Key], None],
        clock: Callable[[], float],
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._client = client
        self._guard = guard
        self._on_change = on_change
        self._clock = clock
        self._patience_s = patience_s
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._entries: dict[Key, _Entry] = {}

    def known(self, key: Key) -> ModelReading | None:
        """What came of the last attempt for this service; None while none has ended."""
        entry = self._entries.get(key)
        if entry is None or entry.answer is None:
            return None
        return ModelReading(revision=entry.wanted.revision, answer=entry.answer)

    def refresh(self, key: Key, wanted: ModelToRead | None) -> float | None:
        """Read this if it is due; the seconds until it will be, None if it is known or being read.

        With None there is nothing to know, and what was known is forgotten.
        """
        entry = self._entries.get(key)
        if wanted is None:
            self.forget(key)
            return None
        if entry is None or entry.wanted != wanted:
            self.forget(key)
            entry = self._entries[key] = _Entry(wanted=wanted)
        if entry.attempt is not None or isinstance(entry.answer, ModelFacts):
            return None
        if (left_s := entry.read_again_s - self._clock()) > 0:
            return left_s
        entry.attempt = asyncio.create_task(self._try(key, entry))
        return None

    def forget(self, key: Key) -> None:
        """Drop a service that is gone, or whose model is known."""
        entry = self._entries.pop(key, None)
        if entry is not None and entry.attempt is not None:
            entry.attempt.cancel()

    def close(self) -> None:
        """Stop reading."""
        for key in list(self._entries):
            self.forget(key)

    async def _try(self, key: Key, entry: _Entry) -> None:
        reading = asyncio.create_task(self._answer(key, entry.wanted))
        try:
            async with asyncio.timeout(self._patience_s if entry.answer is None else None):
                answer = await asyncio.shield(reading)
        except TimeoutError:
            # The service goes on without it, and the reading does too.
            entry.answer = _unreadable(
                f"it is not there after {self._patience_s:.0f} s, and still being read"
            )
            self._on_change(key)
            answer = await reading
        finally:
            reading.cancel()
        entry.attempt = None
        pause_s = min(_FIRST_PAUSE_S * 2.0**entry.failures, _LONGEST_PAUSE_S)
        entry.failures = min(entry.failures + 1, 16)
        entry.read_again_s = self._clock() + pause_s
        if isinstance(answer, Refusal):
            about = {"service": str(key), "uri": entry.wanted.source.uri, "error": answer.message}
            _log.info("a model's files cannot be read", extra=about | {"again_in_s": round(pause_s)})
        # Also when nothing is new: the next attempt is planned by a reconcile.
        entry.answer = answer
        self._on_change(key)

    async def _answer(self, key: Key, wanted: ModelToRead) -> ModelFacts | Refusal:
        try:
            async with self._at_once:
                return await self._read(wanted, namespace=key.namespace)
        except (FetchError, KubeError) as error:
            return _unreadable(str(error))
        except Exception:
            # Whatever our mistake, the service must not wait for this for ever.
            _log.exception("reading a model's files crashed", extra={"service": str(key)})
            return _unreadable("reading it failed by a mistake of Stoker's; the operator's log has it")

    async def _read(self, wanted: ModelToRead, *, namespace: str) -> ModelFacts | Refusal:
        secret: Mapping[str, bytes] = {}
        if name := wanted.credentials_secret:
            found = await self._client.get(resources.SECRETS, namespace=namespace, name=name)
            if found is None:
                return _unreadable(f"the Secret `{name}` in `model.credentialsSecret` does not exist")
            secret = {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
        with credentials_of(secret) as credentials:
            files = await read_model_files(
                wanted.source,
                revision=wanted.model_revision or "",
                credentials=credentials,
                guard=self._guard,
            )
        return await asyncio.to_thread(_facts, files, wanted.engine_args)


def _facts(files: ModelFiles, engine_args: Sequence[str]) -> ModelFacts:
    """Beside the event loop, as there may be a hundred thousand tensors."""
    model = read_model_config(files.config)
    loaded = model if isinstance(model, Refusal) else loaded_as(model, engine_args)
    weights = None if isinstance(loaded, Refusal) else weights_in_form(*loaded, stored=files.stored)
    return ModelFacts(version=files.version, config=files.config, weights=weights)


@contextlib.contextmanager
def credentials_of(secret: Mapping[str, bytes]) -> Iterator[Credentials]:
    """The Secret as the fetchers take it: they want the authorities to trust in a file."""
    values = {key: value.decode(errors="replace") for key, value in secret.items() if key != CA_FILE}
    # In a pod of the service a path leads to the mounted Secret. Here it would lead to the operator's own
    # files, its token among them, so it stands for the key of that name and is never opened.
    if path := values.pop(_GOOGLE_PATH, None):
        values.setdefault(_GOOGLE_KEY, values.get(path.strip().rpartition("/")[2], ""))
    with tempfile.TemporaryDirectory() as folder:
        ca_file = None
        if CA_FILE in secret:
            ca_file = Path(folder) / CA_FILE
            ca_file.write_bytes(secret[CA_FILE])
        yield Credentials(values=values, ca_file=ca_file)


def _unreadable(why: str) -> Refusal:
    return Refusal(reason=Reason.CONFIG_UNREADABLE, message=why)
