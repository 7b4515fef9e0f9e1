"""Fills a model's log quickly: through the store's own scripts, without HTTP and without learning in between.

A session makes some predictions. The filler stores their records many times under new ids and gives feedback.
The log is as long and as large as after that many requests, but repeats the same contexts. The filler deletes
predictions as soon as they have feedback: the store would expire them later, and millions do not fit next to the log.
"""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import redis

from benchmarks.server import Server
from benchmarks.traffic import D
from service.choice.requests import PredictionRequest
from service.compute import Compute
from service.environment import Environment, system_environment
from service.models.policies import keep_seconds
from service.prediction_id import PredictionId
from service.rounds.feedback import feedback_rules
from service.rounds.sessions import ModelSession, SessionCache
from service.schemas.rounds import PredictAnswer
from service.store import keys
from service.store.redis.redis_store import RedisStore
from service.store.values import Block, Feedback

BATCH = 500
PIPELINES = 4  # batches in flight
_TIMEOUT = 30.0  # seconds


class World(NamedTuple):
    """The store and the environment of sessions in this process."""

    store: RedisStore
    environment: Environment


@contextlib.asynccontextmanager
async def environment(server: Server) -> AsyncIterator[World]:
    """Open the store of a server, and an environment with the real clock and random numbers."""
    store = RedisStore(server.store_url, timeout=_TIMEOUT)
    await store.command("PING")
    try:
        yield World(store, system_environment(store, Compute(2)))
    finally:
        await store.close()


async def open_session(world: World, name: str) -> ModelSession:
    """Open a new session, as a newly started worker does."""
    return await SessionCache(world.environment, 2**30).find(name, "model")


async def predict(session: ModelSession, n: int, seed: int, together: int = BATCH) -> list[PredictionId]:
    """Make n predictions that stay open, some of them together, and return their ids."""
    contexts = np.random.default_rng(seed).normal(size=(n, D)).tolist()
    ids: list[PredictionId] = []
    for start in range(0, n, together):
        for answer in await session.predictor.predict_all(
            [PredictionRequest(each, None, False) for each in contexts[start : start + together]]
        ):
            assert isinstance(answer, PredictAnswer)
            ids.append(PredictionId.parse(answer.prediction_id))
    return ids


async def fill(world: World, session: ModelSession, rounds: int, together: int = BATCH, distinct: int = BATCH) -> None:
    """Append rounds to the log; the number is rounded down to whole batches. One round in three is right.

    Args:
        world: the store.
        session: of the model.
        rounds: their number.
        together: predictions that were made together; the rounds of one block are one entry of the log.
        distinct: different predictions; it divides `BATCH`. Fewer of them are made sooner.
    """
    tokens: defaultdict[str, list[int]] = defaultdict(list)
    for _, block, token in await predict(session, distinct, seed=3, together=together):
        tokens[block].append(token)
    named = [keys.block(*session.model.key, block) for block in tokens]
    records: list[bytes] = await world.store.command("MGET", *named)
    batches, blocks = iter(range(rounds // BATCH)), BATCH // distinct * list(zip(tokens.values(), records, strict=True))
    await asyncio.gather(*(_fill_from(batches, world, session, blocks) for _ in range(PIPELINES)))
    await world.store.command("UNLINK", *named)


async def _fill_from(
    batches: Iterator[int], world: World, session: ModelSession, blocks: Sequence[tuple[list[int], bytes]]
) -> None:
    model, store = session.model, world.store
    for _ in batches:
        filled = [(world.environment.new_id(), tokens, record) for tokens, record in blocks]
        made = [Block(id_, record) for id_, _, record in filled]
        await store.add_predictions(model.key, made, keep_seconds(model.definition), None)
        ids = [PredictionId(model.name, id_, token) for id_, tokens, _ in filled for token in tokens]
        given = [Feedback(id_, i % 3 == 0, None) for i, id_ in enumerate(ids)]
        await store.add_feedback(model.key, given, feedback_rules(model), world.environment.now())
        await store.command("UNLINK", *(keys.block(*model.key, id_) for id_, _, _ in filled))


async def fold(session: ModelSession) -> None:
    """Learn every round of the log, then store a snapshot."""
    await session.replica.catch_up()
    await session.replica.snapshot()


@contextlib.contextmanager
def unwritten(server: Server) -> Iterator[None]:
    """Stop the store's file writes within the context, and write everything at its end: filling is not measured."""
    store = redis.Redis.from_url(server.store_url)
    store.config_set("appendonly", "no")
    try:
        yield
    finally:
        store.config_set("appendonly", "yes")
        while _rewriting(store):
            time.sleep(0.05)
        store.close()


def _rewriting(store: redis.Redis) -> bool:
    state = store.info("persistence")
    return bool(state["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"])
