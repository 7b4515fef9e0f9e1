"""Sample predictions and feedback."""

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from learners.base import Contexts
from service.prediction_id import SINGLE, PredictionId, tokens_of
from service.store.capabilities import Store
from service.store.records.codecs import AnswerCodec, DenseCodec, label_codec
from service.store.records.layout import (
    CHECK,
    FEEDBACK,
    HEAD,
    OPEN_COUNT,
    OUTCOME,
    PREDICTION,
    ROUND,
    SEEN,
    SIZES,
    SIZES_GIVEN,
    check_of,
)
from service.store.records.new_predictions import NewPredictions
from service.store.records.records import RecordFormat
from service.store.stored_models import DIGEST_BYTES, ModelKey, digests_of
from service.store.values import Block, Feedback, FeedbackRules, Seen

NOW = 1_800_000_000.0
WINDOW = 600.0
FORMAT = RecordFormat(label_codec(4), evidence_size=2, contexts=DenseCodec(3))
NEW = digests_of(["{}"])
"""The digest of a new model, whose definition is an empty object in these tests."""

STRICT = FeedbackRules(accept_late=False, label_needed=False, change_count=0, digest=NEW)
MOMENT = struct.pack("<d", NOW)


def as_bytes(label: int) -> bytes:
    """Encode a label as the store does."""
    return label_codec(4).encode(np.array([label]))[0]


def new_predictions(
    form: AnswerCodec, answers: Any, contexts: Contexts, evidence: Any = None, **others: Any
) -> NewPredictions:
    """Return predictions of these answers, each with propensity 1/3; their window closes WINDOW seconds after NOW."""
    outputs = form.rows(np.array(answers))
    third, evidence = np.full(len(outputs), 1 / 3), np.empty((len(outputs), 0)) if evidence is None else evidence
    made = NewPredictions(outputs, third, third / 2, evidence, contexts, NOW, NOW + WINDOW, 7, 0, NEW)
    return made._replace(**others)


def sample_made(n: int, label: int = 2, digest: bytes = NEW) -> NewPredictions:
    """Return n open predictions of one label."""
    contexts = np.arange(3.0 * n).reshape(-1, 3)
    return new_predictions(label_codec(4), [label] * n, Contexts.dense(contexts), -contexts[:, :2], digest=digest)


async def new_model(store: Store, name: str) -> ModelKey:
    """Create a model without rounds."""
    key = ModelKey(name, "first")
    assert await store.create_model(key, "{}", NOW)
    return key


def sample_seen(rounds: int, limit: int, mark: bytes | None = None, *, allow_newer: bool = False) -> Seen:
    """Return what a worker has seen of a model without changes."""
    return Seen(rounds, limit, mark, allow_newer, digest=NEW)


async def digest_of(store: Store, name: str) -> bytes:
    """Return the digest of the history of a model."""
    model = await store.get_model(name)
    assert model is not None
    return model.digests[-DIGEST_BYTES:]


def sample_predictions(*ids: str, label: int = 2) -> list[Block]:
    """Return such predictions, one block each."""
    n = len(ids)
    tokens = [SINGLE] * n
    return list(map(Block, ids, FORMAT.encode_blocks(sample_made(n, label), range(n + 1), tokens, [bytes(16)] * n)))


def sample_block(block: str, n: int, label: int = 2, digest: bytes = NEW) -> Block:
    """Return n such predictions in one block."""
    made = sample_made(n, label, digest)
    return Block(block, FORMAT.encode_blocks(made, [0, n], tokens_of([0, n], block), [bytes(16)])[0])


def id_of(block: str, token: int = SINGLE) -> PredictionId:
    """Return a prediction's id; the model name is arbitrary, as the store takes the model from the key."""
    return PredictionId("m", block, token)


def ids_in(block: str, tokens: Iterable[int]) -> list[PredictionId]:
    """Return the ids of predictions in one block."""
    return [id_of(block, token) for token in tokens]


def sample_ids(block: str, n: int) -> list[PredictionId]:
    """Return the ids of the n predictions of `sample_block`."""
    return ids_in(block, tokens_of([0, n], block))


class BlockOffsets(NamedTuple):
    """Offsets of a block's parts, in bytes."""

    n: int
    answer_bytes: int
    common_bytes: int
    check: int
    open: int
    outcomes: int
    bodies: int

    def prediction(self, i: int) -> int:
        """Return the offset of the i-th prediction."""
        return HEAD.size + i * (PREDICTION.size + self.answer_bytes)

    def body(self, record: bytes, i: int) -> tuple[int, int]:
        """Return the offsets of the begin and the end of the i-th body."""
        ends = [0, *(struct.unpack_from("<I", record, self.prediction(k))[0] for k in range(i + 1))]
        return self.bodies + ends[i], self.bodies + ends[i + 1]

    def whole_body(self, record: bytes, i: int) -> bytes:
        """Return the i-th body with the parts that all bodies share."""
        begin, end = self.body(record, i)
        return record[begin:end] + record[len(record) - self.common_bytes :]

    def outcome(self, i: int) -> int:
        """Return the offset of the i-th outcome."""
        return self.outcomes + i * (OUTCOME.size + self.answer_bytes)


def block_offsets(record: bytes) -> BlockOffsets:
    """Return the offsets of a block's parts."""
    _, n, _, answer_bytes, common_bytes, *_ = HEAD.struct().unpack_from(record)
    check = HEAD.size + n * (PREDICTION.size + answer_bytes)
    outcomes = check + CHECK.size + OPEN_COUNT.size
    bodies = outcomes + n * (OUTCOME.size + answer_bytes)
    return BlockOffsets(n, answer_bytes, common_bytes, check, check + CHECK.size, outcomes, bodies)


def without_bodies(record: bytes) -> bytes:
    """Return the part of a block that precedes the bodies, which reuse of its id returns."""
    return record[: block_offsets(record).bodies]


def packed_outcome(outcome: tuple[bool, float, int], truth: bytes, token_and_check: bytes) -> bytes:
    """Pack an outcome with its checksum."""
    correct, feedback_at, number = outcome
    packed = OUTCOME.struct(len(truth)).pack(0, FEEDBACK, correct, feedback_at, number, truth)[CHECK.size :]
    return check_bytes(packed + token_and_check) + packed


def check_bytes(data: bytes) -> bytes:
    """Return the check of some bytes as it is stored."""
    return CHECK.struct().pack(check_of(data))


def as_round(record: bytes, i: int, outcome: tuple[bool, float, int], truth: bytes | None = None) -> bytes:
    """Return the round that `lua/add_feedback.lua` makes of the i-th prediction of a block.

    Args:
        record: the block.
        i: index of the prediction, from 0.
        outcome: whether the answer was right, the time of the feedback, and the round number.
        truth: the encoded true answer; None if unknown.
    """
    offsets = block_offsets(record)
    at, after = (offsets.prediction(i) + PREDICTION.place(field) for field in ("token", "propensity"))
    token_and_check, answered = record[at:after], record[after : offsets.prediction(i + 1)]
    packed = packed_outcome(outcome, b"\xff" * offsets.answer_bytes if truth is None else truth, token_and_check)
    rest = packed + token_and_check + answered + record[HEAD.size - SEEN.size : HEAD.size]
    rest += offsets.whole_body(record, i)
    return struct.pack("<I", 4 + len(rest)) + rest


def resealed(rounds: bytes, answer_bytes: int) -> bytes:
    """Recompute the checksums of a changed round."""
    answer = f"V{answer_bytes}"
    kind, check, rest = (ROUND.place(field, answer) for field in ("kind", "body_check", "propensity"))
    middle = rounds[kind:check] + check_bytes(rounds[rest:])
    return rounds[:4] + check_bytes(middle) + middle + rounds[rest:]


def changed_round(rounds: bytes, form: AnswerCodec, **values: Any) -> bytes:
    """Set fields of a round, or sizes of its parts, and recompute its checksums. Sizes are inserted if it has none."""
    dtype = ROUND.dtype(form.dtype)
    core, rest = np.frombuffer(rounds[: dtype.itemsize], dtype).copy(), rounds[dtype.itemsize :]
    sizes = {name: value for name, value in values.items() if name in SIZES.fields}
    if sizes:
        has_sizes = bool(core["flags"][0] & SIZES_GIVEN)
        given = np.frombuffer(rest[: SIZES.size] if has_sizes else bytes(SIZES.size), SIZES.dtype()).copy()
        core["flags"] |= SIZES_GIVEN
        core["length"] += 0 if has_sizes else SIZES.size
        rest = rest[SIZES.size :] if has_sizes else rest
        for name, value in sizes.items():
            given[name] = value
        rest = given.tobytes() + rest
    for name in values.keys() - sizes:
        core[name] = values[name]
    return resealed(core.tobytes() + rest, form.dtype.itemsize)


def feedback_for(ids: list[PredictionId], seed: int) -> list[Feedback]:
    """Return feedback for each id, right or wrong at random, in random order."""
    rng = np.random.default_rng(seed)
    return [Feedback(ids[i], bool(rng.random() < 0.5), None) for i in rng.permutation(len(ids))]
