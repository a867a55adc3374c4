"""Which API keys hold now? Those in a folder, where a Secret is mounted, looked at once in a while.

The kubelet brings a change of the Secret within a minute or so; a look costs next to nothing. The
limits of a key are shared out over the gateway processes, so their number is looked at too. A folder
that can't be read leaves the keys as they are: nobody is locked out by a swap that is under way.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from stoker.gateway.key_sources import KeyFolder
from stoker.gateway.keys import KeyRing

_LOOK_S = 5.0

_log = logging.getLogger(__name__)


class KeyWatch:
    """The keys of a folder that may change."""

    def __init__(self, folder: Path, *, replicas: Callable[[], int]) -> None:
        """`replicas` says how many gateway processes share the limits. Raises OSError if the folder
        can't be read.
        """
        self.ring = KeyRing(salt=os.urandom(16))
        self._folder = KeyFolder(folder)
        self._replicas = replicas
        self._entries: Mapping[str, bytes] = {}
        self._shared_by = 0
        self._look()

    async def follow(self) -> None:
        """Look for a change now and then; runs until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                self._look()
            except OSError as error:
                _log.warning("the API keys stay as they are", extra={"error": str(error)})

    def _look(self) -> None:
        entries = self._folder.read_if_changed()
        replicas = self._replicas()
        if entries is None and replicas == self._shared_by:
            return
        if entries is not None:
            self._entries = entries
        self._shared_by = replicas
        for problem in self.ring.update(self._entries, replicas=replicas):
            _log.error(problem)
