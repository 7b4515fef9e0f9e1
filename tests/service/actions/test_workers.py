"""Models with actions on several workers: the same state everywhere, exact propensities, each round once."""

import asyncio
import json
from typing import Any

import httpx2
import numpy as np
from scipy import stats

from service.store.redis.redis_store import RedisStore
from tests.service.actions.catalogue import definition, item
from tests.service.open_predictions import open_predictions
from tests.service.rounds.clicks import close_expired
from tests.service.workers import Clock, worker

COLOURS = ("red", "blue", "green")


def request(name: str, i: int, **fields: Any) -> dict[str, Any]:
    """Return the request of number i: three items that no other request has, and a user who likes one colour."""
    actions = [item(f"{colour}-{i}", colour=colour, price=j + i % 7) for j, colour in enumerate(COLOURS)]
    return {"model": name, "context": {"likes": COLOURS[i % 3]}, "actions": actions} | fields


async def posted(client: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Post a body that must succeed; return the answer."""
    response = await client.post(path, json=body)
    assert response.status_code < 300, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def play(client: httpx2.AsyncClient, name: str, i: int) -> str:
    """Predict and give feedback, each twice; return the answer."""
    first, again = [await posted(client, "/predict", request(name, i, prediction_id=f"p{i}")) for _ in range(2)]
    assert (first["label"], first["propensity"]) == (again["label"], again["propensity"])
    right = first["label"].startswith(COLOURS[i % 3])
    feedback = {"prediction_id": first["prediction_id"], "reward": 1.0 if right else 0.25}
    statuses = [(await posted(client, "/feedback", feedback))["status"] for _ in range(2)]
    assert statuses == ["recorded", "duplicate"]
    label: str = first["label"]
    return label


async def test_workers_agree_and_count_each_round_once(store_url: str, name: str) -> None:
    """Two workers play 200 rounds with repeated requests; a third, started later, has the same state to the bit."""
    async with worker(store_url, seed=1) as one, worker(store_url, seed=2) as other:
        await posted(one, "/models", definition(name))
        for i in range(0, 200, 4):
            await asyncio.gather(*(play((one, other)[j % 2], name, i + j) for j in range(4)))
        model = (await one.get(f"/models/{name}")).json()
        assert (model["rounds_seen"], model["predictions"]) == (200, 200)
        body = request(name, 200, include_distribution=True)
        found = [await posted(each, "/predict", body) for each in (one, other)]
    async with worker(store_url, seed=3) as later:
        found.append(await posted(later, "/predict", body))
    assert [each["rounds_seen"] for each in found] == [200] * 3
    assert found[0]["distribution"] == found[1]["distribution"] == found[2]["distribution"]
    assert max(found[0]["distribution"], key=found[0]["distribution"].get) == "green-200"


async def test_a_snapshot_replaces_the_log(store_url: str, name: str) -> None:
    """After a snapshot, a log without its rounds gives the same distribution to the bit."""
    clock = Clock()
    async with worker(store_url, clock, seed=1) as one:
        await posted(one, "/models", definition(name, retain_rounds=0))
        for i in range(60):
            await play(one, name, i)
        before = await posted(one, "/predict", request(name, 60, include_distribution=True))
    async with worker(store_url, clock, seed=2) as other:
        after = await posted(other, "/predict", request(name, 60, include_distribution=True))
    assert after["distribution"] == before["distribution"]


async def test_answers_are_drawn_with_their_propensities(client: httpx2.AsyncClient, name: str) -> None:
    """A chi-square test of 2,000 answers to one request does not reject the distribution."""
    await posted(client, "/models", definition(name))
    for i in range(30):
        await play(client, name, i)
    items = [{key: value for key, value in request(name, 1).items() if key != "model"}] * 500
    body = {"model": name, "items": items, "include_distribution": True}
    answers = [each for _ in range(4) for each in (await posted(client, "/predict/batch", body))["predictions"]]
    chances = answers[0]["distribution"]
    assert all(each["distribution"] == chances and each["propensity"] == chances[each["label"]] for each in answers)
    counts = np.array([[each["label"] for each in answers].count(id_) for id_ in chances])
    expected = np.array(list(chances.values())) * len(answers)
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4


async def test_a_request_with_thousands_of_actions_is_answered(client: httpx2.AsyncClient, name: str) -> None:
    """Ten thousand actions have one distribution."""
    await posted(client, "/models", definition(name))
    many = [item(f"i{i}", size=i, colour=COLOURS[i % 3]) for i in range(10_000)]
    body = {"model": name, "context": {"age": 41}, "actions": many, "include_distribution": True}
    answer = await posted(client, "/predict", body)
    assert len(answer["distribution"]) == 10_000
    assert abs(sum(answer["distribution"].values()) - 1.0) < 1e-9


async def test_silence_makes_a_round(store_url: str, store: RedisStore, name: str) -> None:
    """With `on_expiry`, a prediction without feedback becomes a round of the chosen action."""
    clock = Clock()
    async with worker(store_url, clock) as client:
        await posted(client, "/models", definition(name, window_seconds=1.0, on_expiry="incorrect"))
        answer = await posted(client, "/predict", request(name, 1))
        clock.now += 20.0
        await close_expired(store, clock)
        (line,) = (await client.get(f"/models/{name}/rounds")).text.splitlines()
        assert (json.loads(line)["label"], json.loads(line)["outcome"]) == (answer["label"], "expired")
        assert (await posted(client, "/predict", request(name, 2)))["rounds_seen"] == 1


async def test_open_predictions_show_their_action(client: httpx2.AsyncClient, name: str) -> None:
    """The list of open predictions has the id and the context as sent."""
    features = {"kind": "dense", "size": 1}
    await posted(client, "/models", definition(name, features=features))
    answer = await posted(client, "/predict", request(name, 1, context=[0.5]))
    (line,) = await open_predictions(client, name)
    assert (line["label"], line["context"]) == (answer["label"], [0.5])
