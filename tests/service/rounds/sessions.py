"""Sessions of one worker, under a test's control."""

import asyncio
import itertools
from typing import Any

import numpy as np

from service.choice.requests import PredictionRequest
from service.environment import Environment
from service.rounds.sessions import ModelSession, SessionCache
from service.schemas.rounds import FeedbackRequest
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import COMPUTE, some_contexts
from tests.service.workers import Clock

LARGE = 1 << 30


def environment(store: RedisStore, clock: Clock | None = None, **others: Any) -> Environment:
    """Return a worker's environment with a fixed seed and counted ids."""
    numbers = itertools.count()
    rng, new_id = np.random.default_rng(1), lambda: f"d{next(numbers)}"
    return Environment(store, COMPUTE, clock or Clock(), rng, new_id, **others)


def session_cache(store: RedisStore, clock: Clock | None = None, max_bytes: int = LARGE) -> SessionCache:
    """Return a worker's session cache."""
    return SessionCache(environment(store, clock), max_bytes)


async def predict(session: ModelSession, n: int) -> list[str]:
    """Request n predictions concurrently in a session; return their ids."""
    requests = [PredictionRequest(context, None, include_distribution=False) for context in some_contexts(1, n)]
    answers = await asyncio.gather(*(session.predictor.predict(request) for request in requests))
    return [answer.prediction_id for answer in answers]


async def judge(session: ModelSession, ids: list[str]) -> None:
    """Give feedback in a session: every other prediction was right."""
    bodies = [{"prediction_id": id_, "correct": i % 2 == 0} for i, id_ in enumerate(ids)]
    await asyncio.gather(*(session.feedback.give(FeedbackRequest.model_validate(body)) for body in bodies))


async def settled(session: ModelSession) -> None:
    """Wait until the session is idle."""
    async with asyncio.timeout(60.0):  # a thread may be compiling a kernel
        while not session.idle:  # noqa: ASYNC110  the session signals no event
            await asyncio.sleep(0)
