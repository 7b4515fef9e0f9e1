"""The bytes of predictions and of rounds. Little-endian, no code in them.

Predictions that are made together are kept together: a block is HEAD, an OUTCOME for each prediction (zeros while it
is open), its answer and token, and its body. Feedback fills in outcomes and appends to the log a ROUND for each, the
outcome and the body; when the last prediction of a block is closed its bodies go. A body is numbers of fixed length for
each model, then the context. The joining is done by `lua/add_feedback.lua`, which knows the offsets.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import Contexts, FloatArray, IntArray, Rounds
from service.errors import StoreCorruptError
from service.store.outputs import OutputForm

FORMAT = 3

BLOCK_BYTES = 16_384
"""The largest block of more than one prediction: each feedback reads one, and one that waits keeps it whole."""

_HEAD = struct.Struct("<BIII16sdq")
"""format u8, predictions u32, open ones u32, bytes of an answer u32, fingerprint 16 bytes, expires_at f64,
rounds_seen i64."""

_OUTCOME = struct.Struct("<Bdq")
"""correct u8, feedback_at f64, round i64; the truth follows, every bit 1 where it is unknown."""

_LENGTH_BYTES = 4
"""A round begins with its length, u32, these bytes included; then its outcome, its prediction's token i64
(`service.store.ids`), and its body."""

_ENTRY = np.dtype([("index", "<i4"), ("value", "<f8")])
"""One number of a sparse context."""

Table = np.ndarray[Any, Any]
"""A row for each round, with the columns named in this module."""


class Made(NamedTuple):
    """n predictions that were made together, and are not yet stored."""

    outputs: npt.NDArray[Any]  # (n, ...), the answers as the form has them
    propensities: FloatArray  # (n,), 0 where one is too small for a float64
    leftovers: FloatArray  # (n,), of the draws
    evidence: FloatArray  # (n, E), of the decisions
    contexts: Contexts  # as the learner saw them
    predicted_at: float  # seconds since the epoch
    expires_at: float
    rounds_seen: int


class Kept(NamedTuple):
    """What is kept of a prediction until it is forgotten, open or closed."""

    fingerprint: bytes  # 16 bytes, of the request's body; zeros where the service made the id
    expires_at: float  # seconds since the epoch
    rounds_seen: int
    propensities: FloatArray  # (1,), 0 where it is too small for a float64
    outputs: npt.NDArray[Any]  # (1, ...), the answer


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
            *([] if sparse else [("context", "<f8", (n_features,))]),
        ]
        outcome: list[Any] = [("correct", "u1"), ("feedback_at", "<f8"), ("round", "<i8"), ("truth", output.dtype)]
        span = [("from", "<u4"), ("upto", "<u4")]
        self._head = np.dtype([("propensity", "<f8"), ("output", output.dtype), ("token", "<i8"), *span])
        self._body = np.dtype(body)
        self._outcome = np.dtype(outcome)
        self._round = np.dtype([("length", "<u4"), *outcome, ("token", "<i8"), *body])

    @property
    def round_bytes(self) -> int:
        """The length of a round in the log; of a sparse one, without its context."""
        return self._round.itemsize

    def bounds(self, contexts: Contexts) -> list[int]:
        """Where n predictions, kept in blocks that are not too large, begin a new one; 0 and n included."""
        each = self._outcome.itemsize + self._head.itemsize + self._body.itemsize
        size = contexts.n * each + (len(contexts.values) * _ENTRY.itemsize if self._sparse else 0)
        blocks = min(contexts.n, -(-size // BLOCK_BYTES))
        return [contexts.n * i // blocks for i in range(blocks + 1)]

    def encode_blocks(
        self, made: Made, bounds: Sequence[int], tokens: IntArray, fingerprints: Sequence[bytes]
    ) -> list[bytes]:
        """The records of n open predictions.

        Args:
            made: the predictions.
            bounds: where each block begins, and n.
            tokens: (n,), of `service.store.ids`.
            fingerprints: 16 bytes for each block.
        """
        data, at = self._encode_bodies(made)
        heads = np.empty(len(made.outputs), self._head)
        heads["propensity"], heads["output"], heads["token"] = made.propensities, made.outputs, tokens
        blocks = []
        for fingerprint, (start, stop) in zip(fingerprints, pairwise(bounds), strict=True):
            n, rows = stop - start, heads[start:stop]
            rows["from"], rows["upto"] = at[start:stop] - at[start], at[start + 1 : stop + 1] - at[start]
            head = _HEAD.pack(FORMAT, n, n, self._output.dtype.itemsize, fingerprint, made.expires_at, made.rounds_seen)
            outcomes = bytes(n * self._outcome.itemsize)
            blocks.append(b"".join((head, outcomes, rows.tobytes(), data[at[start] : at[stop]])))
        return blocks

    def _encode_bodies(self, made: Made) -> tuple[bytes, npt.NDArray[np.int64]]:
        """All bodies in one, and where each begins, and the end."""
        bodies = np.empty(len(made.outputs), self._body)
        bodies["output"], bodies["propensity"] = made.outputs, made.propensities
        bodies["rounds_seen"], bodies["predicted_at"] = made.rounds_seen, made.predicted_at
        bodies["leftover"], bodies["evidence"] = made.leftovers, made.evidence
        size, contexts = self._body.itemsize, made.contexts
        at = np.arange(len(bodies) + 1, dtype=np.int64) * size
        if not self._sparse:
            bodies["context"] = contexts.values.reshape(len(bodies), self._n_features)
            return bodies.tobytes(), at
        entries = np.empty(len(contexts.values), _ENTRY)
        entries["index"], entries["value"] = contexts.indices, contexts.values
        fixed, tails, bounds = bodies.tobytes(), entries.tobytes(), (contexts.starts * _ENTRY.itemsize).tolist()
        parts = [
            fixed[i * size : (i + 1) * size] + tails[start:stop] for i, (start, stop) in enumerate(pairwise(bounds))
        ]
        return b"".join(parts), at + contexts.starts * _ENTRY.itemsize

    def decode_kept(self, record: bytes) -> Kept:
        """What a block tells that keeps a single prediction, with or without its body.

        Raises:
            StoreCorruptError: if it is none.
        """
        if len(record) < _HEAD.size or record[0] != FORMAT:
            raise StoreCorruptError("a prediction's record has an unknown format")
        _, n, _, size, fingerprint, expires_at, rounds_seen = _HEAD.unpack_from(record)
        at = _HEAD.size + self._outcome.itemsize
        if n != 1 or size != self._output.dtype.itemsize or len(record) < at + self._head.itemsize:
            raise StoreCorruptError("a prediction's record is cut short, or of another model")
        head = np.frombuffer(record, self._head, 1, at)
        if not self._output.are_answers(head["output"]):
            raise StoreCorruptError("a prediction's record holds an impossible answer")
        return Kept(fingerprint, expires_at, rounds_seen, head["propensity"], head["output"])

    def decode_rounds(self, entries: Sequence[bytes]) -> Rounds:
        """The rounds as the learners want them, in arrays of their own.

        Args:
            entries: of the log, some rounds in each.

        Raises:
            StoreCorruptError: if an entry is not one of this model.
        """
        table, contexts = self.rows(entries)
        return Rounds(
            contexts=contexts,
            labels=table["output"].astype(np.int64),
            propensities=table["propensity"].astype(np.float64),
            correct=table["correct"].astype(np.bool_),
            true_labels=table["truth"].astype(np.int64),
            # A copy in any case: kernels are compiled for arrays that may be written.
            evidence=np.array(table["evidence"], order="C"),
            leftovers=table["leftover"].astype(np.float64),
        )

    def table(self, entries: Sequence[bytes]) -> Table:
        """A row for each round in entries of the log.

        Raises:
            StoreCorruptError: if an entry is not one of this model.
        """
        return self.rows(entries)[0]

    def rows(self, entries: Sequence[bytes]) -> tuple[Table, Contexts]:
        """The table, and the contexts of its rounds in arrays of their own.

        Raises:
            StoreCorruptError: if an entry is not one of this model.
        """
        table, contexts = self._sparse_rows(entries) if self._sparse else self._dense_rows(entries)
        self._check(table)
        if not np.isfinite(contexts.values).all():
            raise StoreCorruptError("a stored context holds impossible numbers")
        return table, contexts

    def _dense_rows(self, entries: Sequence[bytes]) -> tuple[Table, Contexts]:
        data, size = b"".join(entries), self._round.itemsize
        whole = len(data) - len(data) % size
        table = np.frombuffer(data[:whole], self._round)
        if whole != len(data) or (table["length"] != size).any():
            raise StoreCorruptError(f"a round of the log has not {size} bytes")
        return table, Contexts.dense(table["context"])

    def _sparse_rows(self, entries: Sequence[bytes]) -> tuple[Table, Contexts]:
        records, size = list(self._split(entries)), self._round.itemsize
        table = np.frombuffer(b"".join(record[:size] for record in records), self._round)
        return table, self._sparse_contexts([record[size:] for record in records])

    def _split(self, entries: Sequence[bytes]) -> Iterator[bytes]:
        """Sparse rounds, whose lengths differ, one by one."""
        for entry in entries:
            at = 0
            while at < len(entry):
                length = int.from_bytes(entry[at : at + _LENGTH_BYTES], "little")
                if length < self._round.itemsize or at + length > len(entry):
                    raise StoreCorruptError("a round of the log has an impossible length")
                yield entry[at : at + length]
                at += length

    def _sparse_contexts(self, tails: Sequence[bytes]) -> Contexts:
        if any(len(tail) % _ENTRY.itemsize for tail in tails):
            raise StoreCorruptError("a stored context has a broken entry")
        entries = np.frombuffer(b"".join(tails), _ENTRY)
        if ((entries["index"] < 0) | (entries["index"] >= self._n_features)).any():
            raise StoreCorruptError("a stored context has an index out of range")
        return Contexts.sparse([len(tail) // _ENTRY.itemsize for tail in tails], entries["index"], entries["value"])

    def _check(self, table: Table) -> None:
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


def decode_outcomes(data: bytes, n: int) -> list[Outcome]:
    """The n outcomes that the reply to feedback carries, of one length.

    Raises:
        StoreCorruptError: if they are none.
    """
    size, rest = divmod(len(data), n) if n else (0, len(data))
    if rest or (n and size <= _OUTCOME.size):
        raise StoreCorruptError("an outcome has an unknown format")
    form = struct.Struct(f"{_OUTCOME.format}{size - _OUTCOME.size}s") if n else _OUTCOME
    unknown = b"\xff" * (size - _OUTCOME.size)
    return [
        Outcome(bool(correct), feedback_at, number, None if truth == unknown else truth)
        for correct, feedback_at, number, truth in form.iter_unpack(data)
    ]


def first_round(entry: bytes) -> tuple[int, float]:
    """The number of the first round in an entry of the log, and when its feedback came.

    Raises:
        StoreCorruptError: if it has none.
    """
    if len(entry) < _LENGTH_BYTES + _OUTCOME.size:
        raise StoreCorruptError("an entry of the log is cut short")
    _, feedback_at, number = _OUTCOME.unpack_from(entry, _LENGTH_BYTES)
    return number, feedback_at
