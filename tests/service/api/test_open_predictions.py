"""The HTTP contract of `GET /models/{name}/predictions`: every open prediction, and no other."""

import json
import re
from typing import Any

import httpx2
import pytest

from tests.service.api.http_api import Api, X, body_of
from tests.service.sample_models import LABELS, RANKING
from tests.service.workers import START, Clock, worker


async def listed(api: Api, limit: int = 100) -> dict[str, dict[str, Any]]:
    """Return the lines of all pages by id, following the links."""
    found, query = dict[str, dict[str, Any]](), dict[str, Any](limit=limit)
    while True:
        response = await api.get(f"/models/{api.name}/predictions", **query)
        assert (response.status_code, response.headers["content-type"]) == (200, "application/x-ndjson")
        found |= {line["prediction_id"]: line for line in map(json.loads, response.text.splitlines())}
        if "link" not in response.headers:
            return found
        link = r'<(/models/[^?]+/predictions)\?cursor=([0-9.]+)&limit=(\d+)>; rel="next"'
        path, cursor, asked = re.fullmatch(link, response.headers["link"]).groups()  # type: ignore[union-attr]
        assert (path, int(asked)) == (f"/models/{api.name}/predictions", limit)
        query["cursor"] = cursor


async def test_an_open_prediction_is_listed_as_it_was_answered(api: Api) -> None:
    """A line has the id, answer, propensity, context and times of the prediction."""
    await api.create(window_seconds=90.0)
    answer = body_of(await api.predict([0.2, 0.9, 0.1], prediction_id="mine"), 200)
    (line,) = (await listed(api)).values()
    same = ("prediction_id", "label", "labels", "propensity", "rounds_seen", "expires_at")
    assert {name: line[name] for name in same} == {name: answer[name] for name in same}
    assert (line["context"], line["status"], line["holdout"]) == ([0.2, 0.9, 0.1], "open", False)
    assert line["label"] in LABELS


async def test_pages_have_every_open_prediction_and_no_closed_one(api: Api) -> None:
    """Predictions of single requests and of batches are listed until they have feedback, those of others never."""
    await api.create()
    made = [body_of(await api.predict(), 200)["prediction_id"] for _ in range(5)]
    batch = body_of(await api.post("/predict/batch", model=api.name, contexts=[X] * 40), 200)
    made += [each["prediction_id"] for each in batch["predictions"]]
    other = Api(api._client, "", f"{api.name}-other")
    await other.create()
    await other.predict()
    assert set(await listed(api)) == set(await listed(api, limit=1)) == set(made)
    for closed in made[::3]:
        body_of(await api.judge(closed, correct=True), 200)
    assert set(await listed(api, limit=7)) == set(made) - set(made[::3])


async def test_rankings_are_listed(api: Api) -> None:
    """A prediction of a structured model has labels."""
    await api.create(learner=RANKING)
    answer = body_of(await api.predict(), 200)
    (line,) = (await listed(api)).values()
    assert (line["label"], line["labels"]) == (None, answer["labels"])


@pytest.mark.parametrize(("late", "open_"), [("reject", 0), ("accept", 1)])
async def test_expired_predictions_are_listed_while_they_accept_feedback(
    store_url: str, name: str, late: str, open_: int
) -> None:
    """After its window, a prediction is listed only if the model accepts late feedback."""
    clock = Clock()
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        await api.create(window_seconds=90.0, late_feedback=late)
        await api.predict()
        clock.now = START + 90.0
        assert len(await listed(api)) == 1
        clock.now = START + 90.5
        assert len(await listed(api)) == open_


@pytest.mark.parametrize("query", [{"cursor": "x"}, {"cursor": "0"}, {"limit": 0}, {"limit": 1001}, {"after": 1}])
async def test_a_bad_query_is_refused(api: Api, query: dict[str, Any]) -> None:
    """Cursors have two numbers, limits are from 1 to 1000, and there are no other parameters."""
    await api.create()
    response: httpx2.Response = await api.get(f"/models/{api.name}/predictions", **query)
    assert response.status_code in (400, 422)
    assert [body_of(response, response.status_code)["field"]] == list(query)


async def test_a_cursor_of_another_store_ends_the_listing(api: Api) -> None:
    """A cursor beyond the last server, or from nowhere, gives a page, not an error."""
    await api.create()
    for cursor in ("7.0", "0.123456789"):
        assert (await api.get(f"/models/{api.name}/predictions", cursor=cursor)).status_code == 200


async def test_an_unknown_model_is_not_found(api: Api) -> None:
    """A missing model has no predictions."""
    assert (await api.get("/models/nowhere/predictions")).status_code == 404
