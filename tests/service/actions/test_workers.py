"""Models with actions on several workers: the same state everywhere, exact propensities, each round once."""

import asyncio
from typing import Any

import httpx2
import numpy as np
from scipy import stats

from tests.service.actions.catalogue import definition, item
from tests.service.open_predictions import open_predictions
from tests.service.sample_models import post
from tests.service.workers import worker

COLOURS = ("red", "blue", "green")


def request(name: str, i: int, **fields: Any) -> dict[str, Any]:
    actions = [item(f"{colour}-{i}", colour=colour, price=j + i % 7) for j, colour in enumerate(COLOURS)]
    return {"model": name, "context": {"likes": COLOURS[i % 3]}, "actions": actions} | fields


async def play(client: httpx2.AsyncClient, name: str, i: int) -> str:
    first, again = [await post(client, "/predict", **request(name, i, prediction_id=f"p{i}")) for _ in range(2)]
    assert (first["label"], first["propensity"]) == (again["label"], again["propensity"])
    right = first["label"].startswith(COLOURS[i % 3])
    feedback = {"prediction_id": first["prediction_id"], "reward": 1.0 if right else 0.25}
    statuses = [(await post(client, "/feedback", **feedback))["status"] for _ in range(2)]
    assert statuses == ["recorded", "duplicate"]
    label: str = first["label"]
    return label


async def test_workers_agree_and_count_each_round_once(store_url: str, name: str) -> None:
    async with worker(store_url, seed=1) as one, worker(store_url, seed=2) as other:
        await post(one, "/models", **definition(name))
        for i in range(0, 104, 4):
            await asyncio.gather(*(play((one, other)[j % 2], name, i + j) for j in range(4)))
        model = (await one.get(f"/models/{name}")).json()
        assert (model["rounds_seen"], model["predictions"]) == (104, 104)
        body = request(name, 104, include_distribution=True)
        found = [await post(each, "/predict", **body) for each in (one, other)]
    async with worker(store_url, seed=3) as later:
        found.append(await post(later, "/predict", **body))
    assert [each["rounds_seen"] for each in found] == [104] * 3
    assert found[0]["distribution"] == found[1]["distribution"] == found[2]["distribution"]
    assert max(found[0]["distribution"], key=found[0]["distribution"].get) == "green-104"


async def test_answers_are_drawn_with_their_propensities(client: httpx2.AsyncClient, name: str) -> None:
    await post(client, "/models", **definition(name))
    for i in range(30):
        await play(client, name, i)
    items = [{key: value for key, value in request(name, 1).items() if key != "model"}] * 500
    body = {"model": name, "items": items, "include_distribution": True}
    answers = [each for _ in range(4) for each in (await post(client, "/predict/batch", **body))["predictions"]]
    chances = answers[0]["distribution"]
    assert all(each["distribution"] == chances and each["propensity"] == chances[each["label"]] for each in answers)
    counts = np.array([[each["label"] for each in answers].count(id_) for id_ in chances])
    expected = np.array(list(chances.values())) * len(answers)
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-4


async def test_open_predictions_show_their_action(client: httpx2.AsyncClient, name: str) -> None:
    features = {"kind": "dense", "size": 1}
    await post(client, "/models", **definition(name, features=features))
    answer = await post(client, "/predict", **request(name, 1, context=[0.5]))
    (line,) = await open_predictions(client, name)
    assert (line["label"], line["context"]) == (answer["label"], [0.5])
