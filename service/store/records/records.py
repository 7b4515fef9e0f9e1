"""The record format of one model's predictions and rounds, as used by the rest of the service.

`layout` defines the structs. `lua/add_feedback.lua` joins predictions with feedback.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, IntArray, Rounds
from service.errors import StoreCorruptError
from service.store.records import format_3
from service.store.records.answer_codec import AnswerCodec
from service.store.records.blocks import block_of
from service.store.records.context_codec import ContextCodec
from service.store.records.format_3 import Format3, Past, shape_of
from service.store.records.layout import (
    CHECK,
    HEAD,
    INACTIVE,
    OPEN,
    OPEN_COUNT,
    OUTCOME,
    PREDICTION,
    VERSION,
    check_of,
)
from service.store.records.new_predictions import BodyEncoder, NewPredictions
from service.store.records.parts import NO_PARTS, LogRows, Parts, unpacked_masks
from service.store.records.round_table import RawRounds, RoundReader, Table, row_faults
from service.store.records.rounds import StoredRounds
from service.store.records.soundness import Numbers, sound_rows
from service.store.records.stored_prediction import StoredPrediction, stored_prediction

BLOCK_BYTES = 16_384
"""Maximum bytes of a block with several predictions. Each feedback reads a whole block."""

_HEAD, _CHECK, _OPEN_COUNT = HEAD.struct(), CHECK.struct(), OPEN_COUNT.struct()


class Waiting(NamedTuple):
    """n predictions of a block that have no round yet."""

    rows: LogRows  # the rounds that wrong answers would make of them
    kinds: list[int]  # of outcome, (n,): OPEN, PENDING or INACTIVE
    expires_at: float


class RecordFormat:
    """Encodes and decodes one model's predictions and rounds.

    Args:
        answers: the codec of its answers.
        evidence_size: E, the number of evidence values per prediction.
        contexts: the codec of its contexts.
        has_actions: whether its rounds may have actions.
        past: the changes of the model; None without changes.

    Attributes:
        shape: the shape of its version 3 records, an argument of their script.
    """

    def __init__(
        self,
        answers: AnswerCodec,
        evidence_size: int,
        contexts: ContextCodec,
        *,
        has_actions: bool = False,
        past: Past | None = None,
    ) -> None:
        self.answers, self._past = answers, past or Past(0, evidence_size, answers.n_labels)
        self._evidence_size, self._contexts, self._has_actions = evidence_size, contexts, has_actions
        self._prediction = PREDICTION.dtype(answers.dtype)
        self._outcome_bytes = OUTCOME.dtype(answers.dtype).itemsize
        self._bodies = BodyEncoder(answers, evidence_size, contexts)
        self._rounds = StoredRounds(answers, evidence_size, contexts, has_actions=has_actions, since=self._past.since)
        self.shape = shape_of(answers, self._past.evidence_size, contexts)

    @property
    def round_bytes(self) -> int:
        """Size of a round in the log; without the context if contexts differ in size."""
        return self._rounds.least_bytes

    @property
    def fixed_size(self) -> bool:
        """Whether all contexts have the same size."""
        return self._contexts.fixed_bytes is not None

    @cached_property
    def _format_3(self) -> Format3:
        """The reader of version 3, created only if the model has such records."""
        return Format3(self.answers, self._evidence_size, self._contexts, self._past)

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

    def bounds(self, contexts: Contexts, parts: Parts = NO_PARTS) -> list[int]:
        """Divide n predictions into blocks of limited size; return the start of each block, and n."""
        slots = contexts.n * (self._outcome_bytes + self._prediction.itemsize)
        blocks = min(contexts.n, -(-(slots + self._bodies.size(contexts, parts)) // BLOCK_BYTES))
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
        bodies, checks = self._bodies.encode(predictions)
        heads = self._encode_heads(predictions, bodies, bounds, tokens)
        heads["body_check"] = checks
        encoded, size, answer_bytes = heads.tobytes(), self._prediction.itemsize, self.answers.dtype.itemsize
        after = (predictions.expires_at, predictions.rounds_seen, predictions.changes_seen, self.answers.n_labels)
        blocks = list[bytes]()
        for fingerprint, (start, stop) in zip(fingerprints, pairwise(bounds), strict=True):
            head = _HEAD.pack(VERSION, stop - start, 0, answer_bytes, fingerprint, *after)
            checked, outcomes = head + encoded[start * size : stop * size], self._outcomes(predictions, start, stop)
            counts = _CHECK.pack(check_of(checked)) + _OPEN_COUNT.pack(stop - start)
            blocks.append(b"".join((checked, counts, outcomes, *bodies[start:stop])))
        return blocks

    def _encode_heads(
        self, predictions: NewPredictions, bodies: Sequence[bytes], bounds: Sequence[int], tokens: IntArray
    ) -> Table:
        """Return the PREDICTION struct of each prediction, without the check of its body."""
        heads, ends = np.empty(len(bodies), self._prediction), np.cumsum([0, *map(len, bodies)])
        heads["end"] = ends[1:] - np.repeat(ends[list(bounds[:-1])], np.diff(bounds))
        heads["propensity"], heads["output"], heads["token"] = predictions.propensities, predictions.outputs, tokens
        return heads

    def _outcomes(self, predictions: NewPredictions, start: int, stop: int) -> bytes:
        """Return the outcomes of new predictions: open, or waiting for their activation."""
        if predictions.inactive is None:
            return bytes((stop - start) * self._outcome_bytes)
        outcomes = np.zeros(stop - start, OUTCOME.dtype(self.answers.dtype))
        outcomes["kind"] = np.where(predictions.inactive[start:stop], INACTIVE, OPEN)
        return outcomes.tobytes()

    def decode_stored(self, record: bytes) -> StoredPrediction | None:
        """Decode the predictions of one request, with or without bodies; return None if the block has several requests.

        Raises:
            NewerVersionError: if a newer version wrote it.
            StoreCorruptError: if it is not a valid block.
        """
        if record[:1] == bytes([format_3.VERSION]):
            return self._format_3.decode_stored(record)
        block = block_of(record, self.answers)
        return stored_prediction(
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
        else:
            self.waiting(record)

    def waiting(self, record: bytes) -> Waiting | None:
        """Return the predictions of a block that have no round yet, as rounds of wrong answers; None if all have one.

        Raises:
            NewerVersionError: if a newer version wrote it.
            StoreCorruptError: if it is damaged.
        """
        if record[:1] == bytes([format_3.VERSION]):
            expires_at, raw = self._format_3.waiting(record)
            return None if raw is None else Waiting(self.joined([raw]), [OPEN] * len(raw.table), expires_at)
        block = block_of(record, self.answers)
        rounds, kinds = block.waiting()
        return Waiting(self.rows(rounds), kinds, block.expires_at) if rounds else None

    def reader(self, version: int) -> RoundReader:
        """Return the reader of rounds of a version, which must be 3 or the current one."""
        return self._format_3 if version == format_3.VERSION else self._rounds

    def joined(self, raw: Sequence[RawRounds]) -> LogRows:
        """Join consecutive rounds; return them in new arrays.

        Raises:
            StoreCorruptError: if a number in one of them is impossible.
        """
        table = raw[0].table if len(raw) == 1 else np.concatenate([each.table for each in raw])
        lengths = np.concatenate([np.diff(each.offsets) for each in raw])
        contexts = self._contexts.decode(b"".join(each.contexts for each in raw), np.cumsum([0, *lengths]))
        masks = [mask for each in raw for mask in each.masks]
        labels = np.minimum(table["labels"], self.answers.n_labels).astype(np.int64)
        eligible = np.ones((len(table), 0), np.bool_)
        if any(masks) or not self._has_actions:
            eligible = unpacked_masks(masks, labels, self.answers.n_labels)
        if wrong := row_faults(self.answers, table, contexts, eligible):
            raise StoreCorruptError(f"a round of the log has an impossible {wrong[0]}")
        sent, actions = [one for each in raw for one in each.sent], [one for each in raw for one in each.actions]
        return LogRows(table, contexts, Parts(eligible, sent, actions))

    def rows(self, entries: Sequence[bytes]) -> LogRows:
        """Read entries that this version wrote; return their rounds in new arrays.

        Raises:
            StoreCorruptError: if an entry belongs to another model or is damaged.
            NewerVersionError: if a newer version wrote part of it.
        """
        return self.joined([self._rounds.read(entries)])

    def table(self, entries: Sequence[bytes]) -> Table:
        """Return a row for each round in entries of the log; raise as `rows` does."""
        return self.rows(entries).table

    def decode_rounds(self, entries: Sequence[bytes]) -> Rounds:
        """Return the rounds in entries of the log with their stored contexts; raise as `rows` does."""
        return self.rounds_of(self.rows(entries))

    @staticmethod
    def rounds_of(rows: LogRows) -> Rounds:
        """Convert rounds of the log to input for learners, in new arrays, with their stored contexts."""
        table = rows.table
        return Rounds(
            contexts=rows.contexts,
            labels=table["output"].astype(np.int64),
            propensities=table["propensity"].astype(np.float64),
            correct=table["reward"] == 1.0,
            true_labels=table["truth"].astype(np.int64),
            # Always a copy: kernels are compiled for writable arrays.
            evidence=np.array(table["evidence"], order="C"),
            residual_uniforms=table["residual_uniform"].astype(np.float64),
            rewards=table["reward"].astype(np.float64),
            eligible=rows.parts.eligible,
        )
