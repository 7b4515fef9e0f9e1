"""The bytes of a prediction and of a round. Little-endian, fixed length for each model, no code in them.

A prediction is HEAD then BODY. Feedback turns it into HEAD then OUTCOME, and appends to the log the round,
OUTCOME then BODY. The joining is done by `lua/add_feedback.lua`, which knows the offsets in HEAD.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from learners.base import NO_LABEL, Contexts, FloatArray, Rounds
from service.errors import StoreCorruptError

FORMAT = 1

_HEAD = struct.Struct("<BB16sdqid")
"""format u8, closed u8, fingerprint 16 bytes, expires_at f64, rounds_seen i64, label i32, propensity f64."""

_OUTCOME = struct.Struct("<Bidq")
"""correct u8, true_label i32 (-1 unknown), feedback_at f64, round i64."""

HEAD_BYTES = _HEAD.size

_OUTCOME_FIELDS = [("correct", "u1"), ("true_label", "<i4"), ("feedback_at", "<f8"), ("round", "<i8")]


class Head(NamedTuple):
    """What is kept of a prediction until it is forgotten, open or closed."""

    fingerprint: bytes  # 16 bytes, of the request's body; zeros where the service made the id
    expires_at: float  # seconds since the epoch
    rounds_seen: int
    label: int
    propensity: float


class Outcome(NamedTuple):
    """What feedback said, and the number of the round it made."""

    correct: bool
    true_label: int | None
    feedback_at: float
    round: int


class RecordFormat:
    """The bytes of one model's predictions and rounds.

    Args:
        n_labels: K, the number of labels.
        evidence_size: E, numbers of evidence in each.
        n_features: d, numbers in each context.
    """

    def __init__(self, n_labels: int, evidence_size: int, n_features: int) -> None:
        self._n_labels = n_labels
        body = [
            ("label", "<i4"),
            ("propensity", "<f8"),
            ("rounds_seen", "<i8"),
            ("predicted_at", "<f8"),
            ("evidence", "<f8", (evidence_size,)),
            ("context", "<f8", (n_features,)),
        ]
        self._body = np.dtype(body)
        self._round = np.dtype([*_OUTCOME_FIELDS, *body])

    @property
    def round_bytes(self) -> int:
        """The length of a round in the log."""
        return self._round.itemsize

    def encode_predictions(
        self, heads: Sequence[Head], contexts: FloatArray, evidence: FloatArray, now: float
    ) -> list[bytes]:
        """The records of n open predictions.

        Args:
            heads: n heads.
            contexts: (n, d), as the learner saw them.
            evidence: (n, E), of the decisions.
            now: when they were made, seconds since the epoch.
        """
        bodies = np.zeros(len(heads), self._body)
        bodies["label"] = [head.label for head in heads]
        bodies["propensity"] = [head.propensity for head in heads]
        bodies["rounds_seen"] = [head.rounds_seen for head in heads]
        bodies["predicted_at"] = now
        bodies["evidence"], bodies["context"] = evidence, contexts
        data, size = bodies.tobytes(), self._body.itemsize
        return [_HEAD.pack(FORMAT, 0, *head) + data[i * size : (i + 1) * size] for i, head in enumerate(heads)]

    def decode_rounds(self, records: Sequence[bytes]) -> Rounds:
        """The rounds as the learners want them, in arrays of their own.

        Raises:
            StoreCorruptError: if a record is not one of this model.
        """
        table = self.table(records)
        self._check(table)
        return Rounds(
            contexts=Contexts.dense(table["context"]),
            labels=table["label"].astype(np.int64),
            propensities=table["propensity"].astype(np.float64),
            correct=table["correct"].astype(np.bool_),
            true_labels=table["true_label"].astype(np.int64),
            # A copy in any case: kernels are compiled for arrays that may be written.
            evidence=np.array(table["evidence"], order="C"),
        )

    def _check(self, table: np.ndarray[Any, Any]) -> None:
        """Refuses numbers that would lead a compiled update astray: labels become indices there."""
        labels, true_labels, propensities = table["label"], table["true_label"], table["propensity"]
        possible = (
            ((labels >= 0) & (labels < self._n_labels)).all()
            and ((true_labels >= NO_LABEL) & (true_labels < self._n_labels)).all()
            and ((propensities > 0.0) & (propensities <= 1.0)).all()
            and np.isfinite(table["evidence"]).all()
            and np.isfinite(table["context"]).all()
        )
        if not possible:
            raise StoreCorruptError("a round of the log holds impossible numbers")

    def table(self, records: Sequence[bytes]) -> np.ndarray[Any, Any]:
        """The rounds as a table, a row each, with the columns named in this module.

        Raises:
            StoreCorruptError: if a record is not one of this model.
        """
        if any(len(record) != self._round.itemsize for record in records):
            raise StoreCorruptError(f"a round of the log is not {self._round.itemsize} bytes long")
        return np.frombuffer(b"".join(records), dtype=self._round)


def decode_head(record: bytes) -> Head:
    """The head of a prediction's record.

    Raises:
        StoreCorruptError: if it is none.
    """
    if len(record) < HEAD_BYTES or record[0] != FORMAT:
        raise StoreCorruptError("a prediction's record has an unknown format")
    _, _, fingerprint, expires_at, rounds_seen, label, propensity = _HEAD.unpack_from(record)
    return Head(fingerprint, expires_at, rounds_seen, label, propensity)


def decode_outcome(data: bytes) -> Outcome:
    """The outcome that a feedback's reply carries.

    Raises:
        StoreCorruptError: if it is none.
    """
    if len(data) != _OUTCOME.size:
        raise StoreCorruptError("an outcome has an unknown format")
    correct, true_label, feedback_at, number = _OUTCOME.unpack(data)
    return Outcome(bool(correct), None if true_label < 0 else true_label, feedback_at, number)
