"""Who is who in the cluster: its certificate authority, certificates and kubeconfigs.

Made with the ``openssl`` program, elliptic keys (a key takes milliseconds, RSA most of a second).
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster.command import run

_DAYS = "3650"
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")

_CONFIG = "[req]\ndistinguished_name = subject\n[subject]\n"
"""Nothing: the machine's own configuration would make every certificate one of an authority."""
_KEY_IDENTIFIERS = ("subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid")
_AUTHORITY = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign")
_MEMBER = ("basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature")


class Authority:
    """A certificate authority in a folder; what exists already is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.certificate.exists():
            self._request("ca", "/CN=stoker-cluster", *_AUTHORITY)

    @property
    def certificate(self) -> Path:
        """What others trust."""
        return self._folder / "ca.crt"

    def issue(self, name: str, subject: str, *, alt_names: Sequence[str] = ()) -> tuple[Path, Path]:
        """The certificate and key of a client, or of a server when it has names (``DNS:x``, ``IP:1.2.3.4``).

        ``subject`` is OpenSSL's: in Kubernetes O is a group and CN the user, ``/O=system:nodes/CN=x``.
        """
        certificate, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        if not certificate.exists():
            usage = "serverAuth" if alt_names else "clientAuth"
            names = [f"subjectAltName={','.join(alt_names)}"] if alt_names else []
            signer = ("-CA", str(self.certificate), "-CAkey", str(self._folder / "ca.key"))
            self._request(name, subject, *_MEMBER, f"extendedKeyUsage={usage}", *names, signer=signer)
        return certificate, key

    def signing_key(self, name: str) -> tuple[Path, Path]:
        """A bare public and private key, such as for service-account tokens."""
        public, private = self._folder / f"{name}.pub", self._folder / f"{name}.key"
        if not public.exists():
            run(
                "openssl",
                "genpkey",
                *("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
                "-out",
                private,
            )
            run("openssl", "pkey", "-in", private, "-pubout", "-out", public)
        return public, private

    def kubeconfig(self, name: str, subject: str, *, server: str) -> str:
        """A kubeconfig of a client, with its certificate inside, so that the file can be copied."""
        certificate, key = self.issue(name, subject)
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": "stoker",
                        "cluster": {
                            "server": server,
                            "certificate-authority-data": _base64(self.certificate),
                        },
                    }
                ],
                "users": [
                    {
                        "name": name,
                        "user": {
                            "client-certificate-data": _base64(certificate),
                            "client-key-data": _base64(key),
                        },
                    }
                ],
                "contexts": [{"name": "stoker", "context": {"cluster": "stoker", "user": name}}],
                "current-context": "stoker",
            },
            indent=2,
        )

    def _request(self, name: str, subject: str, *extensions: str, signer: Sequence[str] = ()) -> None:
        config = self._folder / "openssl.cnf"
        config.write_text(_CONFIG)
        unfinished = self._folder / f".{name}.crt"
        run(
            *("openssl", "req", "-config", config, "-x509", "-days", _DAYS, "-subj", subject),
            *_NEW_KEY,
            *("-keyout", self._folder / f"{name}.key", "-out", unfinished),
            *signer,
            *(word for extension in (*extensions, *_KEY_IDENTIFIERS) for word in ("-addext", extension)),
        )
        unfinished.rename(self._folder / f"{name}.crt")


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
