"""TLS certificates for one test run."""

from pathlib import Path
from typing import Any, NamedTuple

import trustme

from service.store.connections.addresses import TlsFiles


class Certificates(NamedTuple):
    """Certificate files: of an authority, of a server on loopback, and of a client that the authority trusts."""

    ca: Path
    server: Path
    client: Path

    def server_options(self, port: int) -> dict[str, str]:
        """Return a server's options for TLS without plain TCP, with required client certificates."""
        files = {"tls-cert-file": str(self.server), "tls-key-file": str(self.server), "tls-ca-cert-file": str(self.ca)}
        return {"port": "0", "tls-port": str(port), "tls-replication": "yes", **files}

    def client_options(self) -> dict[str, Any]:
        """Return redis-py's options for this client."""
        return {"ssl": True, "ssl_ca_certs": self.ca, "ssl_certfile": self.client, "ssl_keyfile": self.client}

    def of_client(self) -> TlsFiles:
        """Return the files of a client that the server accepts."""
        return TlsFiles(self.ca, self.client, self.client)


def make_certificates(folder: Path) -> Certificates:
    made = Certificates(folder / "ca.pem", folder / "server.pem", folder / "client.pem")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(made.ca))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(made.server))
    authority.issue_cert("wager@example.org").private_key_and_cert_chain_pem.write_to_path(str(made.client))
    return made
