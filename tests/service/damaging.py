"""Models of each kind, and helpers that damage their logs."""

import itertools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from service.choice.requests import PredictionRequest
from service.contexts.sparse import SparseContext, SparseFeatures
from service.environment import Environment
from service.models.model import Model
from service.rounds.sessions import ModelSession
from service.schemas.rounds import PredictAnswer
from service.store import keys
from service.store.capabilities import Store
from service.store.connections.pipeline import Word
from service.store.records.layout import ROUND, VERSION
from service.store.redis.redis_store import RedisStore
from service.store.values import LogEntry
from tests.service.sample_models import (
    COMPUTE,
    LABEL_SET,
    RANKING,
    SOBA_DIAGONAL,
    bits,
    make_model,
    one_by_one,
    play,
    some_contexts,
)
from tests.service.workers import Clock

SPARSE = {"kind": "sparse", "size": 50, "norm": "unit", "intercept": False}
KINDS: dict[str, dict[str, Any]] = {
    "dense": {"learner": SOBA_DIAGONAL},
    "sparse": {"learner": SOBA_DIAGONAL, "features": SPARSE},
    "label-set": {"learner": LABEL_SET},
    "slate": {"learner": LABEL_SET | {"set_size": 2}},
    "ranking": {"learner": RANKING},
}
NAN = struct.pack("<d", float("nan"))


async def played(store: Store, name: str, kind: str, n: int, blocks: int | None) -> Model:
    """Create a model of a kind with n rounds in its log, stored in `blocks` blocks."""
    model = await make_model(store, name, **KINDS[kind])
    await play(store, model, n, blocks=blocks)
    return model


async def rewrite(store: RedisStore, model: Model, entries: Sequence[LogEntry]) -> None:
    """Replace the log with these entries."""
    await store.command("DEL", keys.log(*model.key))
    for number, block, rounds, changes in entries:
        fields: list[Word] = ["t", "r", "v", VERSION, "p", block, "d", rounds]
        await store.command("XADD", keys.log(*model.key), f"{number}-{changes}", *fields)


def changed(entry: LogEntry, at: int, new: bytes) -> LogEntry:
    """Return the entry with the bytes at offset `at` replaced."""
    return entry._replace(payload=entry.payload[:at] + new + entry.payload[at + len(new) :])


def regions(model: Model, entry: LogEntry) -> dict[str, tuple[int, int]]:
    """Return the start and end offset of each field of the first round in an entry."""
    answer = model.choice.records.answers.dtype
    dtype, length = ROUND.dtype(answer), len(one_by_one([entry])[0])
    found = {name: (begin := ROUND.place(name, answer), begin + dtype[name].itemsize) for name in ROUND.fields}
    return found | {"evidence and context": (dtype.itemsize, length)}


def session_of(store: Store, model: Model) -> ModelSession:
    """Return a worker's session for a model."""
    numbers = itertools.count()
    return ModelSession(
        model, Environment(store, COMPUTE, Clock(), np.random.default_rng(1), lambda: f"{id(numbers)}-{next(numbers)}")
    )


async def predicted(session: ModelSession, n: int = 2) -> list[PredictAnswer]:
    """Make n predictions, one after the other."""
    context: Any = some_contexts(3, 1)[0]
    if isinstance(session.model.definition.features, SparseFeatures):
        context = SparseContext(indices=[1, 7], values=[0.6, 0.8])
    return [
        await session.predictor.predict(PredictionRequest(context, None, include_distribution=False)) for _ in range(n)
    ]


def sound_fold(model: Model, entries: Sequence[LogEntry], bad: set[int]) -> list[bytes]:
    """Fold all rounds except the bad ones, one at a time, and return the state's bytes."""
    state = model.learner.init()
    for number, record in enumerate(one_by_one(entries), 1):
        if number not in bad:
            state = model.learner.fold(state, model.rounds_of(model.choice.records.rows([record])))
    return bits(state)


async def damaged_rounds(store: Store, model: Model) -> set[int]:
    """Return the rounds recorded as damaged, after checking that the model counts the same number."""
    found = (await store.read_damage(model.key)).found
    rounds = {number for each in found if not each.snapshot for number in range(each.first, each.last + 1)}
    stored = await store.get_model(model.name)
    assert stored is not None
    assert stored.damaged == len(rounds)
    return rounds
