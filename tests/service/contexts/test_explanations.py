"""The laws of `POST /models/{name}/explain`: the vector, the contributions to each score, and the distribution."""

from typing import Any

import httpx2
import numpy as np
import pytest

from learners.answers import answer_kind
from learners.registry import ALL_LEARNERS
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import bits, post, slug_of, true_state

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
    numbers: list[float] = rng.uniform(-1.0, 1.0, 3).tolist()
    if kind == "dense":
        return numbers
    if kind == "sparse":
        return {"indices": rng.permutation(30)[:3].tolist(), "values": numbers}
    return {"user": {"age": numbers[0], "id": f"u{rng.integers(3)}"}, "item": {"price": numbers[1]}, "tags": ["x"]}


async def teach(client: httpx2.AsyncClient, name: str, algorithm: str, kind: str, rounds: int = 30) -> None:
    rng, answer = np.random.default_rng(1), answer_kind(ALL_LEARNERS[algorithm])
    truth: dict[str, Any] = {"true_label": "b"}
    if answer in ("label-set", "ranking"):
        truth = {"true_labels": LABELS}
    contexts = [context_of(kind, rng) for _ in range(rounds)]
    made = (await post(client, "/predict/batch", model=name, contexts=contexts))["predictions"]
    feedback = [{"prediction_id": each["prediction_id"]} | truth for each in made]
    await post(client, "/feedback/batch", feedback=feedback)


CASES = [(algorithm, [*FEATURES][i % 3]) for i, algorithm in enumerate(sorted(ALL_LEARNERS))]
CASES += [("fastcb", kind) for kind in FEATURES if ("fastcb", kind) not in CASES]


@pytest.mark.parametrize(("algorithm", "kind"), CASES)
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


async def test_named_features_show_their_slots(client: httpx2.AsyncClient, name: str) -> None:
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
    await post(client, "/models", name=name, labels=LABELS, features=FEATURES["dense"])
    await teach(client, name, "fastcb", "dense")
    changed = await client.patch(f"/models/{name}", json={"labels": {"retire": ["a"]}}, headers={"If-Match": "*"})
    assert changed.status_code == 200
    answer = (await client.post(f"/models/{name}/explain", json={"context": [0.1, 0.2, 0.3]})).json()
    for found in (answer["scores"], answer["distribution"], *[each["contributions"] for each in answer["features"]]):
        assert list(found) == ["b", "c"]
    assert sum(answer["distribution"].values()) == pytest.approx(1.0)


async def test_bad_and_too_large_requests_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    await post(client, "/models", name=name, labels=LABELS, features=FEATURES["dense"])
    for body, slug, field in (
        ({"context": [1.0]}, "wrong-context-length", "context"),
        ({}, "missing-field", "context"),
        ({"context": [1.0, 2.0, 3.0], "label": "a"}, "unknown-field", "label"),
        ({"context": "x"}, "wrong-type", "context"),
    ):
        problem = await post(client, f"/models/{name}/explain", 422, **body)
        assert (slug_of(problem), problem["field"]) == (slug, field)
    missing = await post(client, "/models/nobody/explain", 404, context=[1.0, 2.0, 3.0])
    assert slug_of(missing) == "model-not-found"
    labels, few = [f"l{i}" for i in range(3000)], {"algorithm": "fastcb", "max_features": 100}
    await post(client, "/models", name=f"{name}.large", labels=labels, features={"kind": "named"}, learner=few)
    context = {f"s{j}": {f"n{i}": i for i in range(900)} for j in range(4)}
    problem = await post(client, f"/models/{name}.large/explain", 422, context=context)
    assert (slug_of(problem), problem["field"]) == ("batch-too-large", "context")
