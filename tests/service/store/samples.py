"""Predictions and feedback to fill a store with."""

import struct

import numpy as np

from learners.base import Contexts
from service.prediction_id import SINGLE, PredictionId
from service.store.base import Block, Feedback, FeedbackRules
from service.store.records.answer_codec import label_codec
from service.store.records.context_codec import DenseCodec
from service.store.records.records import NewPredictions, RecordFormat
from service.store.tokens import tokens_of

NOW = 1_800_000_000.0
WINDOW = 600.0
FORMAT = RecordFormat(label_codec(4), evidence_size=2, contexts=DenseCodec(3))
STRICT = FeedbackRules(accept_late=False, label_needed=False, shape=FORMAT.shape)
MOMENT = struct.pack("<d", NOW)


def as_bytes(label: int) -> bytes:
    """A label as it is stored."""
    return label_codec(4).encode(np.array([label]))[0]


def sample_made(n: int, label: int = 2) -> NewPredictions:
    """Open predictions of that label, whose window closes WINDOW seconds after NOW."""
    contexts = np.arange(3.0 * n).reshape(-1, 3)
    outputs, half = label_codec(4).rows(np.full(n, label)), np.full(n, 0.5)
    return NewPredictions(outputs, half / 2, half, -contexts[:, :2], Contexts.dense(contexts), NOW, NOW + WINDOW, 7)


def sample_predictions(*ids: str, label: int = 2) -> list[Block]:
    """Such predictions, each in a block of its own."""
    n = len(ids)
    tokens = np.full(n, SINGLE)
    return list(map(Block, ids, FORMAT.encode_blocks(sample_made(n, label), range(n + 1), tokens, [bytes(16)] * n)))


def sample_block(block: str, n: int, label: int = 2) -> Block:
    """Such predictions, all in one block."""
    return Block(block, FORMAT.encode_blocks(sample_made(n, label), [0, n], tokens_of([0, n], block), [bytes(16)])[0])


def id_of(block: str, token: int = SINGLE) -> PredictionId:
    """The id of a prediction; the store knows its model by the key."""
    return PredictionId("m", block, token)


def sample_ids(block: str, n: int) -> list[PredictionId]:
    """The ids of n predictions in one block."""
    return [id_of(block, token) for token in tokens_of([0, n], block).tolist()]


def without_bodies(record: bytes) -> bytes:
    """The record of open predictions, as it is told to whoever uses its id again."""
    n, _, answer_bytes = struct.unpack_from("<III", record, 1)
    return record[: 45 + n * (17 + answer_bytes + 24 + answer_bytes)]


def as_round(record: bytes, i: int, outcome: tuple[bool, float, int], truth: bytes | None = None) -> bytes:
    """The round that `lua/add_feedback.lua` makes of the i-th prediction of a block.

    Args:
        record: of the block.
        i: from 0 on.
        outcome: whether it was right, when that was told, and the number of the round.
        truth: None where it is unknown.
    """
    n, _, answer_bytes = struct.unpack_from("<III", record, 1)
    at = 45 + n * (17 + answer_bytes) + (i + 1) * (24 + answer_bytes) - 16
    token, begin, end = struct.unpack_from("<qII", record, at)
    bodies = record[len(without_bodies(record)) :]
    packed = struct.pack("<Bdq", *outcome) + (b"\xff" * answer_bytes if truth is None else truth)
    rest = packed + struct.pack("<q", token) + bodies[begin:end]
    return struct.pack("<I", 4 + len(rest)) + rest


def feedback_for(ids: list[PredictionId], seed: int) -> list[Feedback]:
    """Right or wrong at random for each id, in random order."""
    rng = np.random.default_rng(seed)
    return [Feedback(ids[i], bool(rng.random() < 0.5), None) for i in rng.permutation(len(ids))]
