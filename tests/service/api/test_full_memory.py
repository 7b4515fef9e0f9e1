"""The laws of memory at the API: a model's open predictions, and the memory of the store, have limits."""

from pathlib import Path
from typing import Any

import httpx2

from service.store.embedded.server import EmbeddedServer
from tests.service.metrics import scrape, value
from tests.service.sample_models import UNIFORM, definition
from tests.service.workers import worker

X = [0.6, 0.8, 0.0]
FULL = (429, "urn:wager:problem:open-predictions-full")


async def predict(client: httpx2.AsyncClient, model: str, **fields: object) -> httpx2.Response:
    """Send a prediction request."""
    return await client.post("/predict", json={"model": model, "context": X} | fields)


async def test_a_model_with_too_many_open_bytes_is_429_until_feedback(store_url: str, name: str) -> None:
    """Beyond the maximum, each new prediction is refused with Retry-After, and counted; what is stored goes on.

    A repeated request gets its stored answer. The limit is that of one model.
    """
    limited: dict[str, Any] = {"max_open_bytes": 1000, "metrics_models": name}
    async with worker(store_url, **limited) as client, worker(store_url, **limited) as other:
        for each in (name, f"{name}-2"):
            await client.post("/models", json=definition(each, learner=UNIFORM))
        first = (await predict(client, name, prediction_id="first")).json()
        stored = [first["prediction_id"]]
        answers = [await predict(other, name) for _ in range(1000 // 160)]
        stored += [each.json()["prediction_id"] for each in answers if each.status_code == 200]
        response = answers[-1]
        assert (response.status_code, response.json()["type"]) == FULL
        assert response.headers["retry-after"] == "10"
        assert name in response.json()["detail"]
        assert "field" not in response.json()
        assert (await predict(client, name, prediction_id="first")).json() == first
        assert (await predict(client, f"{name}-2")).status_code == 200
        samples = await scrape(client)
        assert 1000 - 1000 / len(stored) < value(samples, "wager_open_predictions_bytes", model=name) <= 1000
        assert value(samples, "wager_predictions_refused_total", model=name) == 1 + 1000 // 160 - len(stored)
        assert value(samples, "wager_predictions_total", model=name) == len(stored)
        for id_ in stored:
            answer = await client.post("/feedback", json={"prediction_id": id_, "correct": True})
            assert answer.json()["status"] == "recorded"
        assert value(await scrape(client), "wager_open_predictions_bytes", model=name) == 0
        assert (await predict(client, name)).status_code == 200


async def test_a_batch_stores_the_blocks_that_fit(store_url: str, name: str) -> None:
    """The items of a block that does not fit are refused together, each with the problem; the others are stored."""
    async with worker(store_url, max_open_bytes=40_000, metrics_models=name) as client:
        await client.post("/models", json=definition(name, learner=UNIFORM))
        body = {"model": name, "contexts": [X] * 500}
        answers = (await client.post("/predict/batch", json=body)).json()["predictions"]
        refused = [(each.get("status"), each["type"]) for each in answers if "type" in each]
        stored = [each["prediction_id"] for each in answers if "type" not in each]
        assert 0 < len(stored) < 500
        assert set(refused) == {FULL}
        assert answers[: len(stored)] == [each for each in answers if "type" not in each]
        feedback = [{"prediction_id": id_, "correct": True} for id_ in stored]
        results = (await client.post("/feedback/batch", json={"feedback": feedback})).json()["results"]
        assert {each["status"] for each in results} == {"recorded"}
        assert value(await scrape(client), "wager_open_predictions_bytes", model=name) == 0


async def test_slots_are_refused_together(store_url: str, name: str) -> None:
    """A request with slots is one block: it has all of them, or none."""
    async with worker(store_url, max_open_bytes=1000) as client:
        await client.post("/models", json=definition(name, learner=UNIFORM))
        body = {"model": name, "contexts": [X] * 3, "top": 2}
        made = (await client.post("/predict/batch", json=body)).json()["predictions"]
        assert [len(each.get("slots", ())) for each in made] == [2, 2, 0]
        assert (made[2]["status"], made[2]["type"]) == FULL


async def test_without_a_maximum_nothing_is_refused(store_url: str, name: str) -> None:
    """With 0, open predictions are counted, and all stored."""
    async with worker(store_url, max_open_bytes=0, metrics_models=name) as client:
        await client.post("/models", json=definition(name, learner=UNIFORM))
        await client.post("/predict/batch", json={"model": name, "contexts": [X] * 500})
        assert value(await scrape(client), "wager_open_predictions_bytes", model=name) > 40_000


async def test_a_full_embedded_store_lives_on(tmp_path: Path) -> None:
    """Requests with many slots and large contexts fill a small store: it refuses them, and never ends.

    Feedback for what it has still becomes rounds, and the limit is kept but for these.
    """
    size, limit = 2**15, 2**24
    features = {"kind": "dense", "size": size, "norm": "none", "intercept": False}
    labels = [f"label-{number}" for number in range(30)]
    with EmbeddedServer(tmp_path, memory=limit) as server:
        pid = server.pid
        async with worker(server.url) as client:
            body = definition("m", labels=labels, features=features, learner={"algorithm": "uniform"})
            assert (await client.post("/models", json=body)).status_code == 201
            answers = [await predict(client, "m", context=[0.5] * size, top=20) for _ in range(80)]
            stored = [answer.json()["slots"] for answer in answers if answer.status_code == 200]
            assert {answer.status_code for answer in answers} == {200, 507}
            assert len(stored) > 10
            first = {"prediction_id": stored[0][0]["prediction_id"], "correct": True}
            assert (await client.post("/feedback", json=first)).json()["status"] == "recorded"
            assert (await client.get("/readyz")).status_code == 200
            assert value(await scrape(client), "wager_store_memory_bytes") < 1.25 * limit
            assert (await client.delete("/models/m")).status_code == 204
        assert server.pid == pid
