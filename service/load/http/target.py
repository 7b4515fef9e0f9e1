"""The server under load, and the bytes of requests to it."""

import ssl
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from service.load.http.errors import LoadError

_PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """A server and the headers of every request to it."""

    host: str
    port: int
    tls: bool
    prefix: str  # prefix of every path
    headers: str  # complete lines

    @classmethod
    def parse(cls, url: str, api_key: str | None = None) -> Self:
        """Parse `http(s)://host[:port][/prefix]`.

        Raises:
            LoadError: if the URL is invalid, or if a header cannot carry the key.
        """
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError):
            raise LoadError(f"{url!r} is not a URL such as http://127.0.0.1:8000") from None
        if not parts.hostname or parts.username or parts.query or parts.fragment:
            raise LoadError(f"{url!r} is not a URL such as http://127.0.0.1:8000")
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise LoadError("the API key has characters that a header cannot carry")
        headers = f"host: {parts.netloc}\r\nuser-agent: wager-load\r\ncontent-type: application/json\r\n"
        if api_key is not None:
            headers += f"authorization: Bearer {api_key}\r\n"
        return cls(parts.hostname, port, parts.scheme == "https", parts.path.rstrip("/"), headers)

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return the bytes of a request."""
        head = f"{method} {self.prefix}{path} HTTP/1.1\r\n{self.headers}content-length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, or None for plain HTTP."""
        return ssl.create_default_context() if self.tls else None
