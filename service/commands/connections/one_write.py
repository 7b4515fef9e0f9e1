"""Responses in one write: uvicorn's cycle writes the head and the body separately."""

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class CycleWrite:
    """Writes a response to one request in one piece. Uvicorn writes the head and the body separately."""

    __slots__ = ("_cycle", "headers")

    def __init__(self, cycle: RequestResponseCycle, headers: dict[bytes, bytes]) -> None:
        self._cycle, self.headers = cycle, headers

    @property
    def body_has_arrived(self) -> bool:
        """See `OneWrite`."""
        return not self._cycle.more_body

    def write(self, head: bytes, body: bytes) -> bool:
        """See `OneWrite`."""
        cycle = self._cycle
        if cycle.disconnected or cycle.response_started or cycle.flow.write_paused or cycle.access_log:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        lines = [b"%b: %b\r\n" % header for header in cycle.default_headers]
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        cycle.transport.write(b"%b%b\r\n%b" % (head, b"".join(lines), body))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True
