"""Logs damaged on purpose, and models of each kind to do it to."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.base import Contexts
from service.models.model import Model
from service.prediction_id import PredictionId
from service.store import keys
from service.store.base import Block, Feedback, LogEntry, Store
from service.store.records.records import NewPredictions
from service.store.redis.redis_store import RedisStore
from service.store.tokens import tokens_of
from tests.service.sample_models import LABEL_SET, RANKING, SOBA_DIAGONAL, make_model, one_by_one, play
from tests.service.workers import START

SPARSE = {"kind": "sparse", "size": 50, "norm": "unit"}
KINDS: dict[str, dict[str, Any]] = {
    "dense": {"learner": SOBA_DIAGONAL},
    "sparse": {"learner": SOBA_DIAGONAL, "features": SPARSE},
    "label-set": {"learner": LABEL_SET},
    "ranking": {"learner": RANKING},
}
NAN = struct.pack("<d", float("nan"))


async def played(store: Store, name: str, kind: str, n: int, blocks: int | None) -> Model:
    """A model of a kind with n rounds in its log, in a number of blocks."""
    model = await make_model(store, name, **KINDS[kind])
    await (play_sparse if kind == "sparse" else play)(store, model, n, blocks=blocks)
    return model


async def play_sparse(store: Store, model: Model, n: int, seed: int = 1, blocks: int | None = None) -> None:
    """As `tests.service.sample_models.play`, with contexts of one to three numbers."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, n)
    indices = np.concatenate([rng.permutation(50)[:length] for length in lengths])
    contexts = Contexts.sparse(lengths, indices, rng.normal(size=len(indices)) / 10)
    outputs, third = model.answers.form.rows(rng.integers(0, 4, n)), np.full(n, 1 / 3)
    evidence = model.learner.decide(model.learner.init(), contexts).evidence
    made = NewPredictions(outputs, third, third, evidence, contexts, START, START + 60.0, 0)
    bounds = [n * i // (blocks or n) for i in range((blocks or n) + 1)]
    tokens, names = tokens_of(bounds, "s"), [f"sparse-{seed}-{i}" for i in range(len(bounds) - 1)]
    records = model.format.encode_blocks(made, bounds, tokens, [bytes(16)] * len(names))
    await store.add_predictions(model.key, list(map(Block, names, records)), 600.0, None)
    ids = [
        PredictionId(model.name, block, token)
        for block, start, stop in zip(names, bounds[:-1], bounds[1:], strict=True)
        for token in tokens[start:stop].tolist()
    ]
    feedback = [Feedback(id_, bool(rng.random() < 0.7), None) for id_ in ids]
    await store.add_feedback(model.key, feedback, model.feedback_rules, START)


async def rewrite(store: RedisStore, model: Model, entries: Sequence[LogEntry]) -> None:
    """Puts these entries into the place of the log."""
    await store.command("DEL", keys.log(*model.key))
    for number, block, rounds in entries:
        await store.command("XADD", keys.log(*model.key), f"{number}-0", "p", block, "r", rounds)


def changed(entry: LogEntry, at: int, new: bytes) -> LogEntry:
    """The entry with other bytes at some place."""
    return entry._replace(payload=entry.payload[:at] + new + entry.payload[at + len(new) :])


def regions(model: Model, entry: LogEntry) -> dict[str, tuple[int, int]]:
    """Where each number of the first round in an entry begins and ends."""
    layout = model.format._round
    found = {
        name: (int(field[1]), int(field[1]) + field[0].itemsize)
        for name, field in (layout.fields or {}).items()
        if field[0].itemsize
    }
    length = len(one_by_one([entry])[0])
    return found if length == layout.itemsize else found | {"pairs": (layout.itemsize, length)}
