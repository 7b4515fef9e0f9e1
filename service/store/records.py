"""The bytes of a prediction and of a round. Little-endian, no code in them.

A prediction is HEAD then BODY. Feedback turns it into HEAD then OUTCOME, and appends to the log the round,
OUTCOME then BODY. A head ends with the answer, an outcome with the truth, both of the fixed length that the head
tells: see `service.store.outputs`. A body is numbers of fixed length for each model, then the context. The joining is
done by `lua/add_feedback.lua`, which knows the offsets in HEAD.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from learners.base import Contexts, FloatArray, Rounds
from service.errors import StoreCorruptError
from service.store.outputs import OutputForm

FORMAT = 2

_HEAD = struct.Struct("<BBI16sdqd")
"""format u8, closed u8, bytes of an answer u32, fingerprint 16 bytes, expires_at f64, rounds_seen i64,
propensity f64; the answer follows."""

_OUTCOME = struct.Struct("<Bdq")
"""correct u8, feedback_at f64, round i64; the truth follows, every bit 1 where it is unknown."""

_ENTRY = np.dtype([("index", "<i4"), ("value", "<f8")])
"""One number of a sparse context."""

_OUTCOME_FIELDS = [("correct", "u1"), ("feedback_at", "<f8"), ("round", "<i8")]


class Head(NamedTuple):
    """What is kept of a prediction until it is forgotten, open or closed."""

    fingerprint: bytes  # 16 bytes, of the request's body; zeros where the service made the id
    expires_at: float  # seconds since the epoch
    rounds_seen: int
    propensity: float  # 0 where it is too small for a float64
    output: bytes  # the answer


class Outcome(NamedTuple):
    """What feedback said, and the number of the round it made."""

    correct: bool
    feedback_at: float
    round: int
    truth: bytes | None


class RecordFormat:
    """The bytes of one model's predictions and rounds.

    Args:
        output: how its answers are stored.
        evidence_size: E, numbers of evidence in each.
        n_features: d.
        sparse: whether contexts are stored as pairs of index and number, as many as each has; else as d
            numbers.
    """

    def __init__(self, output: OutputForm, evidence_size: int, n_features: int, sparse: bool = False) -> None:
        self._output = output
        self._n_features = n_features
        self._sparse = sparse
        body: list[Any] = [
            ("output", output.dtype),
            ("propensity", "<f8"),
            ("rounds_seen", "<i8"),
            ("predicted_at", "<f8"),
            ("leftover", "<f8"),
            ("evidence", "<f8", (evidence_size,)),
        ]
        self._body = np.dtype(body)
        self._round = np.dtype([*_OUTCOME_FIELDS, ("truth", output.dtype), *body])

    @property
    def head_bytes(self) -> int:
        """The length of a prediction's head."""
        return _HEAD.size + self._output.dtype.itemsize

    @property
    def round_bytes(self) -> int:
        """The length of a round in the log; of a sparse one, without its context."""
        return self._round.itemsize + (0 if self._sparse else self._n_features * 8)

    def encode_predictions(
        self, heads: Sequence[Head], contexts: Contexts, evidence: FloatArray, leftovers: FloatArray, now: float
    ) -> list[bytes]:
        """The records of n open predictions.

        Args:
            heads: n heads.
            contexts: n contexts, as the learner saw them.
            evidence: (n, E), of the decisions.
            leftovers: (n,), of the draws.
            now: when they were made, seconds since the epoch.
        """
        bodies = np.zeros(len(heads), self._body)
        bodies["output"] = np.frombuffer(b"".join([head.output for head in heads]), self._output.dtype)
        bodies["propensity"] = [head.propensity for head in heads]
        bodies["rounds_seen"] = [head.rounds_seen for head in heads]
        bodies["predicted_at"], bodies["evidence"], bodies["leftover"] = now, evidence, leftovers
        data, size = bodies.tobytes(), self._body.itemsize
        return [
            _encode_head(head) + data[i * size : (i + 1) * size] + tail
            for i, (head, tail) in enumerate(zip(heads, self._encode_contexts(contexts), strict=True))
        ]

    def _encode_contexts(self, contexts: Contexts) -> list[bytes]:
        if self._sparse:
            entries = np.empty(len(contexts.values), _ENTRY)
            entries["index"], entries["value"] = contexts.indices, contexts.values
        else:
            entries = contexts.values.astype("<f8")
        data, bounds = entries.tobytes(), (contexts.starts * entries.itemsize).tolist()
        return [data[start:end] for start, end in pairwise(bounds)]

    def decode_rounds(self, records: Sequence[bytes]) -> Rounds:
        """The rounds as the learners want them, in arrays of their own.

        Raises:
            StoreCorruptError: if a record is not one of this model.
        """
        table = self.table(records)
        self._check(table)
        return Rounds(
            contexts=self.contexts(records),
            labels=table["output"].astype(np.int64),
            propensities=table["propensity"].astype(np.float64),
            correct=table["correct"].astype(np.bool_),
            true_labels=table["truth"].astype(np.int64),
            # A copy in any case: kernels are compiled for arrays that may be written.
            evidence=np.array(table["evidence"], order="C"),
            leftovers=table["leftover"].astype(np.float64),
        )

    def table(self, records: Sequence[bytes]) -> np.ndarray[Any, Any]:
        """All but the contexts of rounds, a row each, with the columns named in this module.

        Raises:
            StoreCorruptError: if a record is not one of this model.
        """
        size = self._round.itemsize
        if any(len(record) < size for record in records):
            raise StoreCorruptError(f"a round of the log is shorter than {size} bytes")
        return np.frombuffer(b"".join(record[:size] for record in records), dtype=self._round)

    def contexts(self, records: Sequence[bytes]) -> Contexts:
        """The contexts of rounds, in arrays of their own.

        Raises:
            StoreCorruptError: if a record is not one of this model.
        """
        size = self._round.itemsize
        tails = [record[size:] for record in records]
        contexts = self._sparse_contexts(tails) if self._sparse else self._dense_contexts(tails)
        if not np.isfinite(contexts.values).all():
            raise StoreCorruptError("a stored context holds impossible numbers")
        return contexts

    def _dense_contexts(self, tails: Sequence[bytes]) -> Contexts:
        if any(len(tail) != self._n_features * 8 for tail in tails):
            raise StoreCorruptError(f"a stored context has not {self._n_features} numbers")
        return Contexts.dense(np.frombuffer(b"".join(tails), "<f8").reshape(len(tails), self._n_features))

    def _sparse_contexts(self, tails: Sequence[bytes]) -> Contexts:
        if any(len(tail) % _ENTRY.itemsize for tail in tails):
            raise StoreCorruptError("a stored context has a broken entry")
        entries = np.frombuffer(b"".join(tails), _ENTRY)
        if ((entries["index"] < 0) | (entries["index"] >= self._n_features)).any():
            raise StoreCorruptError("a stored context has an index out of range")
        return Contexts.sparse([len(tail) // _ENTRY.itemsize for tail in tails], entries["index"], entries["value"])

    def _check(self, table: np.ndarray[Any, Any]) -> None:
        """Refuses numbers that would lead a compiled update astray: labels become indices there."""
        propensities = table["propensity"]
        possible = (
            self._output.are_answers(table["output"])
            and self._output.are_truths(table["truth"])
            and ((propensities >= 0.0) & (propensities <= 1.0)).all()
            and (self._output.vanishing or (propensities > 0.0).all())
            and ((table["leftover"] >= 0.0) & (table["leftover"] < 1.0)).all()
            and np.isfinite(table["evidence"]).all()
        )
        if not possible:
            raise StoreCorruptError("a round of the log holds impossible numbers")


def _encode_head(head: Head) -> bytes:
    fixed = _HEAD.pack(
        FORMAT, 0, len(head.output), head.fingerprint, head.expires_at, head.rounds_seen, head.propensity
    )
    return fixed + head.output


def decode_head(record: bytes) -> Head:
    """The head of a prediction's record.

    Raises:
        StoreCorruptError: if it is none.
    """
    if len(record) < _HEAD.size or record[0] != FORMAT:
        raise StoreCorruptError("a prediction's record has an unknown format")
    _, _, size, fingerprint, expires_at, rounds_seen, propensity = _HEAD.unpack_from(record)
    output = record[_HEAD.size : _HEAD.size + size]
    if len(output) != size:
        raise StoreCorruptError("a prediction's record is cut short")
    return Head(fingerprint, expires_at, rounds_seen, propensity, output)


def decode_outcome(data: bytes) -> Outcome:
    """The outcome that a feedback's reply carries.

    Raises:
        StoreCorruptError: if it is none.
    """
    if len(data) <= _OUTCOME.size:
        raise StoreCorruptError("an outcome has an unknown format")
    correct, feedback_at, number = _OUTCOME.unpack_from(data)
    truth = data[_OUTCOME.size :]
    return Outcome(bool(correct), feedback_at, number, None if truth == b"\xff" * len(truth) else truth)


def moment_of_round(record: bytes) -> float:
    """When the feedback came that made a round.

    Raises:
        StoreCorruptError: if it is none.
    """
    return decode_outcome(record).feedback_at
