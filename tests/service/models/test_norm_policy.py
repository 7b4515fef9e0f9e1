"""The laws of norm policies: a new model gets its learner's; AdaHedge bounds each expert and never rescales."""

import json
from typing import Any

import httpx2
import pytest

from learners.registry import ALL_LEARNERS
from service.errors import HyperparameterError
from service.models.model import Limits, Model, new_model
from service.models.reading import stored_model
from service.schemas.models import ModelDefinition
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey, StoredModel, digests_of
from tests.service.sample_models import definition
from tests.service.workers import START

SCALE_FREE = {"fastcb", "squarecb", "uniform"}
"""The learners that need no norm policy."""

POLICIES = {name: "none" if name in SCALE_FREE else "scale" for name in ALL_LEARNERS} | {"adahedge": "reject"}

ANSWERS = ["no", "yes", "abstain"]


async def create(client: httpx2.AsyncClient, name: str, algorithm: str, **features: Any) -> httpx2.Response:
    body = {"name": name, "labels": ANSWERS, "features": {"kind": "dense", "size": 3} | features}
    return await client.post("/models", json=body | {"learner": {"algorithm": algorithm}})


@pytest.mark.parametrize("algorithm", sorted(ALL_LEARNERS))
async def test_a_new_model_has_the_norm_policy_of_its_learner(
    client: httpx2.AsyncClient, store: RedisStore, name: str, algorithm: str
) -> None:
    created = await create(client, name, algorithm)
    assert created.status_code == 201, created.text
    defaults = {"norm": POLICIES[algorithm], "norm_bound": 1.0, "precision": "float64"}
    defaults["intercept"] = algorithm != "adahedge"
    assert created.json()["features"] == {"kind": "dense", "size": 3} | defaults
    stored = await store.get_model(name)
    assert stored is not None
    assert json.loads(stored.definition)["features"] == created.json()["features"]
    listed = {each["algorithm"]: each for each in (await client.get("/learners")).json()["learners"]}
    assert listed[algorithm]["norm"] == POLICIES[algorithm]
    assert listed[algorithm]["intercept"] is defaults["intercept"]
    assert listed[algorithm]["norm_bound_on"] == ("entries" if algorithm == "adahedge" else "length")
    for norm in ("none", "unit", "scale", "reject"):
        given = await create(client, f"{name}.{norm}", algorithm, norm=norm)
        assert given.json()["features"]["norm"] == norm


async def test_a_stored_definition_keeps_its_norm_policy(
    client: httpx2.AsyncClient, store: RedisStore, name: str
) -> None:
    features = {"kind": "dense", "size": 3, "norm_bound": 5.0}
    body = definition(name, features=features, labels=ANSWERS, learner={"algorithm": "adahedge"})
    assert await store.create_model(ModelKey(name, "first"), json.dumps(body), START)
    model = (await client.get(f"/models/{name}")).json()
    assert model["features"] == features | {"norm": "unit", "intercept": False, "precision": "float64"}
    answer = await client.post("/predict", json={"model": name, "context": [7.0, 1.0, 2.0]})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("bound", [1.0 + 1e-9, 2.0, 1e6])
async def test_experts_are_bounded_by_one(client: httpx2.AsyncClient, name: str, bound: float) -> None:
    refused = await create(client, name, "adahedge", norm_bound=bound)
    assert refused.status_code == 422
    assert refused.json()["field"] == "features.norm_bound"
    assert "must be at most 1" in refused.json()["detail"]
    assert (await create(client, name, "adahedge", norm_bound=0.5)).status_code == 201


@pytest.mark.parametrize(
    ("kind", "context", "field", "feature"),
    [
        ("dense", [0.1, -1.5, 9.0], "context.1", 1),
        ("dense", [1.0, 1.0, 1.0 + 1e-9], "context.2", 2),
        ("sparse", {"indices": [2, 0], "values": [0.5, 1.25]}, "context.values.1", 0),
    ],
)
async def test_an_expert_out_of_range_is_named(
    client: httpx2.AsyncClient, name: str, kind: str, context: Any, field: str, feature: int
) -> None:
    await create(client, name, "adahedge", kind=kind)
    problem = (await client.post("/predict", json={"model": name, "context": context})).json()
    assert (problem["type"], problem["field"]) == ("urn:wager:problem:norm-exceeded", field)
    assert f"for feature {feature}; must be between -1 and 1" in problem["detail"]
    assert (await client.get(f"/models/{name}")).json()["predictions"] == 0


async def test_a_model_follows_experts_that_agree(client: httpx2.AsyncClient, name: str) -> None:
    await create(client, name, "adahedge")
    body = {"model": name, "context": [1.0, 1.0, 1.0], "include_distribution": True}
    answer = (await client.post("/predict", json=body)).json()
    assert answer["distribution"] == {"no": 0.0, "yes": 1.0, "abstain": 0.0}


async def test_a_model_shows_the_guarantee_of_its_hyperparameters(client: httpx2.AsyncClient, name: str) -> None:
    proved = {"algorithm": "gaptron", "loss": "hinge", "information": "full", "learning_rate": "theorem"}
    made = await client.post("/models", json=definition(f"{name}.proved", learner=proved))
    default = await client.post("/models", json=definition(name, learner={"algorithm": "gaptron"}))
    assert "Theorem 2" in made.json()["guarantee"]
    assert default.json()["guarantee"].startswith("No theorem covers these settings")
    listed = {each["algorithm"]: each for each in (await client.get("/learners")).json()["learners"]}
    assert listed["gaptron"]["guarantee"] == default.json()["guarantee"]


# --- checks for new models only: a stored definition opens without them


TOO_LITTLE: list[tuple[dict[str, Any], float]] = [
    ({"algorithm": "soba", "regularization": 1e-6, "exploration": 0.02}, 30.0),
    ({"algorithm": "soba-low-rank", "regularization": 1e-6, "exploration": 0.02}, 30.0),
    ({"algorithm": "epsilon-greedy-ridge", "regularization": 1.0}, 1e4),
]


def definition_of(learner: dict[str, Any], norm_bound: float) -> dict[str, Any]:
    features = {"kind": "dense", "size": 5, "norm_bound": norm_bound}
    return {"name": "m", "labels": ["a", "b", "c"], "features": features, "learner": learner}


def opened(definition: dict[str, Any]) -> Model:
    text = json.dumps(definition)
    return stored_model(StoredModel(ModelKey("m", "one"), text, 0.0, 0, 0, 0, digests=digests_of([text])))


@pytest.mark.parametrize(("learner", "norm_bound"), TOO_LITTLE, ids=str)
def test_a_new_model_refuses_too_little_regularization(learner: dict[str, Any], norm_bound: float) -> None:
    definition = definition_of(learner, norm_bound)
    with pytest.raises(HyperparameterError, match="use a regularization of at least") as error:
        new_model(ModelDefinition.model_validate(definition), "one", Limits(2**30, 10**12))
    assert error.value.field == "learner.regularization"
    model = opened(definition)
    assert model.learner.problem.norm_bound == norm_bound
    assert getattr(model.learner, "regularization", None) == learner["regularization"]


def test_default_regularization_is_accepted() -> None:
    for learner, _ in TOO_LITTLE:
        model = new_model(
            ModelDefinition.model_validate(definition_of({"algorithm": learner["algorithm"]}, 1.0)),
            "1",
            Limits(2**30, 10**12),
        )
        assert opened(json.loads(model.definition.model_dump_json())).learner == model.learner
