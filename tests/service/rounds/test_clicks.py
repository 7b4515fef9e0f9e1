"""The laws of silence: what a model learns if clients report successes only, and report them early."""

import numpy as np
import pytest

from service.store.redis.redis_store import RedisStore
from tests.service.rounds.clicks import RATES, STEPS, VISITORS, WINDOW, best_shares, close_expired, run_site, visit
from tests.service.workers import Clock, worker

VISITORS_AT_ONCE = 400
TRUE_RATE = sum(RATES.values()) / len(RATES)


@pytest.mark.slow
async def test_a_site_that_reports_clicks_learns_from_their_absence(store_url: str, name: str) -> None:
    before = await run_site(store_url, f"{name}-drop", STEPS, on_expiry="drop")
    assert before.right == before.rounds > 0
    after = await run_site(store_url, f"{name}-incorrect", STEPS, on_expiry="incorrect")
    assert after.rounds == STEPS * VISITORS
    assert before.best_share < 0.94 <= after.best_share


async def rates(store_url: str, name: str, learn: str) -> list[float]:
    clock, rng, found = Clock(), np.random.default_rng(3), list[float]()
    policies = {"learner": "uniform", "on_expiry": "incorrect", "learn": learn, "window_seconds": WINDOW}
    definition = {"name": name, "labels": list(RATES), "features": {"kind": "dense", "size": 1}} | policies
    store = RedisStore(store_url, timeout=10.0)
    async with worker(store_url, clock) as client:
        (await client.post("/models", json=definition)).raise_for_status()
        for quarter in range(10):
            await visit(client, name, rng, VISITORS_AT_ONCE)
            clock.now += WINDOW / 4 + 1.0
            await close_expired(store, clock)
            model = (await client.get(f"/models/{name}")).json()
            if quarter >= 4:
                found.append(model["correct"] / model["rounds_seen"])
    await store.close()
    return found


async def test_early_feedback_has_no_advantage_at_window_close(store_url: str, name: str) -> None:
    arrived = await rates(store_url, f"{name}-arrival", "on_arrival")
    closed = await rates(store_url, f"{name}-close", "at_window_close")
    assert min(arrived) > 1.3 * TRUE_RATE
    assert closed == pytest.approx([TRUE_RATE] * len(closed), rel=0.2)


@pytest.mark.slow
async def test_a_site_with_many_open_predictions_does_not_swing(store_url: str, name: str) -> None:
    steady = await best_shares(store_url, name)
    assert sum(steady) / len(steady) > 0.85
    swinging = await best_shares(store_url, f"{name}-arrival", learn="on_arrival")
    assert sum(swinging) / len(swinging) < 0.6
