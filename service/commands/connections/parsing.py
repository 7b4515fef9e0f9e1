"""What a client sends, as httptools reads it: without upgrades, without trailers."""

import re
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 65_536
"""Maximum bytes of a head, and of everything else between two parts of a body."""

MOST_HEADERS = 10_000
"""Maximum headers of a request."""

LEAST_OF_LONG_HEAD = 4 * MOST_HEADERS
"""Bytes of a head that may exceed a limit: a header has at least four."""


class _Trailers(list[tuple[bytes, bytes]]):
    """The trailers of a body. They are dropped: none of them may count as a header (RFC 9110, section 6.5.1)."""

    def append(self, trailer: tuple[bytes, bytes]) -> None:
        """Drop a trailer.

        Raises:
            ValueError: if it changes how the parser reads what follows. This ends the parser.
        """
        if trailer[0] in (b"connection", b"proxy-connection"):
            raise ValueError("not as a trailer")


TRAILERS = _Trailers()


_HOST = re.compile(rb"(?:[A-Za-z0-9\-._~%!$&'()*+,;=]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
"""A host with a port (RFC 3986, section 3.2)."""

NO_CODING = b"HTTP/1.1 501 Not Implemented\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"

NO_VERSION = b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def _is_host(value: bytes) -> bool:
    return _HOST.fullmatch(value) is not None


class ParsingProtocol(HttpToolsProtocol):
    """Uvicorn's protocol, which answers requests with `Upgrade` like all others."""

    _host = b"\0"  # of the request before, which was valid
    _refusal = b""  # in the place of uvicorn's status 400

    def _parse(self, data: bytes) -> None:
        """Parse a packet. `Upgrade` is ignored (RFC 9110, section 7.8), so the head is parsed again without it.

        Nothing else makes the parser of httptools read a body after such a head.
        """
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            except httptools.HttpParserError:
                self._refuse(self._refusal)
                return

    def _head_without_upgrade(self) -> bytes:
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        rest = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
        return b"".join([line, *rest, b"\r\n"])

    def _refuse(self, response: bytes) -> None:
        raise NotImplementedError

    @property
    def _in_head(self) -> bool:
        """Whether the head of a request has begun and is incomplete."""
        scope, cycle = self.scope, self.cycle
        return scope is not None and (cycle is None or cycle.scope is not scope)

    @property
    def _in_body(self) -> bool:
        """Whether the head of a request is complete, but not its body."""
        return self.cycle is not None and self.cycle.more_body and not self._in_head

    def _check_target(self) -> None:
        """Check the version and the target of a request; an absolute target without a path has the path `/`.

        Raises:
            ValueError: if they are not those of HTTP/1 (RFC 9112, sections 2.3 and 3.2). This ends the parser.
        """
        if self.parser.get_http_version() not in {"1.0", "1.1"}:
            self._refusal = NO_VERSION
            raise ValueError("another version")
        if b"#" in self.url:
            raise ValueError("a fragment")
        if not self.url.startswith(b"/"):
            target: Any = httptools.parse_url(self.url)
            if target.path is None:
                self.url = b"/" if target.query is None else b"/?" + target.query

    def _unambiguous_headers(self) -> dict[bytes, bytes]:
        """Return the last value of each header.

        Raises:
            ValueError: if another server might read another request: its host (RFC 9112, section 3.2) or its coding is
                unclear. This ends the parser.
        """
        headers = dict(self.headers)
        if len(headers) < len(self.headers) or b"transfer-encoding" in headers or headers.get(b"host") != self._host:
            self._check_framing()
            self._host = headers.get(b"host", b"\0")  # usually the same in all requests of a connection
        return headers

    def _check_framing(self) -> None:
        hosts = [value for name, value in self.headers if name == b"host"]
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        if not all(map(_is_host, hosts)) or (len(hosts) != 1 and (hosts or self.parser.get_http_version() != "1.0")):
            raise ValueError("not one host")
        if codings not in ([], [b"chunked"]):
            self._refusal = NO_CODING
            raise ValueError("an unusual coding")

    @property
    def _is_too_long(self) -> bool:
        """Whether a head has too many bytes, about, or too many headers."""
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        return size > MOST_HEAD_BYTES or len(self.headers) > MOST_HEADERS
