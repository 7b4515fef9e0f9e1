"""Slots whose feedback never comes: each becomes its own round when the window closes."""

from typing import Any

import httpx2
import pytest

from service.store.redis.redis_store import RedisStore
from tests.service.actions.catalogue import SHOES
from tests.service.actions.catalogue import definition as with_actions
from tests.service.api.http_api import Api, X, body_of
from tests.service.rounds.clicks import close_expired
from tests.service.sample_models import definition
from tests.service.workers import Clock, worker

WINDOW = 60.0
REQUESTS, TOP = 4, 3

BODIES: dict[str, dict[str, Any]] = {"labels": {"context": X}, "actions": {"context": {}, "actions": SHOES}}


async def distribution(client: httpx2.AsyncClient, body: dict[str, Any]) -> dict[str, float]:
    found = body_of(await client.post("/predict", json=body | {"include_distribution": True}), 200)
    probabilities: dict[str, float] = found["distribution"]
    return probabilities


@pytest.mark.parametrize("learn", ["on_arrival", "at_window_close"])
@pytest.mark.parametrize("kind", BODIES)
async def test_each_slot_becomes_a_round(store_url: str, store: RedisStore, name: str, kind: str, learn: str) -> None:
    clock, body = Clock(), BODIES[kind] | {"model": name}
    made = (definition if kind == "labels" else with_actions)(
        name, learner="fastcb", window_seconds=WINDOW, on_expiry="incorrect", learn=learn
    )
    clicked, shown = set(), dict[str, tuple[str, float]]()
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        body_of(await client.post("/models", json=made), 201)
        for _ in range(REQUESTS):
            slots = body_of(await client.post("/predict", json=body | {"top": TOP}), 200)["slots"]
            shown |= {each["prediction_id"]: (each["label"], each["propensity"]) for each in slots}
            clicked.add(slots[1]["prediction_id"])
            given = body_of(await api.judge(slots[1]["prediction_id"], correct=True), 200)
            assert (given["round"] is None) == (learn == "at_window_close")
        clock.now += WINDOW + 10.0
        await close_expired(store, clock)
        lines = await api.rounds()
        old = await distribution(client, body)
    assert {line["prediction_id"]: (line["label"], line["propensity"]) for line in lines} == shown
    assert len(lines) == REQUESTS * TOP
    assert {line["prediction_id"] for line in lines if line["correct"]} == clicked
    assert {line["prediction_id"] for line in lines if line["outcome"] == "feedback"} == clicked
    async with worker(store_url, clock) as client:
        assert await distribution(client, body) == old
