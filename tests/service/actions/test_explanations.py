"""The laws of explanations of actions: the vector of each, and what each of its features adds to its score."""

from typing import Any

import httpx2
import pytest

from tests.service.actions.catalogue import NAMED, definition, item
from tests.service.actions.test_workers import COLOURS, play, request
from tests.service.sample_models import post, slug_of

FEW = [item("red", colour="red", price=0.5), item("blue", colour="blue")]


@pytest.mark.parametrize(
    ("algorithm", "actions"),
    [
        ("fastcb", {"features": NAMED}),
        ("fastcb", {"features": NAMED | {"intercept": False}, "interactions": []}),
        ("epsilon-greedy-ridge", {"features": NAMED | {"size": 64, "norm": "scale"}}),
    ],
)
async def test_an_explanation_adds_up(
    client: httpx2.AsyncClient, name: str, algorithm: str, actions: dict[str, Any]
) -> None:
    """Contributions sum to the scores, the distribution is that of a prediction, and nothing is stored."""
    features = NAMED | ({} if algorithm == "fastcb" else {"size": 64})
    await post(client, "/models", **definition(name, learner=algorithm, features=features, actions=actions))
    for i in range(40):
        await play(client, name, i)
    before = (await client.get(f"/models/{name}")).json()
    asked = {key: value for key, value in request(name, 40).items() if key != "model"}
    answer = await post(client, f"/models/{name}/explain", **asked)
    assert (await client.get(f"/models/{name}")).json() == before
    assert (answer["rounds_seen"], answer["features"], answer["base_rates"]) == (40, [], None)
    sums = {each["id"]: sum(one["contribution"] for one in each["features"]) for each in answer["actions"]}
    assert list(answer["scores"]) == list(sums) == [action["id"] for action in asked["actions"]]
    assert answer["scores"] == pytest.approx(sums)
    assert len(set(sums.values())) > 1
    for each in answer["actions"]:
        intercepts = [one["value"] for one in each["features"] if one["name"] == "intercept"]
        assert len(intercepts) == (actions["features"].get("intercept", True))
        assert any(one["contribution"] for one in each["features"] if one["name"] != "intercept")
    predicted = await post(client, "/predict", **request(name, 40, include_distribution=True))
    assert answer["distribution"] == predicted["distribution"]
    best = max(answer["scores"], key=answer["scores"].get)
    assert answer["distribution"][best] == max(answer["distribution"].values())
    if "interactions" not in actions and algorithm == "fastcb":  # the product with the user's taste says why
        asked = {"context": {"likes": "red"}, "actions": [item(colour, colour=colour) for colour in COLOURS]}
        answer = await post(client, f"/models/{name}/explain", **asked)
        parts = [one for each in answer["actions"] for one in each["features"] if "*" in one["name"]]
        assert max(parts, key=lambda one: one["contribution"])["name"] == "likes=red*colour=red"
        assert max(answer["scores"], key=answer["scores"].get) == "red"


@pytest.mark.parametrize("features", [{}, {"tags": []}, {"colour": None}], ids=str)
async def test_actions_without_features_are_explained(
    client: httpx2.AsyncClient, name: str, features: dict[str, Any]
) -> None:
    await post(client, "/models", **definition(name, actions={"features": NAMED | {"intercept": False}}))
    asked = {"context": {"likes": "red"}, "actions": [{"id": "a", "features": features}, item("b", colour="red")]}
    answer = await post(client, f"/models/{name}/explain", **asked)
    predicted = await post(client, "/predict", model=name, include_distribution=True, **asked)
    assert answer["distribution"] == predicted["distribution"]
    assert [len(each["features"]) > 0 for each in answer["actions"]] == [False, True]


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"context": {"x": 1}}, "missing-field", "actions"),
    ({"context": {"x": 1}, "actions": []}, "no-actions", "actions"),
    ({"context": {"x": 1}, "actions": [FEW[0], FEW[0]]}, "duplicate-actions", "actions.1.id"),
    ({"context": {}, "actions": [{"id": "a", "features": [1.0]}]}, "wrong-context-length", "actions.0.features"),
    ({"context": [1.0], "actions": FEW}, "wrong-context-length", "context"),
    ({"context": {"x": 1}, "actions": FEW, "top": 2}, "unknown-field", "top"),
]


async def test_bad_and_too_large_requests_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    """An answer lists at most 50,000 features; a model with labels refuses actions."""
    await post(client, "/models", **definition(name))
    context, many = {f"c{i}": i for i in range(10)}, [item(f"i{i}", size=i) for i in range(5000)]
    for body, slug, field in (*BAD, ({"context": context, "actions": many}, "batch-too-large", "actions")):
        problem = await post(client, f"/models/{name}/explain", 422, **body)
        assert (slug_of(problem), problem["field"]) == (slug, field)
    few_features = [{"id": f"i{i}", "features": dict.fromkeys("abcde", 1)} for i in range(8400)]
    problem = await post(client, f"/models/{name}/explain", 422, context={}, actions=few_features)
    assert problem["detail"].replace(",", "").startswith("actions: got 50400 features")  # one intercept of each action
    answer = await post(client, f"/models/{name}/explain", context=context, actions=many[:400])
    assert len(answer["actions"]) == 400
    await post(client, "/models", name=f"{name}.labels", labels=["a", "b"], features=NAMED)
    problem = await post(client, f"/models/{name}.labels/explain", 422, context={"x": 1}, actions=FEW)
    assert (slug_of(problem), problem["field"]) == ("actions-not-allowed", "actions")
    assert (await post(client, f"/models/{name}.labels/explain", context={"x": 1}))["actions"] is None
