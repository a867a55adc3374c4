"""Remembers how far estimates were off, over restarts and for all services.

Read once, by whoever leads, and held in memory from then on: nobody else writes there. That it can't
be read or written holds nothing up; an estimate without its correction is still an estimate.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from stoker.api import names
from stoker.core.corrections import corrections_map, ratios, with_correction
from stoker.core.model import Correction
from stoker.kube import resources
from stoker.kube.client import Client
from stoker.kube.errors import KubeError

_log = logging.getLogger(__name__)


class Corrections:
    """The one ConfigMap with all ratios."""

    def __init__(self, client: Client, *, namespace: str, now: Callable[[], datetime]) -> None:
        self._client = client
        self._namespace = namespace
        self._now = now
        self._data: dict[str, str] | None = None
        """None until it was read."""
        self._turn = asyncio.Lock()

    async def known(self) -> Mapping[str, float]:
        """All ratios by their key; none while they cannot be read."""
        async with self._turn:
            return ratios(await self._read())

    async def remember(self, correction: Correction) -> None:
        """Keep one more, if it says something new."""
        async with self._turn:
            before = await self._read()
            data = with_correction(before, correction, now=self._now())
            # Without a look at what is there, all of that would be overwritten.
            if self._data is None or data == before:
                return
            self._data = data
            try:
                await self._client.apply(
                    corrections_map(namespace=self._namespace, data=data), field_manager=names.FIELD_MANAGER
                )
            except KubeError as error:
                # It goes with the next one.
                _log.warning("a correction was not written", extra={"error": str(error)})

    async def _read(self) -> dict[str, str]:
        if self._data is None:
            try:
                found = await self._client.get(
                    resources.CONFIG_MAPS, namespace=self._namespace, name=names.CORRECTIONS_NAME
                )
            except KubeError as error:
                _log.warning("the corrections were not read", extra={"error": str(error)})
                return {}
            self._data = dict((found or {}).get("data") or {})
        return self._data
