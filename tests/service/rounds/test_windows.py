"""The laws of the window: how long a prediction accepts feedback, and what happens afterwards."""

from typing import Any

import pytest

from service.models.policies import keep_seconds
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import definition, make_model, post, slug_of
from tests.service.workers import Clock, worker

WINDOW = 60.0
X = [0.6, 0.8, 0.0]


async def judge(client: Any, name: str, own: str, correct: bool = True) -> str:
    feedback = {"prediction_id": f"{name}:{own}", "correct": correct}
    answer = (await client.post("/feedback", json=feedback)).json()
    return answer["status"] if "round" in answer else slug_of(answer)


@pytest.mark.parametrize(("late_feedback", "late"), [("reject", "prediction-expired"), ("accept", "recorded")])
async def test_late_feedback_follows_the_models_policy(
    store_url: str, name: str, late_feedback: str, late: str
) -> None:
    """Until the window's last moment feedback is recorded, and confirmed or refused later; the rest is policy."""
    clock = Clock()
    async with worker(store_url, clock) as client:
        await post(client, "/models", 201, **definition(name, window_seconds=WINDOW, late_feedback=late_feedback))
        asked = [{"model": name, "context": X, "prediction_id": own} for own in ("in-time", "late")]
        made = [await post(client, "/predict", **each) for each in asked]
        clock.now += WINDOW
        assert await judge(client, name, "in-time") == "recorded"
        clock.now += 0.001
        assert await judge(client, name, "late") == late
        assert (await client.get(f"/models/{name}")).json()["rounds_seen"] == 1 + (late == "recorded")
        clock.now += 10 * WINDOW
        assert [await post(client, "/predict", **each) for each in asked] == made
        assert await judge(client, name, "in-time") == "duplicate"
        assert await judge(client, name, "in-time", correct=False) == "feedback-conflict"


async def test_the_window_uses_the_workers_clock(store_url: str, name: str) -> None:
    clock = Clock()
    async with worker(store_url, clock) as client:
        await post(client, "/models", 201, **definition(name, window_seconds=WINDOW))
        await post(client, "/predict", model=name, context=X, prediction_id="a")
    async with worker(store_url, Clock(clock.now + WINDOW + 1.0)) as later:
        assert await judge(later, name, "a") == "prediction-expired"
    async with worker(store_url, Clock(clock.now + WINDOW)) as in_time:
        assert await judge(in_time, name, "a") == "recorded"


async def test_a_prediction_is_kept_for_an_hour_after_its_window(store: RedisStore, name: str) -> None:
    """A prediction that its model closes is kept for seven days."""
    for on_expiry, more in (("drop", 3600.0), ("incorrect", 7 * 86_400.0)):
        model = await make_model(store, f"{name}-{on_expiry}", window_seconds=WINDOW, on_expiry=on_expiry)
        assert keep_seconds(model.definition) == WINDOW + more
