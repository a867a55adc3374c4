"""The secrets of one source, under the names that its own tools use.

They come as a mapping and a folder, not from this process's environment at large: the node agent
holds the credentials of many models side by side.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CA_FILE = "ca.crt"
"""Key of the Secret with the certificate authorities to trust besides the system's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What the Secret of a source holds."""

    values: Mapping[str, str]
    """By key, as an environment has them: `HF_TOKEN`, `AWS_ACCESS_KEY_ID`, ..."""
    ca_file: Path | None
    """PEM file with further certificate authorities; None to trust only the system's."""

    def get(self, key: str) -> str | None:
        """The value without blanks at its ends; None if it is missing or empty.

        Secrets made from files often end with a line break, which no header may hold.
        """
        return self.values.get(key, "").strip() or None


def load_credentials(*, environment: Mapping[str, str], folder: Path) -> Credentials:
    """Credentials of an instance's init step: its environment, and the Secret mounted at `folder`."""
    ca_file = folder / CA_FILE
    return Credentials(values=environment, ca_file=ca_file if ca_file.is_file() else None)
