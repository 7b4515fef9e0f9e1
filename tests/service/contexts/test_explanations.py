"""The laws of `POST /models/{name}/explain`: the vector, the contributions to each score, and the distribution."""

from typing import Any

import httpx2
import numpy as np
import pytest

from learners.answers import answer_kind
from learners.registry import ALL_LEARNERS
from service.store.redis.redis_store import RedisStore
from tests.service.contexts.test_as_sent import post
from tests.service.sample_models import bits, true_state

LABELS = ["a", "b", "c"]
WITH_SCORES = {
    "fastcb", "squarecb", "gaptron", "soba", "soba-diagonal", "soba-low-rank", "soba-newton", "newtron", "pnewtron",
    "banditron", "perceptron", "bandit-perceptrons", "epsilon-greedy-ridge", "fenchel-young",
}  # fmt: skip
"""The learners whose scores are sums over features."""

FEATURES: dict[str, dict[str, Any]] = {
    "dense": {"kind": "dense", "size": 3},
    "sparse": {"kind": "sparse", "size": 30},
    "named": {"kind": "named", "size": 16, "interactions": [["user", "item"]]},
}


def context_of(kind: str, rng: np.random.Generator) -> Any:
    """Return a random context."""
    numbers: list[float] = rng.uniform(-1.0, 1.0, 3).tolist()
    if kind == "dense":
        return numbers
    if kind == "sparse":
        return {"indices": rng.permutation(30)[:3].tolist(), "values": numbers}
    return {"user": {"age": numbers[0], "id": f"u{rng.integers(3)}"}, "item": {"price": numbers[1]}, "tags": ["x"]}


async def teach(client: httpx2.AsyncClient, name: str, algorithm: str, kind: str, rounds: int = 30) -> None:
    """Play rounds in which the second label is right."""
    rng, answer = np.random.default_rng(1), answer_kind(ALL_LEARNERS[algorithm])
    truth: dict[str, Any] = {"true_label": "b"}
    if answer in ("label-set", "ranking"):
        truth = {"true_labels": LABELS}
    contexts = [context_of(kind, rng) for _ in range(rounds)]
    made = (await post(client, "/predict/batch", model=name, contexts=contexts))["predictions"]
    feedback = [{"prediction_id": each["prediction_id"]} | truth for each in made]
    await post(client, "/feedback/batch", feedback=feedback)


@pytest.mark.parametrize("kind", FEATURES)
@pytest.mark.parametrize("algorithm", sorted(ALL_LEARNERS))
async def test_an_explanation_adds_up(
    client: httpx2.AsyncClient, store: RedisStore, name: str, algorithm: str, kind: str
) -> None:
    """Contributions sum to the scores, the distribution is that of a prediction, and nothing is stored."""
    features = FEATURES[kind] | ({"norm": "none"} if algorithm == "adahedge" else {})
    await post(client, "/models", name=name, labels=LABELS, features=features, learner=algorithm)
    await teach(client, name, algorithm, kind)
    before = (await client.get(f"/models/{name}")).json(), bits(await true_state(store, name))
    context = context_of(kind, np.random.default_rng(9))
    answer = await post(client, f"/models/{name}/explain", context=context)
    assert ((await client.get(f"/models/{name}")).json(), bits(await true_state(store, name))) == before
    assert answer["rounds_seen"] == 30
    names = [each["name"] for each in answer["features"]]
    assert (names[-1] == "intercept") == (algorithm != "adahedge")
    if algorithm in WITH_SCORES:
        sums = {label: sum(each["contributions"][label] for each in answer["features"]) for label in LABELS}
        assert answer["scores"] == pytest.approx(sums)
        assert any(answer["scores"].values())
    else:
        assert [answer["scores"], *(each["contributions"] for each in answer["features"])] == [None] * (len(names) + 1)
    ranking = answer_kind(ALL_LEARNERS[algorithm]) == "ranking"
    body = {"model": name, "context": context, "include_distribution": not ranking}
    assert answer["distribution"] == (await post(client, "/predict", **body))["distribution"]


async def test_the_best_score_is_the_likeliest_label(client: httpx2.AsyncClient, name: str) -> None:
    """After rounds in which one label was right, its score and its probability are the largest."""
    await post(client, "/models", name=name, labels=LABELS, features=FEATURES["named"])
    for _ in range(10):
        await teach(client, name, "fastcb", "named")
    answer = await post(client, f"/models/{name}/explain", context=context_of("named", np.random.default_rng(2)))
    assert max(answer["scores"], key=answer["scores"].__getitem__) == "b"
    assert max(answer["distribution"], key=answer["distribution"].__getitem__) == "b"


async def test_named_features_show_their_slots(client: httpx2.AsyncClient, name: str) -> None:
    """Each name has its index, its sign and its value after scaling; features with one index share its contribution."""
    features = {"kind": "named", "size": 1, "norm": "scale", "interactions": [["n", "s"]]}
    await post(client, "/models", name=name, labels=LABELS, features=features, learner="perceptron")
    answer = await post(client, f"/models/{name}/explain", context={"n": 4.0, "s": "x", "none": None})
    found = {each["name"]: each for each in answer["features"]}
    assert list(found) == ["n", "s=x", "n*s=x", "intercept"]
    assert [each["index"] for each in answer["features"]] == [0, 0, 0, 1]
    assert all(each["sign"] in (1, -1) for each in answer["features"])
    total = sum(found[each]["value"] for each in ("n", "s=x", "n*s=x"))
    assert abs(total) <= 0.75**0.5 + 1e-12
    assert found["n"]["value"] / found["n*s=x"]["value"] == found["n"]["sign"] * found["n*s=x"]["sign"]
    assert found["intercept"]["value"] == 0.5


async def test_retired_labels_are_not_explained(client: httpx2.AsyncClient, name: str) -> None:
    """The labels are those of a prediction."""
    await post(client, "/models", name=name, labels=LABELS, features=FEATURES["dense"])
    await teach(client, name, "fastcb", "dense")
    changed = await client.patch(f"/models/{name}", json={"labels": {"retire": ["a"]}}, headers={"If-Match": "*"})
    assert changed.status_code == 200
    answer = (await client.post(f"/models/{name}/explain", json={"context": [0.1, 0.2, 0.3]})).json()
    for found in (answer["scores"], answer["distribution"], *[each["contributions"] for each in answer["features"]]):
        assert list(found) == ["b", "c"]
    assert sum(answer["distribution"].values()) == pytest.approx(1.0)


async def test_an_explanation_that_is_too_large_is_refused(client: httpx2.AsyncClient, name: str) -> None:
    """An answer lists at most as many numbers as that of a batch."""
    labels, few = [f"l{i}" for i in range(3000)], {"algorithm": "fastcb", "max_features": 100}
    await post(client, "/models", name=name, labels=labels, features={"kind": "named"}, learner=few)
    context = {f"s{j}": {f"n{i}": i for i in range(900)} for j in range(4)}
    problem = (await client.post(f"/models/{name}/explain", json={"context": context})).json()
    assert (problem["type"], problem["field"]) == ("urn:wager:problem:batch-too-large", "context")


@pytest.mark.parametrize(
    ("body", "slug", "field"),
    [
        ({"context": [1.0]}, "wrong-context-length", "context"),
        ({}, "missing-field", "context"),
        ({"context": [1.0, 2.0, 3.0], "label": "a"}, "unknown-field", "label"),
        ({"context": "x"}, "wrong-type", "context"),
    ],
)
async def test_a_bad_request_is_refused(
    client: httpx2.AsyncClient, name: str, body: dict[str, Any], slug: str, field: str
) -> None:
    """The problem names the field."""
    await post(client, "/models", name=name, labels=LABELS, features=FEATURES["dense"])
    problem = (await client.post(f"/models/{name}/explain", json=body)).json()
    assert (problem["type"], problem["field"]) == (f"urn:wager:problem:{slug}", field)
    missing = (await client.post("/models/nobody/explain", json=body | {"context": [1.0, 2.0, 3.0]})).json()
    assert missing["type"] in ("urn:wager:problem:model-not-found", "urn:wager:problem:unknown-field")
