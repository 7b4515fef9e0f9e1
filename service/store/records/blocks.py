"""Parses and verifies blocks of predictions in the format of this version (`layout`)."""

from typing import Any, NamedTuple

import numpy as np

from learners.base import Contexts, FloatArray
from service.errors import NewerVersionError, StoreCorruptError
from service.store.records.codecs import AnswerArray, AnswerCodec
from service.store.records.layout import (
    CHECK,
    FEEDBACK,
    HEAD,
    INACTIVE,
    OPEN,
    OPEN_COUNT,
    OUTCOME,
    PENDING,
    PREDICTION,
    SEEN,
    VERSION,
    check_of,
)
from service.store.records.outcomes import Numbers, faults
from service.store.records.round_table import Table


class StoredPrediction(NamedTuple):
    """The part of a block of m predictions for one request that is still stored after they are closed."""

    fingerprint: bytes  # 16 bytes: see `layout.HEAD`
    expires_at: float  # seconds since the epoch
    rounds_seen: int
    propensities: FloatArray  # (m,)
    outputs: AnswerArray  # (m, ...), the answers


def stored_prediction(
    answers: AnswerCodec, predictions: Table, fingerprint: bytes, expires_at: float, rounds_seen: int
) -> StoredPrediction:
    """Check and return the predictions of a block.

    Raises:
        StoreCorruptError: if a number is out of range.
    """
    output, p, none = predictions["output"], predictions["propensity"], np.zeros((len(predictions), 0))
    numbers = Numbers(output, p, np.zeros(len(predictions)), none, Contexts.dense(none), (np.full(1, expires_at),))
    if wrong := faults(answers, numbers):
        raise StoreCorruptError(f"a prediction's record has an impossible {wrong[0]}")
    return StoredPrediction(fingerprint, expires_at, rounds_seen, p, output)


_HEAD, _SEEN, _CHECK, _AFTER_CHECK = HEAD.struct(), SEEN.struct(), CHECK.struct(), OUTCOME.place("kind")
_TOKEN, _IDENTITY_ENDS = PREDICTION.place("token"), PREDICTION.place("propensity")


class Block(NamedTuple):
    """A parsed block of n predictions."""

    fingerprint: bytes
    expires_at: float
    rounds_seen: int
    predictions: Table  # (n,), with the fields of `PREDICTION`
    outcomes: Table  # (n,), with the fields of `OUTCOME`
    bodies: bytes  # the joined bodies, each without `common`; empty in a record without bodies
    common: bytes  # the shared end of all bodies
    seen: bytes  # the encoded struct `SEEN`

    @property
    def history(self) -> tuple[int, bytes]:
        """The number of changes that the predictions have seen, and the digest of the history up to them."""
        _, changes, _, digest = _SEEN.unpack(self.seen)
        return changes, digest

    def waiting(self) -> tuple[list[bytes], list[int]]:
        """Return the predictions that have no round, encoded as rounds so that `StoredRounds` can read them.

        Each has a placeholder outcome: wrong, truth unknown. Also return the kinds of their actual outcomes.

        Raises:
            StoreCorruptError: if an outcome fails its check, or the body of a prediction without a round is missing.
        """
        kinds = list(map(self.kind, range(len(self.outcomes))))
        waiting = [i for i, kind in enumerate(kinds) if kind in (OPEN, INACTIVE, PENDING)]
        return [self.as_round(i) for i in waiting], [kinds[i] for i in waiting]

    @property
    def has_bodies(self) -> bool:
        """Whether the block has kept its bodies, as it does until all of its predictions are closed."""
        return bool(self.bodies or self.common)

    def place_of(self, token: int) -> int | None:
        """Return the index of the prediction with a token; None if there is none."""
        return next((i for i, each in enumerate(self.predictions["token"].tolist()) if each == token), None)

    def as_round(self, i: int) -> bytes:
        """Return prediction i encoded as a round, with a placeholder outcome: wrong, truth unknown.

        Raises:
            StoreCorruptError: if its body is missing.
        """
        start, end = int(self.predictions["end"][i - 1]) if i else 0, int(self.predictions["end"][i])
        body = self.bodies[start:end]
        if len(body) != end - start:
            raise StoreCorruptError("the body of an open prediction is missing")
        answered = self.predictions[i].tobytes()[_IDENTITY_ENDS:] + self.seen
        return _round(self.outcomes.dtype, self._token_and_check(i), answered + body + self.common)

    def kind(self, i: int) -> int:
        """Return the kind of the outcome of prediction i.

        Raises:
            StoreCorruptError: if the outcome fails its check.
        """
        kind, outcome = int(self.outcomes["kind"][i]), self.outcomes[i : i + 1].tobytes()
        without_kind = outcome[:_AFTER_CHECK] + outcome[_AFTER_CHECK + 1 :]  # all zeros if open or inactive
        if kind in (OPEN, INACTIVE) and not any(without_kind):
            return kind
        if check_of(outcome[_AFTER_CHECK:], self._token_and_check(i)) != self.outcomes["check"][i]:
            raise StoreCorruptError("the outcome of a prediction fails its check")
        return kind

    def _token_and_check(self, i: int) -> bytes:
        prediction: bytes = self.predictions[i].tobytes()
        return prediction[_TOKEN:_IDENTITY_ENDS]


def block_of(record: bytes, answers: AnswerCodec) -> Block:
    """Parse the record of a block, with or without its bodies.

    Raises:
        NewerVersionError: if a newer version wrote it.
        StoreCorruptError: if it is damaged, or belongs to a model with answers of another size.
    """
    if len(record) < HEAD.size or record[0] < VERSION:
        raise StoreCorruptError("a prediction's record has an unknown format")
    if record[0] != VERSION:
        raise NewerVersionError(f"a prediction's record has format {record[0]}; this version reads {VERSION}")
    _, n, flags, answer_bytes, common, fingerprint, expires_at, _, _, rounds_seen, *_ = _HEAD.unpack_from(record)
    prediction, outcome = PREDICTION.dtype(answers.dtype), OUTCOME.dtype(answers.dtype)
    check_at = HEAD.size + n * prediction.itemsize
    outcomes_at = check_at + CHECK.size + OPEN_COUNT.size
    bodies_at = outcomes_at + n * outcome.itemsize
    if n < 1 or answer_bytes != answers.dtype.itemsize or len(record) < bodies_at:
        raise StoreCorruptError("a prediction's record is truncated, or belongs to another model")
    if _CHECK.unpack_from(record, check_at) != (check_of(record[:check_at]),):
        raise StoreCorruptError("a prediction's record fails its check")
    if flags:
        raise NewerVersionError(f"a prediction's record has flags {flags}, which this version does not support")
    heads = np.frombuffer(record, prediction, n, HEAD.size)
    outcomes = np.frombuffer(record, outcome, n, outcomes_at)
    seen = record[HEAD.size - SEEN.size : HEAD.size]
    ends = max(bodies_at, len(record) - common)
    return Block(fingerprint, expires_at, rounds_seen, heads, outcomes, record[bodies_at:ends], record[ends:], seen)


def _round(outcome: np.dtype[Any], token_and_check: bytes, body: bytes) -> bytes:
    """Encode a round with a placeholder outcome (wrong, truth unknown) and number 1. `body` follows the body check."""
    closed = np.zeros(1, outcome)
    closed["kind"], closed["round"], closed["truth"] = FEEDBACK, 1, -1
    closed["check"] = check_of(closed.tobytes()[_AFTER_CHECK:], token_and_check)
    rest = closed.tobytes() + token_and_check + body
    return (len(rest) + 4).to_bytes(4, "little") + rest
