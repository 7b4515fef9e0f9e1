"""The log of a running service's model, in parts that can be read repeatedly."""

from collections.abc import Iterator
from typing import NamedTuple

from service.json_values import JsonObject
from toolkit.evaluation.columns import NAMES, Columns, columns_of
from toolkit.remote import call, connect, path_of, rounds

ROUNDS = 10_000
"""Maximum rounds of a part, and of the answer to one request."""


class RemotePart(NamedTuple):
    """The rounds after `after`, up to `last`."""

    url: str
    key: str | None
    model: str
    after: int
    last: int

    @property
    def name(self) -> str:
        """The name of the part, for messages."""
        return f"rounds {self.after + 1} to {self.last} of {self.model}"

    def batches(self, size: int) -> Iterator[Columns]:
        """Yield the rounds, oldest first, in batches of up to `size`."""
        after = self.after
        with connect(self.url, self.key) as client:
            while after < self.last:
                lines = rounds(client, self.model, after, min(size, ROUNDS))
                lines = [line for line in lines if line["round"] <= self.last]
                if not lines:
                    return
                yield columns_of({name: [line.get(name) for line in lines] for name in NAMES})
                after = lines[-1]["round"]


def remote_parts(url: str, key: str | None, name: str) -> tuple[JsonObject, list[RemotePart]]:
    """Return the answer of `GET /models/{name}`, and the parts of the model's current log."""
    with connect(url, key) as client:
        model: JsonObject = call(client, "GET", path_of(name)).json()
    last = int(model["rounds_seen"])
    starts = range(0, last, ROUNDS)
    return model, [RemotePart(url, key, name, after, min(after + ROUNDS, last)) for after in starts]
