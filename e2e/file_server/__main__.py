"""``python -m e2e.file_server FOLDER --certificate FILE --key FILE``: serve a folder over HTTPS."""

import argparse
import ssl
from pathlib import Path

from e2e.file_server.server import make_server


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--address", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8443)
    parser.add_argument("--certificate", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    given = parser.parse_args()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(given.certificate, given.key)
    server = make_server(given.folder, address=given.address, port=given.port, tls=tls)
    print(f"serving {given.folder} on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
