"""The HTTP contract of models: create, list, delete."""

from datetime import datetime
from typing import Any

import pytest

from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.sample_models import GAPTRON, LABELS, SIZE, definition
from tests.service.workers import START

# --- models


async def test_a_created_model_is_answered_with_its_defaults(api: Api) -> None:
    """Creation returns 201, the Location, and the model with every default filled in."""
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
    """The learner that `GET /learners` recommends is the default, and appears in the model."""
    learners = body_of(await api.get("/learners"), 200)["learners"]
    (recommended,) = (learner["algorithm"] for learner in learners if learner["recommended"])
    assert body_of(await api.create(learner=None), 201)["learner"]["algorithm"] == recommended


async def test_a_name_is_unique(api: Api) -> None:
    """Creating a model under a taken name is a conflict, even with the same body, and changes nothing."""
    model = body_of(await api.create(), 201)
    problem_of(await api.create(), 409, "model-exists", "name")
    problem_of(await api.create(labels=["a", "b"]), 409, "model-exists", "name")
    assert await api.model() == model


async def test_models_are_listed_by_cursor(api: Api) -> None:
    """Following `next_cursor` returns every model once, ordered by name; the last cursor is null."""
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
    assert body_of(await api.get("/models", cursor="zzz"), 200) == {"models": [], "next_cursor": None}


async def test_a_deleted_model_is_gone(api: Api) -> None:
    """Deletion returns 204 without a body; then every route reports the model as not found."""
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
    """A new model under the same name has no rounds and no counters, and old predictions are unknown."""
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


async def test_a_model_that_is_deleted_at_once_was_created(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creation answers 201 although another client deletes the model before the answer."""
    create = RedisStore.create_model

    async def create_and_delete(store: RedisStore, key: ModelKey, *fields: Any) -> bool:
        made = await create(store, key, *fields)
        return made and await store.delete_model(key.name)

    with monkeypatch.context() as patched:
        patched.setattr(RedisStore, "create_model", create_and_delete)
        assert body_of(await api.create(), 201)["labels"] == LABELS
    problem_of(await api.get(f"/models/{api.name}"), 404, "model-not-found", "name")
