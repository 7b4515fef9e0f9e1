"""The HTTP contract of models: create, list, delete."""

from datetime import datetime
from typing import Any

import httpx2
import pytest

from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.sample_models import GAPTRON, LABELS, SIZE, definition
from tests.service.workers import START


async def test_a_created_model_is_answered_with_its_defaults(api: Api) -> None:
    response = await api.create(learner=GAPTRON, window_seconds=60.0)
    model = body_of(response, 201)
    assert response.headers["location"] == f"/models/{api.name}"
    assert (model["name"], model["labels"], model["window_seconds"]) == (api.name, LABELS, 60.0)
    defaults = {"norm": "unit", "norm_bound": 1.0, "intercept": False, "precision": "float64"}
    assert model["features"] == {"kind": "dense", "size": SIZE} | defaults
    assert model["learner"] | GAPTRON == model["learner"]
    assert model["learner"]["exploration"] == "anytime"
    assert (model["rounds_seen"], model["predictions"], model["correct"]) == (0, 0, 0)
    assert datetime.fromisoformat(model["created_at"]).timestamp() == START
    assert await api.model() == model


async def test_without_a_learner_a_model_gets_the_recommended_one(api: Api) -> None:
    learners = body_of(await api.get("/learners"), 200)["learners"]
    (recommended,) = (learner["algorithm"] for learner in learners if learner["recommended"])
    assert body_of(await api.create(learner=None), 201)["learner"]["algorithm"] == recommended


async def test_a_half_life_is_kept_and_is_null_by_default(api: Api) -> None:
    """A half-life of 1000 is a number of rounds like 1000.0, for labels and for actions."""
    named: dict[str, Any] = {"kind": "named"}
    of: dict[str, dict[str, Any]] = {"labels": {"labels": LABELS}, "actions": {"actions": {"features": named}}}
    for kind, choices in of.items():
        for given, settings in ((None, {}), (1000, {"half_life_rounds": 1000})):
            body = choices | {"name": f"{api.name}-{kind}-{given}", "learner": {"algorithm": "fastcb"} | settings}
            answer = body_of(await api.post("/models", features=named, **body), 201)
            assert answer["learner"]["half_life_rounds"] == given


async def test_a_name_is_unique(api: Api) -> None:
    model = body_of(await api.create(), 201)
    problem_of(await api.create(), 409, "model-exists", "name")
    problem_of(await api.create(labels=["a", "b"]), 409, "model-exists", "name")
    assert await api.model() == model


async def test_models_are_listed_by_cursor(api: Api) -> None:
    names = sorted(f"{api.name}-{letter}" for letter in "cabed")
    for each in reversed(names):
        await api.post("/models", **definition(each))
    cursor: str | None = api.name
    found: list[str] = []
    while len(found) < 5:
        page = body_of(await api.get("/models", cursor=cursor, limit=2), 200)
        found += [model["name"] for model in page["models"]]
        cursor = page["next_cursor"]
    assert found[:5] == names
    last = body_of(await api.get("/models", cursor="zzz"), 200)
    assert (last["models"], last["next_cursor"], last["total"] >= 5) == ([], None, True)


async def test_a_model_that_changed_or_was_replaced_is_not_deleted(api: Api) -> None:
    """With If-Match, only the version that the client saw is deleted."""
    seen = (await api.create()).headers["ETag"]
    path = f"/models/{api.name}"
    await api.delete(path)
    now = (await api.create()).headers["ETag"]
    refused = await api.request("DELETE", path, headers={"If-Match": seen})
    problem_of(refused, 412, "precondition-failed", "If-Match")
    assert (await api.get(path)).headers["ETag"] == now
    assert (await api.request("DELETE", path, headers={"If-Match": now})).status_code == 204


async def test_a_deleted_model_is_gone(api: Api) -> None:
    await api.create()
    prediction = body_of(await api.predict(), 200)["prediction_id"]
    response = await api.delete(f"/models/{api.name}")
    assert (response.status_code, response.content) == (204, b"")
    problem_of(await api.delete(f"/models/{api.name}"), 404, "model-not-found", "name")
    problem_of(await api.get(f"/models/{api.name}"), 404, "model-not-found", "name")
    problem_of(await api.get(f"/models/{api.name}/rounds"), 404, "model-not-found", "name")
    problem_of(await api.predict(), 404, "model-not-found", "model")
    problem_of(await api.judge(prediction, correct=True), 404, "model-not-found", "prediction_id")


async def test_a_recreated_model_starts_empty(api: Api) -> None:
    await api.create()
    for number in range(3):
        answer = body_of(await api.predict(prediction_id=f"p{number}"), 200)
        await api.judge(answer["prediction_id"], correct=True)
    await api.predict(prediction_id="open")
    await api.delete(f"/models/{api.name}")
    await api.create(learner=GAPTRON)
    problem_of(await api.judge(f"{api.name}:open", correct=True), 404, "prediction-not-found", "prediction_id")
    assert await api.rounds() == []
    assert body_of(await api.predict(prediction_id="p0", include_distribution=True), 200)["distribution"] is not None
    model = await api.model()
    assert (model["rounds_seen"], model["predictions"], model["correct"]) == (0, 1, 0)


@pytest.mark.parametrize("name", ["a..", "a-_.", "0", "FLUSHALL", "nil", "a" * 64])
async def test_every_permitted_name_works(client: httpx2.AsyncClient, name: str) -> None:
    """Every permitted name and id works, whatever it means to a shell, a path, Lua or the store."""
    api = Api(client, "", name)
    await api.delete(f"/models/{name}")
    body_of(await api.create(), 201)
    ids = ["../../m", "a/b", "@all", "a=b+c~", "." * 3, "a" * 128]
    for own in ids:
        made = body_of(await api.predict(prediction_id=own), 200)["prediction_id"]
        assert made == f"{name}:{own}"
        assert body_of(await api.judge(made, correct=True), 200)["status"] == "recorded"
    assert (await api.model())["rounds_seen"] == len(ids)
    assert (await api.delete(f"/models/{name}")).status_code == 204


async def test_v1_is_the_same(client: httpx2.AsyncClient, name: str) -> None:
    api, other = Api(client, "", name), Api(client, "/v1", name)
    made = body_of(await other.create(learner="gaptron"), 201)
    assert await api.model() == await other.model() == made
    assert (
        made["learner"]
        == body_of(await api.named(f"{name}-2").create(learner={"algorithm": "gaptron"}), 201)["learner"]
    )
    id_ = body_of(await other.predict(), 200)["prediction_id"]
    assert body_of(await other.judge(id_, correct=True), 200)["round"] == 1
    assert await api.rounds() == await other.rounds() != []


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_locations_keep_the_prefix(client: httpx2.AsyncClient, name: str, prefix: str) -> None:
    api = Api(client, prefix, name)
    made = await api.create()
    assert (await client.get(made.headers["location"])).json() == await api.model()
    assert made.headers["location"] == f"{prefix}/models/{name}"
    copy = api.named(f"{name}-copy")
    assert (await copy.imported(await api.exported())).headers["location"] == f"{prefix}/models/{copy.name}"
    cloned = await api.post(f"/models/{name}/clone", name=f"{name}-clone")
    assert cloned.headers["location"] == f"{prefix}/models/{name}-clone"


@pytest.mark.parametrize(
    "hostile", ["a}:model", "a\r\nSET x 1", "../a", "a/../b", "a]] return redis.call('FLUSHALL') --[["]
)
async def test_a_hostile_name_is_refused(client: httpx2.AsyncClient, hostile: str) -> None:
    feedback = {"prediction_id": f"{hostile}:a", "correct": True}
    for path, body in [("/models", definition(hostile)), ("/predict", {"model": hostile}), ("/feedback", feedback)]:
        assert 400 <= (await client.post(path, json=body)).status_code < 500, path
