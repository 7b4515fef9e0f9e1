"""What the counters of a model must say: predictions, refusals, and the bytes of open predictions."""

from collections import Counter
from collections.abc import Callable, Mapping

from service.store.records.layout import HEAD, KEY_BYTES

_COUNTS = b"predictions", b"predictions_refused", b"open_bytes"
_OF_MOMENT, _REFUSED, _HISTORY_LOST = b"open:", b"refused:", b"refused:history-lost"
_PREDICTIONS, _RELEASED_AT = HEAD.place("predictions"), HEAD.place("released_at")
_RECORDED, _LOST = b"rh"  # letters of statuses: the first is not counted, the second also when a window ends


class Counters:
    """The counters of one model.

    Args:
        most_open_bytes: of its open predictions; 0 for any.
    """

    def __init__(self, most_open_bytes: int) -> None:
        self._most = most_open_bytes
        self._bytes: dict[tuple[str, int], int] = {}  # by block, and by the moment until which they count
        self._closed = set[tuple[str, int]]()
        self._moments = Counter[int]()  # bytes of open blocks, by the moment until which they count
        self._predictions = self._predictions_refused = self._feedback_refused = 0

    def open(self, block: str, record: bytes) -> None:
        """Note a block that is stored."""
        key = block, _released_at(record)
        self._bytes[key] = len(record) + KEY_BYTES
        self._moments[key[1]] += self._bytes[key]
        self._closed.discard(key)  # the server may have lost the block before
        self._predictions += _size(record)

    def close(self, block: str, record: bytes) -> None:
        """Note a block whose predictions are all closed."""
        key = block, _released_at(record)
        if key not in self._closed:
            self._moments[key[1]] -= self._bytes[key]
            self._closed.add(key)

    def refuse_predictions(self, record: bytes) -> None:
        """Note a block that is not stored."""
        self._predictions_refused += _size(record)

    def note_statuses(self, letters: bytes) -> None:
        """Note what a script says of feedback, one letter for each."""
        self._feedback_refused += sum(letter not in (_RECORDED, _LOST) for letter in letters)

    def has_room(self, more: int, now: float) -> bool:
        """Whether the maximum leaves room for more bytes."""
        return not self._most or self._open_bytes(now) + more <= self._most

    def _open_bytes(self, now: float) -> int:
        return sum(size for moment, size in self._moments.items() if moment > now)

    def lose(self, fields: Mapping[bytes, bytes], open_record: Callable[[str], bytes | None]) -> None:
        """Take the counters of a server that has lost commands, and from it the records of the blocks that are open."""
        records = {block: open_record(block) for block, _ in self._bytes}
        is_open = {(block, _released_at(record)) for block, record in records.items() if record is not None}
        self._closed = self._bytes.keys() - is_open
        self._moments = _moments(fields)
        self._predictions, self._predictions_refused, self._feedback_refused, _ = _counts(fields)

    def difference(self, fields: Mapping[bytes, bytes], now: float) -> str:
        """Return how the fields of the model differ from what they must say; "" if they do not."""
        booked = _moments(fields)
        # The server may book out what has passed, and what is less than nothing since it was booked out too early.
        # It has done so even if its clock goes back.
        for moment, size in self._moments.items():
            if moment <= now or size < 0:
                self._moments[moment] = booked[moment]
        counts = self._predictions, self._predictions_refused, self._feedback_refused
        found, true = (*_counts(fields), booked), (*counts, booked.total(), self._moments)
        return "" if found == true else f"the counters say {found}, and not {true}"


def _counts(fields: Mapping[bytes, bytes]) -> tuple[int, int, int, int]:
    """Return the predictions, those refused, the feedback refused, and the bytes of open predictions."""
    predictions, refused_predictions, open_bytes = (int(fields.get(name, 0)) for name in _COUNTS)
    refused = sum(int(n) for name, n in fields.items() if name.startswith(_REFUSED) and name != _HISTORY_LOST)
    return predictions, refused_predictions, refused, open_bytes


def _moments(fields: Mapping[bytes, bytes]) -> Counter[int]:
    """Return the bytes of open predictions by the moment until which they count."""
    begin = len(_OF_MOMENT)
    return Counter({int(name[begin:]): int(n) for name, n in fields.items() if name.startswith(_OF_MOMENT)})


def _released_at(record: bytes) -> int:
    return int.from_bytes(record[_RELEASED_AT : _RELEASED_AT + 8], "little", signed=True)


def _size(record: bytes) -> int:
    """Return the number of predictions of a block."""
    return int.from_bytes(record[_PREDICTIONS : _PREDICTIONS + 4], "little")
