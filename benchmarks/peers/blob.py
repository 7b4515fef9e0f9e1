"""The textbook design: the state of a model is one value in Redis, which every feedback reads, changes and writes.

`PEER_WATCH=1` guards the write with WATCH/MULTI and retries if another worker wrote first. Without it, writes are
unguarded. The state is a count of updates, followed by the weights of a linear model: d rows of K numbers.
"""

import os
import uuid
from typing import Any

import numpy as np
from fastapi import FastAPI
from redis.asyncio import Redis, WatchError

from benchmarks.peers.bodies import FeedbackBody, PredictBody, answer

LABELS, FEATURES, EXPLORATION, RATE = 10, 20, 0.1, 0.1
_EMPTY = np.zeros(1 + FEATURES * LABELS).tobytes()


def create_app() -> FastAPI:
    """Create the application of one worker."""
    app, rng, redis = FastAPI(), np.random.default_rng(), Redis.from_url(os.environ["WAGER_STORE_URL"])
    give = _watched if os.environ.get("PEER_WATCH") else _unguarded

    @app.post("/predict")
    async def predict(body: PredictBody) -> dict[str, Any]:
        data: Any = await redis.get(f"blob:{body.model}")
        state = np.frombuffer(data or _EMPTY)
        probabilities = np.full(LABELS, EXPLORATION / LABELS)
        probabilities[np.argmax(np.array(body.context) @ state[1:].reshape(FEATURES, LABELS))] += 1 - EXPLORATION
        label = int(rng.choice(LABELS, p=probabilities))
        prediction_id = f"{body.model}:{uuid.uuid4().hex}"
        record = np.array([label, probabilities[label], *body.context]).tobytes()
        await redis.set(f"blob:{prediction_id}", record, ex=90_000)
        return answer(prediction_id, body.model, label, float(probabilities[label]), int(state[0]))

    @app.post("/feedback")
    async def feedback(body: FeedbackBody) -> dict[str, Any]:
        name = body.prediction_id.partition(":")[0]
        stored: Any = await redis.get(f"blob:{body.prediction_id}")
        record = np.frombuffer(stored)
        rounds = await give(redis, f"blob:{name}", record, body.correct)
        return {"prediction_id": body.prediction_id, "correct": body.correct, "round": rounds}

    @app.get("/models/{name}")
    async def model(name: str) -> dict[str, Any]:
        data: Any = await redis.get(f"blob:{name}")
        return {"name": name, "rounds_seen": int(np.frombuffer(data or _EMPTY)[0])}

    return app


def _learned(data: Any, record: np.ndarray[Any, Any], correct: bool) -> np.ndarray[Any, Any]:
    """Return the state after one more update."""
    state, label, chance, context = np.frombuffer(data or _EMPTY).copy(), int(record[0]), record[1], record[2:]
    weights = state[1:].reshape(FEATURES, LABELS)
    weights[:, label] += RATE * (correct - context @ weights[:, label]) * context / max(chance, EXPLORATION)
    state[0] += 1
    return state


async def _unguarded(redis: Redis, key: str, record: np.ndarray[Any, Any], correct: bool) -> int:
    state = _learned(await redis.get(key), record, correct)
    await redis.set(key, state.tobytes())
    return int(state[0])


async def _watched(redis: Redis, key: str, record: np.ndarray[Any, Any], correct: bool) -> int:
    while True:
        async with redis.pipeline() as pipeline:
            try:
                return await _try_watched(pipeline, key, record, correct)
            except WatchError:
                continue


async def _try_watched(pipeline: Any, key: str, record: np.ndarray[Any, Any], correct: bool) -> int:
    await pipeline.watch(key)
    state = _learned(await pipeline.get(key), record, correct)
    pipeline.multi()
    pipeline.set(key, state.tobytes())
    await pipeline.execute()
    return int(state[0])
