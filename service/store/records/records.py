"""The format of one model's stored predictions and rounds, for the rest of the service.

`layout` defines the structs. `lua/blocks.lua` joins predictions with their outcomes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from learners.base import Contexts, Rounds
from service.errors import NewerVersionError, StoreCorruptError
from service.store.records.blocks import StoredPrediction, block_of, stored_prediction
from service.store.records.codecs import AnswerArray, AnswerCodec, ContextCodec
from service.store.records.layout import INACTIVE, OPEN
from service.store.records.new_predictions import BlockEncoder, NewPredictions
from service.store.records.optional_fields import (
    NO_OPTIONAL_FIELDS,
    LogRows,
    OptionalFields,
    are_possible,
    unpacked_masks,
)
from service.store.records.round_table import Table, row_faults
from service.store.records.rounds import StoredRounds


class Waiting(NamedTuple):
    """n predictions of a block that have no round yet."""

    rows: LogRows  # each with a placeholder outcome: wrong, truth unknown
    kinds: list[int]  # the kinds of their actual outcomes, (n,): OPEN, PENDING or INACTIVE
    expires_at: float
    history: tuple[int, bytes]  # the number of changes that they have seen, and the digest of the history up to these


class PredictionRecord(NamedTuple):
    """One prediction of a block, whether it is closed or not."""

    row: LogRows | None  # (1,), with a placeholder outcome: wrong, truth unknown; None if the block has no bodies
    kind: int  # of its outcome: see `layout.OPEN`
    outcome: Table  # (1,), with the fields of `layout.OUTCOME`; all zeros if it is open or inactive
    expires_at: float
    rounds_seen: int
    changes_seen: int
    propensity: float
    output: AnswerArray  # (1, ...)


class RecordFormat:
    """Encodes and decodes one model's predictions and rounds. The arguments are the same as for `StoredRounds`."""

    def __init__(
        self,
        answers: AnswerCodec,
        evidence_size: int,
        contexts: ContextCodec,
        *,
        has_actions: bool = False,
        since: int = 0,
    ) -> None:
        self.answers, self._contexts, self._has_actions = answers, contexts, has_actions
        self._blocks = BlockEncoder(answers, evidence_size, contexts)
        self._rounds = StoredRounds(answers, evidence_size, contexts, has_actions=has_actions, since=since)

    @property
    def round_bytes(self) -> int:
        """Bytes of a logged round without optional parts and, if contexts differ in size, without its context."""
        return self._rounds.least_bytes

    @property
    def fixed_size(self) -> bool:
        """Whether all encoded contexts have the same size."""
        return self._contexts.fixed_bytes is not None

    def bounds(self, contexts: Contexts, parts: OptionalFields = NO_OPTIONAL_FIELDS) -> list[int]:
        """Divide n predictions, one per context, into blocks of limited size. Return the start of each block, and n."""
        return self._blocks.bounds(contexts, parts)

    def encode_blocks(
        self, predictions: NewPredictions, bounds: Sequence[int], tokens: Sequence[int], fingerprints: Sequence[bytes]
    ) -> list[bytes]:
        """Encode n new predictions; return the record of each block.

        Args:
            predictions: n predictions.
            bounds: the start of each block, and n.
            tokens: one for each prediction; see `service.prediction_id`.
            fingerprints: 16 bytes for each block; see `layout.HEAD`.
        """
        return self._blocks.encode(predictions, bounds, tokens, fingerprints)

    def decode_stored(self, record: bytes) -> StoredPrediction:
        """Decode the predictions of a block, with or without bodies.

        Raises:
            NewerVersionError: if a newer version wrote it.
            StoreCorruptError: if it is damaged, or its numbers do not fit the model.
        """
        block = block_of(record, self.answers)
        return stored_prediction(
            self.answers, block.predictions, block.fingerprint, block.expires_at, block.rounds_seen
        )

    def history_of(self, record: bytes) -> tuple[int, bytes]:
        """Return the number of changes that a block has seen, and the digest of the history up to them.

        If the model has another history, the label numbers may mean other labels. Raise as `decode_stored` does.
        """
        return block_of(record, self.answers).history

    def waiting(self, record: bytes) -> Waiting | None:
        """Return the predictions of a block that have no round yet; None if all of them have one.

        Raises:
            NewerVersionError: if a newer version wrote it.
            StoreCorruptError: if it is damaged.
        """
        block = block_of(record, self.answers)
        rounds, kinds = block.waiting()
        return Waiting(self.rows(rounds), kinds, block.expires_at, block.history) if rounds else None

    def prediction(self, record: bytes, token: int) -> PredictionRecord | None:
        """Return the prediction of a block that has a token; None if there is none.

        Raises:
            NewerVersionError: if a newer version wrote the block or the outcome.
            StoreCorruptError: if it is damaged.
        """
        block, stored = block_of(record, self.answers), self.decode_stored(record)
        if (i := block.place_of(token)) is None:
            return None
        kind, outcome = block.kind(i), block.outcomes[i : i + 1]
        if kind > INACTIVE:
            raise NewerVersionError("a prediction has an outcome that this version does not support")
        if kind not in (OPEN, INACTIVE) and not self.answers.possible_truths(outcome["truth"])[0]:
            raise StoreCorruptError("the outcome of a prediction has an impossible truth")
        row = self.rows([block.as_round(i)]) if block.has_bodies else None
        numbers = stored.expires_at, stored.rounds_seen, block.history[0], float(stored.propensities[i])
        return PredictionRecord(row, kind, outcome, *numbers, stored.outputs[i : i + 1])

    def round_bounds(self, payload: bytes) -> list[int]:
        """Return the start of each round in an entry, and the entry's end.

        Raises:
            StoreCorruptError: if the entry cannot be split.
        """
        return self._rounds.bounds(payload)

    def rows(self, entries: Sequence[bytes]) -> LogRows:
        """Decode the rounds in some entries of the log, in order.

        Raises:
            StoreCorruptError: if an entry belongs to another model or is damaged.
            NewerVersionError: if a newer version wrote a part of an entry.
        """
        table, encoded, offsets, masks, sent, actions, prices, costs = self._rounds.read(entries)
        contexts = self._contexts.decode(encoded, offsets)
        labels = np.minimum(table["labels"], self.answers.n_labels).astype(np.int64)  # `row_faults` reports larger ones
        eligible = np.empty((len(table), 0), np.bool_)
        if any(masks) or not self._has_actions:
            eligible = unpacked_masks(masks, labels, self.answers.n_labels)
        if wrong := row_faults(self.answers, table, contexts, eligible):
            raise StoreCorruptError(f"a round of the log has an impossible {wrong[0]}")
        if not are_possible(prices, costs, labels):
            raise StoreCorruptError("a round of the log has an impossible cost")
        return LogRows(table, contexts, OptionalFields(eligible, sent, actions, prices, costs))

    def table(self, entries: Sequence[bytes]) -> Table:
        """Return a row for each round in entries of the log; raise as `rows` does."""
        return self.rows(entries).table

    def decode_rounds(self, entries: Sequence[bytes]) -> Rounds:
        """Return the rounds in entries of the log with their stored contexts; raise as `rows` does."""
        return self.rounds_of(self.rows(entries))

    @staticmethod
    def rounds_of(rows: LogRows) -> Rounds:
        """Convert logged rounds to input for learners. Contexts and eligible labels are not copied."""
        table = rows.table
        return Rounds(
            contexts=rows.contexts,
            labels=table["output"].astype(np.int64),
            propensities=table["propensity"].astype(np.float64),
            correct=table["reward"] == 1.0,
            true_labels=table["truth"].astype(np.int64),
            # Always a copy: kernels are compiled for writable, contiguous arrays.
            evidence=np.array(table["evidence"], order="C"),
            residual_uniforms=table["residual_uniform"].astype(np.float64),
            rewards=table["reward"].astype(np.float64),
            eligible=rows.parts.eligible,
        )
