"""Which certificate do clients see, when it is renewed while the gateway runs?

The files are compared once in a while, as a mounted Secret is replaced as a whole and without a
signal. A new pair is tried in a context of its own first: one that does not belong together, or is
half written, changes nothing and is said in the log. New connections see the new certificate, those
that are open keep theirs.
"""

import asyncio
import logging
import ssl
from pathlib import Path

_LOOK_S = 10.0

_log = logging.getLogger(__name__)


class Certificate:
    """A certificate and its key, from files that may change."""

    def __init__(self, *, certificate: str, key: str) -> None:
        """Raises OSError or ssl.SSLError if the files do not serve."""
        self._paths = (Path(certificate), Path(key))
        self._contents = self._read()
        self.context = _context(*self._paths)
        """For the listener; it stays the same when the certificate changes."""

    async def follow(self) -> None:
        """Look for a change now and then; runs until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self.look()

    def look(self) -> None:
        """Take over what the files hold, if it is new and serves."""
        try:
            contents = self._read()
            if contents == self._contents:
                return
            self._contents = contents
            _context(*self._paths)
            self.context.load_cert_chain(*self._paths)
        except (OSError, ssl.SSLError) as error:
            _log.error("the new certificate does not serve; the old one stays", extra={"error": str(error)})
        else:
            _log.info("new connections see the new certificate")

    def _read(self) -> tuple[bytes, ...]:
        return tuple(path.read_bytes() for path in self._paths)


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate, key)
    return context
