"""The record format of one model's predictions and rounds, as used by the rest of the service.

`layout` defines the structs. `lua/add_feedback.lua` joins predictions with feedback.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import BoolArray, Contexts, FloatArray, IntArray, Rounds
from service.errors import StoreCorruptError
from service.store.records import format_3
from service.store.records.answer_codec import AnswerCodec
from service.store.records.blocks import block_of
from service.store.records.checks import check_of
from service.store.records.context_codec import ContextCodec
from service.store.records.format_3 import Format3, shape_of
from service.store.records.layout import BODY, EVIDENCE, HEAD, OPEN_COUNT, OUTCOME, PREDICTION, VERSION
from service.store.records.round_table import RawRounds, RoundReader, Table, row_faults
from service.store.records.rounds import StoredRounds
from service.store.records.soundness import Numbers, sound_rows
from service.store.records.stored_prediction import StoredPrediction, single_prediction

BLOCK_BYTES = 16_384
"""Maximum bytes of a block with several predictions. Each feedback reads a whole block, and one open prediction keeps
the bodies of all."""

_HEAD, _OPEN_COUNT = HEAD.struct(), OPEN_COUNT.struct()


class NewPredictions(NamedTuple):
    """n predictions made together and not yet stored."""

    outputs: npt.NDArray[Any]  # (n, ...), the answers in the stored dtype
    propensities: FloatArray  # (n,), 0 if too small for a float64
    residual_uniforms: FloatArray  # (n,), of the draws
    evidence: FloatArray  # (n, E), of the decisions
    contexts: Contexts  # as the learner saw them
    predicted_at: float  # seconds since the epoch
    expires_at: float
    rounds_seen: int
    changes_seen: int = 0


class RecordFormat:
    """Encodes and decodes one model's predictions and rounds.

    Args:
        answers: the codec of its answers.
        evidence_size: E, the number of evidence values per prediction.
        contexts: the codec of its contexts.

    Attributes:
        answers: the codec of its answers.
        shape: the shape of its version 3 records, an argument of their script.
    """

    def __init__(self, answers: AnswerCodec, evidence_size: int, contexts: ContextCodec) -> None:
        self.answers = answers
        self._evidence_size = evidence_size
        self._contexts = contexts
        self._prediction = PREDICTION.dtype(answers.dtype)
        self._outcome_bytes = OUTCOME.dtype(answers.dtype).itemsize
        self._body = np.dtype([("core", BODY.dtype(answers.dtype)), ("evidence", "<f8", (evidence_size,))])
        self._rounds = StoredRounds(answers, evidence_size, contexts)
        self.shape = shape_of(answers, evidence_size, contexts)

    @property
    def round_bytes(self) -> int:
        """Size of a round in the log; without the context if contexts differ in size."""
        return self._rounds.least_bytes

    @cached_property
    def _format_3(self) -> Format3:
        """The reader of version 3, created only if the model has such records."""
        return Format3(self.answers, self._evidence_size, self._contexts)

    def sound(self, predictions: NewPredictions) -> BoolArray:
        """Return which of n predictions will be readable after they are stored, (n,)."""
        numbers = Numbers(
            predictions.outputs,
            predictions.propensities,
            predictions.residual_uniforms,
            predictions.evidence,
            predictions.contexts,
            (predictions.predicted_at, predictions.expires_at),
        )
        return sound_rows(self.answers, numbers)

    def bounds(self, contexts: Contexts) -> list[int]:
        """Divide n predictions into blocks of limited size; return the start of each block, and n."""
        each, fixed = self._outcome_bytes + self._prediction.itemsize + self._body.itemsize, self._contexts.fixed_bytes
        in_contexts = int(self._contexts.encode(contexts)[1][-1]) if fixed is None else contexts.n * fixed
        blocks = min(contexts.n, -(-(contexts.n * each + in_contexts) // BLOCK_BYTES))
        return [contexts.n * i // blocks for i in range(blocks + 1)]

    def encode_blocks(
        self, predictions: NewPredictions, bounds: Sequence[int], tokens: IntArray, fingerprints: Sequence[bytes]
    ) -> list[bytes]:
        """Encode n open predictions; return the record of each block.

        Args:
            predictions: n predictions.
            bounds: the start of each block, and n.
            tokens: (n,), see `service.prediction_id`.
            fingerprints: 16 bytes for each block.
        """
        bodies = self._encode_bodies(predictions)
        heads = self._encode_heads(predictions, bodies, bounds, tokens)
        size, answer_bytes = self._prediction.itemsize, self.answers.dtype.itemsize
        after = (predictions.expires_at, predictions.rounds_seen, predictions.changes_seen)
        blocks = list[bytes]()
        for fingerprint, (start, stop) in zip(fingerprints, pairwise(bounds), strict=True):
            head = _HEAD.pack(VERSION, stop - start, 0, answer_bytes, fingerprint, *after)
            checked, outcomes = head + heads[start * size : stop * size], bytes((stop - start) * self._outcome_bytes)
            parts = (checked, check_of(checked), _OPEN_COUNT.pack(stop - start), outcomes, *bodies[start:stop])
            blocks.append(b"".join(parts))
        return blocks

    def _encode_heads(
        self, predictions: NewPredictions, bodies: Sequence[bytes], bounds: Sequence[int], tokens: IntArray
    ) -> bytes:
        """Encode the PREDICTION struct of each prediction."""
        heads, ends = np.empty(len(bodies), self._prediction), np.cumsum([0, *map(len, bodies)])
        first = np.repeat(ends[list(bounds[:-1])], np.diff(bounds))
        heads["begin"], heads["end"] = ends[:-1] - first, ends[1:] - first
        heads["propensity"], heads["output"], heads["token"] = predictions.propensities, predictions.outputs, tokens
        heads["body_check"] = list(map(check_of, bodies))
        return heads.tobytes()

    def _encode_bodies(self, predictions: NewPredictions) -> list[bytes]:
        contexts, offsets = self._contexts.encode(predictions.contexts)
        bodies = np.zeros(len(predictions.outputs), self._body)
        core, bodies["evidence"] = bodies["core"], predictions.evidence
        core["flags"], core["context_bytes"] = EVIDENCE, np.diff(offsets)
        core["output"], core["propensity"] = predictions.outputs, predictions.propensities
        core["rounds_seen"], core["changes_seen"] = predictions.rounds_seen, predictions.changes_seen
        core["predicted_at"], core["residual_uniform"] = predictions.predicted_at, predictions.residual_uniforms
        fixed, size = bodies.tobytes(), bodies.itemsize
        return [
            fixed[i * size : (i + 1) * size] + contexts[begin:end]
            for i, (begin, end) in enumerate(pairwise(offsets.tolist()))
        ]

    def decode_stored(self, record: bytes) -> StoredPrediction | None:
        """Decode a block with a single prediction, with or without its body; return None if it has several.

        Raises:
            NewerVersionError: if a newer version wrote it.
            StoreCorruptError: if it is not a valid block.
        """
        if record[:1] == bytes([format_3.VERSION]):
            return self._format_3.decode_stored(record)
        block = block_of(record, self.answers)
        return single_prediction(
            self.answers, block.predictions, block.fingerprint, block.expires_at, block.rounds_seen
        )

    def check_block(self, record: bytes) -> None:
        """Check that every open prediction of a block can be joined with feedback.

        Raises:
            NewerVersionError: if a newer version wrote it.
            StoreCorruptError: if it is damaged.
        """
        if record[:1] == bytes([format_3.VERSION]):
            self._format_3.check_block(record)
        elif rounds := block_of(record, self.answers).as_rounds():
            self.rows(rounds)

    def reader(self, version: int) -> RoundReader:
        """Return the reader of rounds of a version, which must be 3 or the current one."""
        return self._format_3 if version == format_3.VERSION else self._rounds

    def joined(self, raw: Sequence[RawRounds]) -> tuple[Table, Contexts]:
        """Join consecutive rounds; return their table and their contexts, in new arrays.

        Raises:
            StoreCorruptError: if a number in one of them is impossible.
        """
        table = raw[0].table if len(raw) == 1 else np.concatenate([each.table for each in raw])
        lengths = np.concatenate([np.diff(each.offsets) for each in raw])
        contexts = self._contexts.decode(b"".join(each.contexts for each in raw), np.cumsum([0, *lengths]))
        if wrong := row_faults(self.answers, table, contexts):
            raise StoreCorruptError(f"a round of the log has an impossible {wrong[0]}")
        return table, contexts

    def rows(self, entries: Sequence[bytes]) -> tuple[Table, Contexts]:
        """Read entries that this version wrote; return the table of their rounds and their contexts, in new arrays.

        Raises:
            StoreCorruptError: if an entry belongs to another model or is damaged.
            NewerVersionError: if a newer version wrote part of it.
        """
        return self.joined([self._rounds.read(entries)])

    def table(self, entries: Sequence[bytes]) -> Table:
        """Return a row for each round in entries of the log; raise as `rows` does."""
        return self.rows(entries)[0]

    def decode_rounds(self, entries: Sequence[bytes]) -> Rounds:
        """Return the rounds in entries of the log as input for learners; raise as `rows` does."""
        return self.rounds_of(*self.rows(entries))

    @staticmethod
    def rounds_of(table: Table, contexts: Contexts) -> Rounds:
        """Convert the rounds of a table to input for learners, in new arrays."""
        return Rounds(
            contexts=contexts,
            labels=table["output"].astype(np.int64),
            propensities=table["propensity"].astype(np.float64),
            correct=table["correct"].astype(np.bool_),
            true_labels=table["truth"].astype(np.int64),
            # Always a copy: kernels are compiled for writable arrays.
            evidence=np.array(table["evidence"], order="C"),
            residual_uniforms=table["residual_uniform"].astype(np.float64),
        )
