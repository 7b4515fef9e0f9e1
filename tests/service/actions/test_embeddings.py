"""The laws of vector fields in models with actions: vectors, records, limits, and what the log shows."""

from typing import Any

import httpx2
import numpy as np
import pytest

from service.actions.definition import GivenAction
from service.choice.requests import PredictionRequest
from service.contexts.vectors import MOST_ENTRIES
from service.models.model import Limits, new_model
from service.schemas.models import ModelDefinition
from tests.service.actions.test_vectors import joined, named_factors, reference, vectors_of
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.sample_models import post
from tests.service.workers import worker

SIZE = 1000
TASTE = {"type": "vector", "size": 3}
LOOK = {"type": "vector", "size": 2, "precision": "float32"}
CONTEXT: dict[str, Any] = {"kind": "named", "size": 50, "fields": {"user.taste": TASTE}}
ACTION: dict[str, Any] = {"kind": "named", "size": SIZE, "fields": {"look": LOOK, "depth": TASTE}}
SENT = {"user": {"taste": [0.5, -2.0, 3.0], "age": 4.0}}
ITEM = {"look": [0.25, 0.0], "price": 8.0}


def test_the_vector_of_an_action_has_its_own_indices_and_products_are_hashed() -> None:
    """A number of a vector has no name: its hash is that of a product of the path's hash and its position."""
    vectors = vectors_of(CONTEXT, features=ACTION, interactions=[["user", "price"]])
    (made,) = joined(vectors, SENT, ITEM)
    assert vectors.size == SIZE + 5
    assert {i: x for i, x in made.items() if i >= SIZE} == {SIZE + 3: 0.25, SIZE + 4: 0.0}
    taste = {"user.taste[0]": 0.5, "user.taste[1]": -2.0, "user.taste[2]": 3.0}
    parts = vectors.feature_entries(*named_factors(vectors, SENT, ITEM))
    assert [part.name for part in parts] == ["price", "user.age*price", *(f"{name}*price" for name in taste), "look[0]"]
    plain = reference({"user.age": 4.0}, {"price": 8.0}, SIZE)
    hashed = {i: x for i, x in made.items() if i < SIZE}
    assert {i: x for i, x in hashed.items() if i in plain} == plain
    assert sorted(abs(x) for i, x in hashed.items() if i not in plain) == [4.0, 16.0, 24.0]


@pytest.mark.parametrize("interactions", [None, [], [["user", "look"]], [["user", "price"], ["user", "depth"]]])
def test_parts_name_what_is_joined_and_entries_count_them(interactions: Any) -> None:
    vectors = vectors_of(CONTEXT | {"size": SIZE}, features=ACTION, interactions=interactions)
    for action in (ITEM, {"depth": [1.0, 2.0, 3.0], "look": [1.0, 1.0]}, {"colour": "red"}):
        (made,) = joined(vectors, SENT, action)
        context, given = named_factors(vectors, SENT, action)
        parts, found = vectors.feature_entries(context, given), dict[int, float]()
        for part in parts:
            found[part.at] = found.get(part.at, 0.0) + part.value
        assert found == pytest.approx({i: x for i, x in made.items() if x})
        zeros = sum(not x for x in given.factors.values)  # their products are no entries
        assert zeros or vectors.entries(context.factors, [given.factors]).tolist() == [len(made)]


@pytest.fixture
def api(client: httpx2.AsyncClient, name: str) -> Api:
    return Api(client, "", name)


def shown(features: dict[str, Any]) -> dict[str, Any]:
    single = [float(np.float32(x)) for x in features.get("look", [])]
    return features | ({"look": single} if single else {})


@pytest.mark.parametrize("log", ["chosen", "all"])
async def test_the_log_shows_contexts_and_actions_as_sent(api: Api, store_url: str, log: str) -> None:
    actions = {"features": ACTION, "log_actions": log}
    body_of(await api.post("/models", name=api.name, features=CONTEXT, actions=actions), 201)
    rng = np.random.default_rng(7)
    sent, made = list[tuple[Any, dict[str, Any]]](), list[dict[str, Any]]()
    for i in range(30):
        items = {
            f"a{k}": {"look": rng.normal(size=2).tolist(), "price": k} | ({"depth": [k, i, -0.5]} if k % 2 else {})
            for k in range(4)
        }
        context = {"user": {"taste": rng.normal(size=3).tolist(), "age": i}} if i % 3 else {"hour": i}
        given = [{"id": id_, "features": features} for id_, features in items.items()]
        request = {"model": api.name, "context": context, "actions": given}
        answer = body_of(await api.post("/predict", **request, prediction_id=f"{api.name}:{i}"), 200)
        assert answer == body_of(await api.post("/predict", **request, prediction_id=f"{api.name}:{i}"), 200)
        sent.append((context, items))
        made.append(answer)
    for i, answer in enumerate(made):
        body_of(await api.judge(answer["prediction_id"], reward=i % 5 / 4), 200)
    for line, answer, (context, items) in zip(await api.rounds(), made, sent, strict=True):
        assert line["context"] == context
        kept = {each["id"]: each["features"] for each in line["actions"]}
        expected = items if log == "all" else {answer["label"]: items[answer["label"]]}
        assert kept == {id_: shown(features) for id_, features in expected.items()}
    asked = {"context": sent[1][0], "actions": given}
    async with worker(store_url, seed=2) as other:
        explained = await post(other, f"/models/{api.name}/explain", **asked)
    assert explained["rounds_seen"] == 30
    assert explained == body_of(await api.post(f"/models/{api.name}/explain", **asked), 200)


async def test_products_of_vectors_are_refused_by_name_at_creation(api: Api) -> None:
    large = {"type": "vector", "size": 400}
    sides = [{"kind": "named", "fields": {name: large}} for name in ("mine", "yours")]
    answer = await api.post("/models", name=api.name, features=sides[0], actions={"features": sides[1]})
    assert (answer.status_code, answer.json()["field"]) == (422, "actions.interactions")
    actions = {"features": sides[1], "interactions": [["mine", "price"]]}
    body_of(await api.post("/models", name=api.name, features=sides[0], actions=actions), 201)


async def test_the_limit_of_an_action_follows_the_cost_of_its_products(api: Api) -> None:
    """An embedding of 1,536 numbers has products with the features of its pair alone."""
    embedding = {"kind": "named", "fields": {"text": {"type": "vector", "size": 1536}}}
    actions = {"features": {"kind": "named"}, "interactions": [["text", "item"]]}
    body_of(await api.post("/models", name=api.name, features=embedding, actions=actions), 201)
    context, most = {"text": [0.5] * 1536, "hour": 3}, MOST_ENTRIES // 1537
    item = {f"f{i}": 1.0 for i in range(most)}
    rest = {f"r{i}": 1 for i in range(100)}
    given = [{"id": "a", "features": rest}, {"id": "b", "features": {"item": item} | rest}]
    request = {"model": api.name, "context": context}
    body_of(await api.post("/predict", **request, actions=given[:1]), 200)
    answer = await api.post("/predict", **request, actions=given)
    if MOST_ENTRIES - most * 1537 < 100:
        problem_of(answer, 422, "too-many-features", "actions.1.features")
    else:
        body_of(answer, 200)
    item["one-more"] = 1.0
    problem_of(await api.post("/predict", **request, actions=given), 422, "too-many-features", "actions.1.features")


def test_costs_include_the_products() -> None:
    """The scheduler sees what the vectors of a request cost."""
    definition = {"name": "m", "features": {"kind": "named", "fields": {"text": {"type": "vector", "size": 500}}}}

    def cost(interactions: Any) -> int:
        actions = {"features": {"kind": "named"}, "interactions": interactions}
        choice = new_model(ModelDefinition.model_validate(definition | {"actions": actions}), "i", UNLIMITED).choice
        given = [GivenAction(id=id_, features={"item": {"a": 1, "b": 2}}) for id_ in ("x", "y")]
        request = choice.parse(PredictionRequest({"text": [0.5] * 500}, None, False, actions=given))
        return choice.deciding_cost([request])

    assert cost([["text", "item"]]) > cost([]) + 2 * 2 * 500 * 10


UNLIMITED = Limits(2**30, 10**12, 2**30)
