"""The laws of the window: how long a prediction accepts feedback, and what happens afterwards."""

from typing import Any, NamedTuple

import httpx2
import pytest

from service.models.policies import keep_seconds
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import definition, make_model
from tests.service.workers import Clock, worker

WINDOW = 60.0
X = [0.6, 0.8, 0.0]


class Model(NamedTuple):
    """A model, and a client to reach it."""

    client: httpx2.AsyncClient
    name: str

    async def create(self, late_feedback: str) -> None:
        """Create the model."""
        body = definition(self.name, window_seconds=WINDOW, late_feedback=late_feedback)
        assert (await self.client.post("/models", json=body)).status_code == 201

    async def predict(self, own: str) -> dict[str, Any]:
        """Request a prediction with a client's id."""
        request = {"model": self.name, "context": X, "prediction_id": own}
        answer: dict[str, Any] = (await self.client.post("/predict", json=request)).json()
        return answer

    async def judge(self, own: str, correct: bool = True) -> str:
        """Give feedback; return its status, or the problem's name."""
        feedback = {"prediction_id": f"{self.name}:{own}", "correct": correct}
        answer = (await self.client.post("/feedback", json=feedback)).json()
        return str(answer["status"] if "round" in answer else answer["type"].removeprefix("urn:wager:problem:"))


@pytest.mark.parametrize(("late_feedback", "late"), [("reject", "prediction-expired"), ("accept", "recorded")])
async def test_late_feedback_follows_the_models_policy(
    store_url: str, name: str, late_feedback: str, late: str
) -> None:
    """Feedback is recorded until the window's last moment; later the model's policy decides."""
    clock = Clock()
    async with worker(store_url, clock) as client:
        model = Model(client, name)
        await model.create(late_feedback)
        for own in ("in-time", "late"):
            await model.predict(own)
        clock.now += WINDOW
        assert await model.judge("in-time") == "recorded"
        clock.now += 0.001
        assert await model.judge("late") == late
        rounds = (await client.get(f"/models/{name}")).json()["rounds_seen"]
        assert rounds == 1 + (late == "recorded")


async def test_feedback_recorded_in_time_is_confirmed_later(store_url: str, name: str) -> None:
    """After the window the same feedback is still a duplicate, and another still a conflict."""
    clock = Clock()
    async with worker(store_url, clock) as client:
        model = Model(client, name)
        await model.create("reject")
        await model.predict("a")
        assert await model.judge("a") == "recorded"
        clock.now += 10 * WINDOW
        assert await model.judge("a") == "duplicate"
        assert await model.judge("a", correct=False) == "feedback-conflict"


async def test_an_expired_prediction_is_still_the_stored_one(store_url: str, name: str) -> None:
    """After the window, the same id returns the stored prediction, whose window stays closed."""
    clock = Clock()
    async with worker(store_url, clock) as client:
        model = Model(client, name)
        await model.create("reject")
        first = await model.predict("a")
        clock.now += 2 * WINDOW
        assert await model.predict("a") == first
        assert await model.judge("a") == "prediction-expired"


async def test_the_window_uses_the_workers_clock(store_url: str, name: str) -> None:
    """A prediction expires by the clock of the worker that receives its feedback; the store's clock does not matter."""
    clock = Clock()
    async with worker(store_url, clock) as client:
        await Model(client, name).create("reject")
        await Model(client, name).predict("a")
    async with worker(store_url, Clock(clock.now + WINDOW + 1.0)) as later:
        assert await Model(later, name).judge("a") == "prediction-expired"
    async with worker(store_url, Clock(clock.now + WINDOW)) as in_time:
        assert await Model(in_time, name).judge("a") == "recorded"


async def test_a_prediction_is_kept_for_an_hour_after_its_window(store: RedisStore, name: str) -> None:
    """For an hour after the window, late feedback gets another answer than feedback on an unknown prediction."""
    assert keep_seconds((await make_model(store, name, window_seconds=WINDOW)).definition) == WINDOW + 3600.0
