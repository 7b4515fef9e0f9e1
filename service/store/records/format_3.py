"""Blocks and rounds of version 3, which releases up to 0.1.0 wrote. This frozen format is read, never written.

A block is HEAD, one OUTCOME per prediction (zeros while it is open), one PREDICTION per prediction, and the bodies. A
round is a length u32, its OUTCOME, the token i64 and the body. A body is BODY, the evidence, and the context. The
format has no checks, so only impossible numbers reveal damage. `lua/add_feedback_format_3.lua` joins predictions with
feedback.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from learners.base import IntArray
from service.errors import StoreCorruptError
from service.store.records.answer_codec import AnswerCodec
from service.store.records.context_codec import ContextCodec, SparseCodec
from service.store.records.layout import EVIDENCE, FEEDBACK, Layout
from service.store.records.round_table import RawRounds, Table, row_dtype, row_faults
from service.store.records.stored_prediction import StoredPrediction, stored_prediction

VERSION = 3

HEAD = Layout(
    version="u8",
    predictions="u32",
    open="u32",
    answer_bytes="u32",
    fingerprint="16s",
    expires_at="f64",
    rounds_seen="i64",
)
OUTCOME = Layout(correct="u8", feedback_at="f64", round="i64", truth="answer")
PREDICTION = Layout(propensity="f64", output="answer", token="i64", begin="u32", end="u32")
BODY = Layout(output="answer", propensity="f64", rounds_seen="i64", predicted_at="f64", residual_uniform="f64")
ROUND = Layout(length="u32", **OUTCOME.fields, token="i64", **BODY.fields)

_HEAD = HEAD.struct()

_COLUMNS = {*ROUND.fields, "evidence"} - {"length", "correct"}
"""Fields of a round that are columns of a table."""


class RecordShape(NamedTuple):
    """The sizes of a model's records, and the answers they may contain, by which the script detects damaged ones."""

    kind: str  # of answer
    n_labels: int
    answer_bytes: int
    body_bytes: int  # without a sparse context
    sparse_features: int  # d; 0 for dense contexts


class Past(NamedTuple):
    """The changes of a model. Records of version 3 were made before all of them."""

    since: int  # the changes before which evidence may have any size
    evidence_size: int  # before all changes
    n_labels: int  # before all changes


class _Block(NamedTuple):
    """The parts of a block with consistent lengths."""

    fingerprint: bytes
    expires_at: float
    rounds_seen: int
    outcomes: Table
    predictions: Table
    bodies: bytes


def shape_of(answers: AnswerCodec, evidence_size: int, contexts: ContextCodec) -> RecordShape:
    """Return the shape of a model's records, an argument of the script."""
    size, answer_bytes = contexts.size if isinstance(contexts, SparseCodec) else 0, answers.dtype.itemsize
    body_bytes = BODY.size + answer_bytes + 8 * evidence_size + (contexts.fixed_bytes or 0)
    return RecordShape(answers.kind, answers.n_labels, answer_bytes, body_bytes, size)


class Format3:
    """Reads the version 3 records of one model.

    Args:
        answers: the codec of its answers.
        evidence_size: E.
        contexts: the codec of its contexts.
        past: the changes of the model.
    """

    def __init__(self, answers: AnswerCodec, evidence_size: int, contexts: ContextCodec, past: Past) -> None:
        self._answers, self._past = answers, past
        self._contexts = contexts
        self._row = row_dtype(answers, evidence_size)
        self._outcome, self._prediction = OUTCOME.dtype(answers.dtype), PREDICTION.dtype(answers.dtype)
        fixed = [*_descriptions(ROUND.dtype(answers.dtype)), ("evidence", "<f8", (past.evidence_size,))]
        self._fixed = np.dtype(fixed)
        self._whole = np.dtype([*fixed, ("context", f"V{contexts.fixed_bytes}")]) if contexts.fixed_bytes else None

    def decode_stored(self, record: bytes) -> StoredPrediction | None:
        """See `RecordFormat.decode_stored`."""
        block = self._block(record)
        if len(block.predictions) > 1 and block.fingerprint != bytes(16):
            raise StoreCorruptError("a prediction's record belongs to another model")
        return stored_prediction(
            self._answers, block.predictions, block.fingerprint, block.expires_at, block.rounds_seen
        )

    def check_block(self, record: bytes) -> None:
        """See `RecordFormat.check_block`."""
        self.waiting(record)

    def waiting(self, record: bytes) -> tuple[float, RawRounds | None]:
        """Return the end of a block's window, and the rounds that feedback would create from its open predictions.

        Raises:
            StoreCorruptError: if it is damaged.
        """
        block = self._block(record)
        begin, end = block.predictions["begin"], block.predictions["end"]
        opened = [i for i, outcome in enumerate(block.outcomes) if not any(outcome.tobytes())]
        if not opened:
            return block.expires_at, None
        if begin[0] or end[-1] != len(block.bodies) or (begin[1:] != end[:-1]).any():
            raise StoreCorruptError("the bodies of a prediction's record overlap or have gaps")
        raw = self._as_rounds(block, opened)
        for name in ("output", "propensity"):
            if raw.table[name].tobytes() != block.predictions[opened][name].tobytes():
                raise StoreCorruptError(f"head and body of a prediction differ in the {name}")
        if (raw.table["rounds_seen"] != block.rounds_seen).any():
            raise StoreCorruptError("head and body of a prediction differ in the rounds seen")
        return block.expires_at, raw

    def bounds(self, payload: bytes) -> list[int]:
        """See `RoundReader.bounds`."""
        if self._whole is not None:  # all rounds have this length; the stored length may be damaged
            if len(payload) % self._whole.itemsize:
                raise StoreCorruptError(f"a round of the log does not have {self._whole.itemsize} bytes")
            return list(range(0, len(payload) + 1, self._whole.itemsize))
        return [0, *self._ends(payload)]

    def read(self, payloads: Sequence[bytes]) -> RawRounds:
        """See `RoundReader.read`."""
        if self._whole is not None:
            return self._of_one_length(b"".join(payloads), self._whole)
        rounds, size = [each for payload in payloads for each in self._split(payload)], self._fixed.itemsize
        table = np.frombuffer(b"".join(each[:size] for each in rounds), self._fixed)
        lengths = [len(each) - size for each in rounds]
        return self._raw(table, b"".join(each[size:] for each in rounds), np.cumsum([0, *lengths]))

    def _of_one_length(self, data: bytes, whole: np.dtype[np.void]) -> RawRounds:
        table = np.frombuffer(data[: len(data) - len(data) % whole.itemsize], whole)
        if len(data) % whole.itemsize or (table["length"] != whole.itemsize).any():
            raise StoreCorruptError(f"a round of the log does not have {whole.itemsize} bytes")
        size = whole["context"].itemsize
        return self._raw(table, table["context"].tobytes(), np.arange(len(table) + 1) * size)

    def _raw(self, table: Table, contexts: bytes, offsets: IntArray) -> RawRounds:
        nothing = [b""] * len(table)
        return RawRounds(self._table(table), contexts, offsets, nothing, nothing, nothing)

    def _split(self, payload: bytes) -> Iterator[bytes]:
        begin = 0
        for end in self._ends(payload):
            yield payload[begin:end]
            begin = end

    def _ends(self, payload: bytes) -> Iterator[int]:
        at = 0
        while at < len(payload):
            length = int.from_bytes(payload[at : at + 4], "little")
            if length < self._fixed.itemsize or at + length > len(payload):
                raise StoreCorruptError("a round of the log has an impossible length")
            at += length
            yield at

    def _table(self, rounds: Table) -> Table:
        table = np.zeros(len(rounds), self._row)
        for name in rounds.dtype.names or ():
            if name in _COLUMNS - {"evidence"}:
                table[name] = rounds[name]
        # That of a learner with fewer labels is a part of it; that of another learner is made anew.
        size = min(self._past.evidence_size, table["evidence"].shape[1])
        table["evidence"][:, :size] = rounds["evidence"][:, :size]
        table["kind"], table["flags"] = FEEDBACK, EVIDENCE
        # A damaged bit becomes an impossible reward.
        table["reward"], table["labels"] = rounds["correct"], self._past.n_labels
        return table

    def _block(self, record: bytes) -> _Block:
        if len(record) < HEAD.size:
            raise StoreCorruptError("a prediction's record has an unknown format")
        _, n, _, answer_bytes, fingerprint, expires_at, rounds_seen = _HEAD.unpack_from(record)
        heads_at = HEAD.size + n * self._outcome.itemsize
        bodies_at = heads_at + n * self._prediction.itemsize
        if n < 1 or answer_bytes != self._answers.dtype.itemsize or len(record) < bodies_at:
            raise StoreCorruptError("a prediction's record is truncated, or belongs to another model")
        outcomes = np.frombuffer(record, self._outcome, n, HEAD.size)
        heads = np.frombuffer(record, self._prediction, n, heads_at)
        return _Block(fingerprint, expires_at, rounds_seen, outcomes, heads, record[bodies_at:])

    def _as_rounds(self, block: _Block, opened: Sequence[int]) -> RawRounds:
        """Return the rounds that feedback would create from open predictions."""
        outcome = np.zeros(1, self._outcome)
        outcome["round"], outcome["truth"] = 1, -1
        rounds = []
        for head in block.predictions[opened]:
            rest = outcome.tobytes() + head["token"].tobytes() + block.bodies[head["begin"] : head["end"]]
            rounds.append((len(rest) + 4).to_bytes(4, "little") + rest)
        raw = self.read(rounds)
        contexts, every = self._contexts.decode(raw.contexts, raw.offsets), np.ones((len(raw.table), 0), np.bool_)
        if wrong := row_faults(self._answers, raw.table, contexts, every):
            raise StoreCorruptError(f"a prediction's record has an impossible {wrong[0]}")
        return raw


def _descriptions(dtype: np.dtype[np.void]) -> list[tuple[str, np.dtype[np.void]]]:
    return [(name, dtype[name]) for name in dtype.names or ()]
