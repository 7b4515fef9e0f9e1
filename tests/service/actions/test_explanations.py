"""The laws of explanations of actions: the vector of each, and what each of its features adds to its score."""

from typing import Any

import httpx2
import pytest

from tests.service.actions.catalogue import NAMED, definition, item
from tests.service.actions.test_workers import COLOURS, play, posted, request

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
    await posted(client, "/models", definition(name, learner=algorithm, features=features, actions=actions))
    for i in range(40):
        await play(client, name, i)
    before = (await client.get(f"/models/{name}")).json()
    asked = {key: value for key, value in request(name, 40).items() if key != "model"}
    answer = await posted(client, f"/models/{name}/explain", asked)
    assert (await client.get(f"/models/{name}")).json() == before
    assert (answer["rounds_seen"], answer["features"]) == (40, [])
    sums = {each["id"]: sum(one["contribution"] for one in each["features"]) for each in answer["actions"]}
    assert list(answer["scores"]) == list(sums) == [action["id"] for action in asked["actions"]]
    assert answer["scores"] == pytest.approx(sums)
    assert len(set(sums.values())) > 1
    for each in answer["actions"]:
        intercepts = [one["value"] for one in each["features"] if one["name"] == "intercept"]
        assert len(intercepts) == (actions["features"].get("intercept", True))
        assert any(one["contribution"] for one in each["features"] if one["name"] != "intercept")
    predicted = await posted(client, "/predict", request(name, 40, include_distribution=True))
    assert answer["distribution"] == predicted["distribution"]
    best = max(answer["scores"], key=answer["scores"].get)
    assert answer["distribution"][best] == max(answer["distribution"].values())


async def test_the_liked_colour_adds_most(client: httpx2.AsyncClient, name: str) -> None:
    """After rounds in which users took the colour that they like, its product with the user's taste says so."""
    await posted(client, "/models", definition(name))
    for i in range(60):
        await play(client, name, i)
    asked = {"context": {"likes": "red"}, "actions": [item(colour, colour=colour) for colour in COLOURS]}
    answer = await posted(client, f"/models/{name}/explain", asked)
    added = {
        one["name"]: one["contribution"] for each in answer["actions"] for one in each["features"] if "*" in one["name"]
    }
    assert max(added, key=added.__getitem__) == "likes=red*colour=red"
    assert max(answer["scores"], key=answer["scores"].get) == "red"


@pytest.mark.parametrize(
    ("body", "slug", "field"),
    [
        ({"context": {"x": 1}}, "missing-field", "actions"),
        ({"context": {"x": 1}, "actions": []}, "no-actions", "actions"),
        ({"context": {"x": 1}, "actions": [FEW[0], FEW[0]]}, "duplicate-actions", "actions.1.id"),
        ({"context": {}, "actions": [{"id": "a", "features": [1.0]}]}, "wrong-context-length", "actions.0.features"),
        ({"context": [1.0], "actions": FEW}, "wrong-context-length", "context"),
        ({"context": {"x": 1}, "actions": FEW, "top": 2}, "unknown-field", "top"),
    ],
)  # fmt: skip
async def test_a_bad_request_is_refused(
    client: httpx2.AsyncClient, name: str, body: dict[str, Any], slug: str, field: str
) -> None:
    """The problem names the field."""
    await posted(client, "/models", definition(name))
    response = await client.post(f"/models/{name}/explain", json=body)
    problem = response.json()
    assert (response.status_code, problem["type"], problem["field"]) == (422, f"urn:wager:problem:{slug}", field)


async def test_labels_are_explained_without_actions(client: httpx2.AsyncClient, name: str) -> None:
    """A model with labels refuses actions."""
    await posted(client, "/models", {"name": name, "labels": ["a", "b"], "features": NAMED})
    response = await client.post(f"/models/{name}/explain", json={"context": {"x": 1}, "actions": FEW})
    assert (response.json()["type"], response.json()["field"]) == ("urn:wager:problem:actions-not-allowed", "actions")
    answer = await posted(client, f"/models/{name}/explain", {"context": {"x": 1}})
    assert answer["actions"] is None


async def test_an_explanation_that_is_too_large_is_refused(client: httpx2.AsyncClient, name: str) -> None:
    """An answer lists at most 50,000 features."""
    await posted(client, "/models", definition(name))
    context = {f"c{i}": i for i in range(10)}
    many = [item(f"i{i}", size=i) for i in range(5000)]
    problem = (await client.post(f"/models/{name}/explain", json={"context": context, "actions": many})).json()
    assert (problem["type"], problem["field"]) == ("urn:wager:problem:batch-too-large", "actions")
    answer = await posted(client, f"/models/{name}/explain", {"context": context, "actions": many[:4000]})
    assert len(answer["actions"]) == 4000
