"""Sends rounds to a running service, each exactly once, also if the service is away for a while."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx2

from service.commands.shared.remote import RemoteError, call
from service.files.rows import Row

_REQUEST_BYTES = 2**20
"""Bytes of a request, about; the service accepts at least four times as many."""

_WAITS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between the attempts to send a request."""

_LATER = frozenset({429, 500, 502, 503, 504})
"""Statuses after which a request may succeed."""


class SendingError(Exception):
    """A round was refused, or the service is away; the message is for the user."""


class Sender:
    """Imports the rounds of one source.

    Args:
        client: calls the service.
        model: the name of the model.
        source: the identity of the rounds.
        pause: waits for some seconds.

    Attributes:
        imported: the number of rounds that were new to the model.
        place: the number of rounds of the source that are known to be in the model; None before the service says it.
    """

    def __init__(self, client: httpx2.Client, model: str, source: str, pause: Callable[[float], None]) -> None:
        self._client, self._path, self._source, self._pause = client, f"/models/{model}", source, pause
        self.imported = 0
        self.place: int | None = None

    def position(self) -> int:
        """Return the number of rounds imported so far.

        Raises:
            RemoteError: if the service does not say.
        """
        imports = self._retried("GET", f"{self._path}/imports").json()["imports"]
        self.place = next((int(each["position"]) for each in imports if each["source"] == self._source), 0)
        return self.place

    def send(self, rows: Iterator[Row], position: int, batch: int, progress: Callable[[int], None]) -> None:
        """Import the rows from a position on, and count them. Other clients may import the same at the same time.

        Args:
            rows: the rest of the rounds.
            position: the number of rounds before them.
            batch: maximum rounds in a request.
            progress: gets the number of rounds of each request.

        Raises:
            SendingError: if the service refuses a round.
            RemoteError: if it does not answer.
        """
        for part in _parts(rows, batch):
            body = {"source": self._source, "offset": position, "rounds": [row.round for row in part]}
            answer = self._import(body, part, position)
            self.imported += answer["imported"]
            self.place = max(self.place or 0, answer["position"])
            position += len(part)
            progress(len(part))

    def _import(self, body: dict[str, Any], part: Sequence[Row], position: int) -> dict[str, Any]:
        content = json.dumps(body, separators=(",", ":")).encode()
        try:
            answer: dict[str, Any] = self._retried("POST", f"{self._path}/rounds", content=content).json()
            return answer
        except RemoteError as error:
            raise SendingError(self._explained(error, part, position)) from error

    def _explained(self, error: RemoteError, part: Sequence[Row], position: int) -> str:
        """Return the error with the place in the file of the round that it names."""
        match = (error.field or "").split(".")
        row = part[int(match[1])] if match[0] == "rounds" and len(match) > 1 else None
        place = f"{row.path}: {row.place}: " if row else ""
        return f"{place}{error}; {position:,} rounds of source {self._source} are imported"

    def _retried(self, method: str, path: str, **options: Any) -> httpx2.Response:
        headers = {"content-type": "application/json"}
        for seconds in _WAITS:
            try:
                return call(self._client, method, path, headers=headers, **options)
            except RemoteError as error:
                if error.status is not None and error.status not in _LATER:
                    raise
            self._pause(seconds)
        return call(self._client, method, path, headers=headers, **options)


def _parts(rows: Iterator[Row], batch: int) -> Iterator[list[Row]]:
    """Yield consecutive rows that fit into one request."""
    part, size = list[Row](), 0
    for row in rows:
        each = _size(row.round)
        if part and (len(part) == batch or size + each > _REQUEST_BYTES):
            yield part
            part, size = [], 0
        part.append(row)
        size += each
    if part:
        yield part


def _size(given: dict[str, Any]) -> int:
    """Estimate the bytes of a round in JSON."""
    context = given.get("context") or ()
    if "actions" in given or isinstance(context, dict):
        return len(json.dumps(given))
    return 100 + 20 * len(context)
