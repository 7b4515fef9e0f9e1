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

from learners.base import BoolArray, Contexts, FloatArray, IntArray, Rounds
from service.errors import NewerVersionError, StoreCorruptError
from service.prediction_id import SINGLE
from service.store.records.answer_codec import AnswerCodec
from service.store.records.context_codec import ContextCodec, SparseCodec
from service.store.records.soundness import MOST_ROUNDS, Numbers, faults, sound_rows
from service.store.shapes import RecordShape
from service.store.tokens import MOST_TOKENS

FORMAT = 3

BLOCK_BYTES = 16_384
"""The largest block of more than one prediction: each feedback reads one, and one that waits keeps it whole."""

HEAD = struct.Struct("<BIII16sdq")
"""format u8, predictions u32, open ones u32, bytes of an answer u32, fingerprint 16 bytes, expires_at f64,
rounds_seen i64."""

_LENGTH_BYTES = 4
"""A round begins with its length, u32, these bytes included; then its outcome
(`service.store.outcomes`), its prediction's token i64
(`service.store.tokens`), and its body."""

Table = np.ndarray[Any, Any]
"""A row for each round, with the columns named in this module."""


class NewPredictions(NamedTuple):
    """n predictions that were made together, and are not yet stored."""

    outputs: npt.NDArray[Any]  # (n, ...), the answers as the form has them
    propensities: FloatArray  # (n,), 0 where one is too small for a float64
    residual_uniforms: FloatArray  # (n,), of the draws
    evidence: FloatArray  # (n, E), of the decisions
    contexts: Contexts  # as the learner saw them
    predicted_at: float  # seconds since the epoch
    expires_at: float
    rounds_seen: int


class StoredPrediction(NamedTuple):
    """What is kept of a prediction until it is forgotten, open or closed."""

    fingerprint: bytes  # 16 bytes, of the request's body; zeros where the service made the id
    expires_at: float  # seconds since the epoch
    rounds_seen: int
    propensities: FloatArray  # (1,), 0 where it is too small for a float64
    outputs: npt.NDArray[Any]  # (1, ...), the answer


class RecordFormat:
    """The bytes of one model's predictions and rounds.

    Args:
        output: how its answers are stored.
        evidence_size: E, numbers of evidence in each.
        contexts: how its contexts are stored.

    Attributes:
        head: the dtype of what a block has of each prediction beside its body.
        outcome: the dtype of what feedback said.
    """

    def __init__(self, output: AnswerCodec, evidence_size: int, contexts: ContextCodec) -> None:
        self._output = output
        self._contexts = contexts
        body: list[Any] = [
            ("output", output.dtype),
            ("propensity", "<f8"),
            ("rounds_seen", "<i8"),
            ("predicted_at", "<f8"),
            ("residual_uniform", "<f8"),
            ("evidence", "<f8", (evidence_size,)),
            ("context", "<f8", ((contexts.fixed_bytes or 0) // 8,)),
        ]
        outcome: list[Any] = [("correct", "u1"), ("feedback_at", "<f8"), ("round", "<i8"), ("truth", output.dtype)]
        span = [("from", "<u4"), ("upto", "<u4")]
        self.head = np.dtype([("propensity", "<f8"), ("output", output.dtype), ("token", "<i8"), *span])
        self._body = np.dtype(body)
        self.outcome = np.dtype(outcome)
        self._round = np.dtype([("length", "<u4"), *outcome, ("token", "<i8"), *body])

    @property
    def round_bytes(self) -> int:
        """The length of a round in the log, without its context where those differ in length."""
        return self._round.itemsize

    @property
    def shape(self) -> RecordShape:
        """The lengths of its records, and what answers they may hold."""
        output, contexts = self._output, self._contexts
        features = contexts.size if isinstance(contexts, SparseCodec) else 0
        return RecordShape(output.kind, output.n_labels, output.dtype.itemsize, self._body.itemsize, features)

    def sound(self, predictions: NewPredictions) -> BoolArray:
        """Which of n predictions can be read again once they are stored, (n,)."""
        moments = (predictions.predicted_at, predictions.expires_at)
        numbers = Numbers(
            predictions.outputs,
            predictions.propensities,
            predictions.residual_uniforms,
            predictions.evidence,
            predictions.contexts,
            moments,
        )
        return sound_rows(self._output, numbers)

    def bounds(self, contexts: Contexts) -> list[int]:
        """Where n predictions, kept in blocks that are not too large, begin a new one; 0 and n included."""
        each = self.outcome.itemsize + self.head.itemsize + self._body.itemsize
        own = 0 if self._contexts.fixed_bytes else int(self._contexts.encode(contexts)[1][-1])
        size = contexts.n * each + own
        blocks = min(contexts.n, -(-size // BLOCK_BYTES))
        return [contexts.n * i // blocks for i in range(blocks + 1)]

    def encode_blocks(
        self, predictions: NewPredictions, bounds: Sequence[int], tokens: IntArray, fingerprints: Sequence[bytes]
    ) -> list[bytes]:
        """The records of n open predictions.

        Args:
            predictions: n of them.
            bounds: where each block begins, and n.
            tokens: (n,), of `service.store.tokens`.
            fingerprints: 16 bytes for each block.
        """
        data, at = self._encode_bodies(predictions)
        heads = np.empty(len(predictions.outputs), self.head)
        heads["propensity"], heads["output"], heads["token"] = predictions.propensities, predictions.outputs, tokens
        blocks = []
        for fingerprint, (start, stop) in zip(fingerprints, pairwise(bounds), strict=True):
            n, rows = stop - start, heads[start:stop]
            rows["from"], rows["upto"] = at[start:stop] - at[start], at[start + 1 : stop + 1] - at[start]
            head = HEAD.pack(
                FORMAT, n, n, self._output.dtype.itemsize, fingerprint, predictions.expires_at, predictions.rounds_seen
            )
            outcomes = bytes(n * self.outcome.itemsize)
            blocks.append(b"".join((head, outcomes, rows.tobytes(), data[at[start] : at[stop]])))
        return blocks

    def _encode_bodies(self, predictions: NewPredictions) -> tuple[bytes, npt.NDArray[np.int64]]:
        """All bodies in one, and where each begins, and the end."""
        bodies = np.empty(len(predictions.outputs), self._body)
        bodies["output"], bodies["propensity"] = predictions.outputs, predictions.propensities
        bodies["rounds_seen"], bodies["predicted_at"] = predictions.rounds_seen, predictions.predicted_at
        bodies["residual_uniform"], bodies["evidence"] = predictions.residual_uniforms, predictions.evidence
        size, (tails, ends) = self._body.itemsize, self._contexts.encode(predictions.contexts)
        at = np.arange(len(bodies) + 1, dtype=np.int64) * size
        if fixed_bytes := self._contexts.fixed_bytes:
            bodies["context"] = np.frombuffer(tails).reshape(-1, fixed_bytes // 8)
            return bodies.tobytes(), at
        fixed = bodies.tobytes()
        parts = [fixed[i * size : (i + 1) * size] + tails[start:stop] for i, (start, stop) in enumerate(pairwise(ends))]
        return b"".join(parts), at + ends

    def decode_stored(self, record: bytes) -> StoredPrediction | None:
        """What a block tells that keeps a single prediction, with or without its body; None if it keeps several.

        Raises:
            NewerVersionError: if a newer version wrote it.
            StoreCorruptError: if it is none.
        """
        if len(record) < HEAD.size or record[0] < FORMAT:
            raise StoreCorruptError("a prediction's record has an unknown format")
        if record[0] > FORMAT:
            raise NewerVersionError(f"a prediction's record has format {record[0]}; this version reads {FORMAT}")
        _, n, _, size, fingerprint, expires_at, rounds_seen = HEAD.unpack_from(record)
        at = HEAD.size + self.outcome.itemsize
        if n > 1 and fingerprint == bytes(16):  # one that the service named
            return None
        if n != 1 or size != self._output.dtype.itemsize or len(record) < at + self.head.itemsize:
            raise StoreCorruptError("a prediction's record is cut short, or of another model")
        head, none = np.frombuffer(record, self.head, 1, at), np.zeros((1, 0))
        contexts = Contexts.dense(none)
        numbers = Numbers(head["output"], head["propensity"], np.zeros(1), none, contexts, (expires_at,))
        if wrong := faults(self._output, numbers):
            raise StoreCorruptError(f"a prediction's record holds an impossible {wrong[0]}")
        return StoredPrediction(fingerprint, expires_at, rounds_seen, head["propensity"], head["output"])

    def decode_rounds(self, entries: Sequence[bytes]) -> Rounds:
        """The rounds as the learners want them, in arrays of their own.

        Args:
            entries: of the log, some rounds in each.

        Raises:
            StoreCorruptError: if an entry is not one of this model.
        """
        return self.rounds_of(*self.rows(entries))

    @staticmethod
    def rounds_of(table: Table, contexts: Contexts) -> Rounds:
        """The rounds of a table as the learners want them, in arrays of their own."""
        return Rounds(
            contexts=contexts,
            labels=table["output"].astype(np.int64),
            propensities=table["propensity"].astype(np.float64),
            correct=table["correct"].astype(np.bool_),
            true_labels=table["truth"].astype(np.int64),
            # A copy in any case: kernels are compiled for arrays that may be written.
            evidence=np.array(table["evidence"], order="C"),
            residual_uniforms=table["residual_uniform"].astype(np.float64),
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
        table, contexts = self._fixed_rows(entries) if self._contexts.fixed_bytes else self._other_rows(entries)
        if wrong := self._faults(table, contexts):
            raise StoreCorruptError(f"a round of the log holds an impossible {wrong[0]}")
        return table, contexts

    def _fixed_rows(self, entries: Sequence[bytes]) -> tuple[Table, Contexts]:
        data, size = b"".join(entries), self._round.itemsize
        whole = len(data) - len(data) % size
        table = np.frombuffer(data[:whole], self._round)
        if whole != len(data) or (table["length"] != size).any():
            raise StoreCorruptError(f"a round of the log has not {size} bytes")
        fixed_bytes = self._contexts.fixed_bytes or 0
        return table, self._contexts.decode(table["context"].tobytes(), np.arange(len(table) + 1) * fixed_bytes)

    def _other_rows(self, entries: Sequence[bytes]) -> tuple[Table, Contexts]:
        records, size = [each for entry in entries for each in self.split(entry)], self._round.itemsize
        table = np.frombuffer(b"".join(record[:size] for record in records), self._round)
        tails = [record[size:] for record in records]
        offsets = np.cumsum([0, *map(len, tails)], dtype=np.int64)
        return table, self._contexts.decode(b"".join(tails), offsets)

    def split(self, entry: bytes) -> Iterator[bytes]:
        """The rounds of an entry, one by one.

        Raises:
            StoreCorruptError: if a length is impossible.
        """
        if self._contexts.fixed_bytes:  # of one length, whatever they say
            size = self._round.itemsize
            if len(entry) % size:
                raise StoreCorruptError(f"a round of the log has not {size} bytes")
            yield from (entry[at : at + size] for at in range(0, len(entry), size))
            return
        at = 0
        while at < len(entry):
            length = int.from_bytes(entry[at : at + _LENGTH_BYTES], "little")
            if length < self._round.itemsize or at + length > len(entry):
                raise StoreCorruptError("a round of the log has an impossible length")
            yield entry[at : at + length]
            at += length

    def count(self, entry: bytes) -> int | None:
        """How many rounds there are in an entry; None where they cannot be told apart."""
        if self._contexts.fixed_bytes:
            count, rest = divmod(len(entry), self._round.itemsize)
            return None if rest else count
        try:
            return sum(1 for _ in self.split(entry))
        except StoreCorruptError:
            return None

    def _faults(self, table: Table, contexts: Contexts) -> list[str]:
        """The names of numbers that would lead a learner astray: labels become indices in compiled updates."""
        form, right = self._output, table["correct"]
        of_outcome = {
            "truth": form.possible_truths(table["truth"]),
            "bit": (right == form.equal(table["truth"], table["output"])) & (right <= 1),
            "number": (table["round"] >= 1) & (table["rounds_seen"] >= 0) & (table["rounds_seen"] <= MOST_ROUNDS),
            "token": (table["token"] >= SINGLE) & (table["token"] < MOST_TOKENS),
        }
        output, p, residual_uniform, evidence = (
            table[name] for name in ("output", "propensity", "residual_uniform", "evidence")
        )
        moments = (table["predicted_at"], table["feedback_at"])
        wrong = faults(form, Numbers(output, p, residual_uniform, evidence, contexts, moments))
        return [*wrong, *(name for name, mask in of_outcome.items() if not mask.all())]
