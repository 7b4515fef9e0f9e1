"""The laws of norm policies: a new model gets its learner's; AdaHedge bounds each expert and never rescales."""

import json
from typing import Any

import httpx2
import numpy as np
import pytest

from learners.base import BoolArray, FloatArray
from learners.registry import ALL_LEARNERS
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ModelKey
from tests.service.sample_models import definition
from tests.service.workers import START

SCALE_FREE = {"fastcb", "squarecb", "uniform"}
"""The learners that need no norm policy."""

POLICIES = {name: "none" if name in SCALE_FREE else "scale" for name in ALL_LEARNERS} | {"adahedge": "reject"}

ANSWERS = ["no", "yes", "abstain"]


async def create(client: httpx2.AsyncClient, name: str, algorithm: str, **features: Any) -> httpx2.Response:
    """Create a model of three labels, with only the given features fields."""
    body = {"name": name, "labels": ANSWERS, "features": {"kind": "dense", "size": 3} | features}
    return await client.post("/models", json=body | {"learner": {"algorithm": algorithm}})


@pytest.mark.parametrize("algorithm", sorted(ALL_LEARNERS))
async def test_a_new_model_has_the_norm_policy_of_its_learner(
    client: httpx2.AsyncClient, store: RedisStore, name: str, algorithm: str
) -> None:
    """The default policy is answered, listed and stored, so later defaults do not change it; a given policy is kept."""
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
    """A stored definition without a norm means `unit` without an intercept; a bound refused today still opens."""
    features = {"kind": "dense", "size": 3, "norm_bound": 5.0}
    body = definition(name, features=features, labels=ANSWERS, learner={"algorithm": "adahedge"})
    assert await store.create_model(ModelKey(name, "first"), json.dumps(body), START)
    model = (await client.get(f"/models/{name}")).json()
    assert model["features"] == features | {"norm": "unit", "intercept": False, "precision": "float64"}
    answer = await client.post("/predict", json={"model": name, "context": [7.0, 1.0, 2.0]})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("bound", [1.0 + 1e-9, 2.0, 1e6])
async def test_experts_are_bounded_by_one(client: httpx2.AsyncClient, name: str, bound: float) -> None:
    """A new AdaHedge model with a bound above 1 is refused with advice; a smaller bound is accepted."""
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
    """The problem names the entry, and nothing is stored."""
    await create(client, name, "adahedge", kind=kind)
    problem = (await client.post("/predict", json={"model": name, "context": context})).json()
    assert (problem["type"], problem["field"]) == ("urn:wager:problem:norm-exceeded", field)
    assert f"for feature {feature}; must be between -1 and 1" in problem["detail"]
    assert (await client.get(f"/models/{name}")).json()["predictions"] == 0


async def test_a_model_follows_experts_that_agree(client: httpx2.AsyncClient, name: str) -> None:
    """If all three experts advise yes, the model never abstains, although the context's norm exceeds 1."""
    await create(client, name, "adahedge")
    body = {"model": name, "context": [1.0, 1.0, 1.0], "include_distribution": True}
    answer = (await client.post("/predict", json=body)).json()
    assert answer["distribution"] == {"no": 0.0, "yes": 1.0, "abstain": 0.0}


async def cost_of(client: httpx2.AsyncClient, name: str, experts: FloatArray, yes: BoolArray, c: float) -> float:
    """Return the expected cost over HTTP: 1 for a mistake, c for abstaining."""
    cost = 0.0
    for advice, truth in zip(experts, yes, strict=True):
        body = {"model": name, "context": advice.tolist(), "include_distribution": True}
        answer = (await client.post("/predict", json=body)).json()
        cost += answer["distribution"]["no" if truth else "yes"] + c * answer["distribution"]["abstain"]
        body = {"prediction_id": answer["prediction_id"], "true_label": "yes" if truth else "no"}
        assert (await client.post("/feedback", json=body)).status_code == 200
    return cost


async def test_theorem_7_holds_over_http(client: httpx2.AsyncClient, name: str) -> None:
    """With the default policy the cost meets Theorem 7; with experts rescaled to unit norm it does not."""
    d, n, c, rng = 20, 300, 0.4, np.random.default_rng(4)
    yes = rng.random(n) < 0.5
    experts = rng.choice([-1.0, 1.0], (n, d))
    experts[:, 7] = np.where(yes, 1.0, -1.0)  # the best expert is never wrong
    allowed = np.log(d) / (1 - 2 * c) + 4 / 3 * np.log(d) + 2
    await create(client, name, "adahedge", size=d)
    await create(client, f"{name}.unit", "adahedge", size=d, norm="unit")
    assert await cost_of(client, name, experts, yes, c) <= allowed
    assert await cost_of(client, f"{name}.unit", experts, yes, c) > 3 * allowed


async def test_a_model_shows_the_guarantee_of_its_hyperparameters(client: httpx2.AsyncClient, name: str) -> None:
    """`GET /models/{name}` shows the guarantee for its hyperparameters, `GET /learners` that for the defaults."""
    proved = {"algorithm": "gaptron", "loss": "hinge", "information": "full", "learning_rate": "theorem"}
    made = await client.post("/models", json=definition(f"{name}.proved", learner=proved))
    default = await client.post("/models", json=definition(name, learner={"algorithm": "gaptron"}))
    assert "Theorem 2" in made.json()["guarantee"]
    assert default.json()["guarantee"].startswith("No theorem covers these settings")
    listed = {each["algorithm"]: each for each in (await client.get("/learners")).json()["learners"]}
    assert listed["gaptron"]["guarantee"] == default.json()["guarantee"]
