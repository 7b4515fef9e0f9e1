"""Responses to clients of HTTP/1.0, which know no chunks: one without a length ends with the connection."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class CloseDelimitedCycle(RequestResponseCycle):
    """Uvicorn's cycle without chunks. Its connection closes after the response."""

    _has_length = True

    async def send(self, message: Any) -> None:
        """See `RequestResponseCycle`."""
        if message["type"] == "http.response.start":
            self._has_length = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
            if not self._has_length:
                self.chunked_encoding = False
        elif not self._has_length:  # uvicorn compares the length of the body with a declared one
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)
