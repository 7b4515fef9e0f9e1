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
    assert (answer["base_rates"] is not None) == (algorithm == "fastcb")
    ranking = answer_kind(ALL_LEARNERS[algorithm]) == "ranking"
    body = {"model": name, "context": context, "include_distribution": not ranking}
    assert answer["distribution"] == (await post(client, "/predict", **body))["distribution"]


async def test_a_zero_of_a_dense_context_has_its_contribution(client: httpx2.AsyncClient, name: str) -> None:
    """The default learner takes it relative to the mean, as any other number, so it adds to the scores."""
    await post(client, "/models", name=name, labels=LABELS, features={"kind": "dense", "size": 2})
    contexts = [[float(i % 2), 50.0 + i % 7] for i in range(60)]
    made = (await post(client, "/predict/batch", model=name, contexts=contexts))["predictions"]
    right = zip(made, contexts, strict=True)
    feedback = [{"prediction_id": one["prediction_id"], "correct": (one["label"] == "a") == x} for one, (x, _) in right]
    await post(client, "/feedback/batch", feedback=feedback)
    answer = await post(client, f"/models/{name}/explain", context=[0.0, 53.0])
    zero, *others = (each["contributions"] for each in answer["features"])
    assert zero["a"] < 0.0
    sums = {label: zero[label] + sum(each[label] for each in others) for label in LABELS}
    assert answer["scores"] == pytest.approx(sums)


async def test_base_rates_count_the_rounds_of_each_label(client: httpx2.AsyncClient, name: str) -> None:
    """They are (rewards + 1/2)/(rounds + 1), apart from the features, and do not depend on the context."""
    features = {"kind": "dense", "size": 2}
    await post(client, "/models", name=name, labels=LABELS, features=features, learner="fastcb")
    rewards: dict[str, list[float]] = {label: [] for label in LABELS}
    for i in range(40):
        made = await post(client, "/predict", model=name, context=[i % 3, i % 5])
        rewards[made["label"]].append((i % 4) / 4)
        await post(client, "/feedback", prediction_id=made["prediction_id"], reward=(i % 4) / 4)
    expected = {label: (sum(each) + 0.5) / (len(each) + 1) for label, each in rewards.items()}
    for context in ([0.0, 0.0], [3.0, -1.0]):
        found = (await post(client, f"/models/{name}/explain", context=context))["base_rates"]
        assert found == {"rates": pytest.approx(expected), "weight": 0.0}  # two features do not overlap much


async def test_with_a_half_life_old_rounds_weigh_less_in_base_rates(client: httpx2.AsyncClient, name: str) -> None:
    learner = {"algorithm": "fastcb", "half_life_rounds": 10.0}
    await post(client, "/models", name=name, labels=LABELS, learner=learner)
    sums, rounds = dict.fromkeys(LABELS, 0.0), dict.fromkeys(LABELS, 0.0)
    for i in range(40):
        made = await post(client, "/predict", model=name)
        await post(client, "/feedback", prediction_id=made["prediction_id"], correct=i < 20)
        weight = 2.0 ** (-(39 - i) / 10.0)
        sums[made["label"]] += weight * (i < 20)
        rounds[made["label"]] += weight
    found = (await post(client, f"/models/{name}/explain"))["base_rates"]
    assert found["rates"] == pytest.approx({label: (sums[label] + 0.5) / (rounds[label] + 1.0) for label in LABELS})


async def test_base_rates_weigh_more_where_contexts_overlap(client: httpx2.AsyncClient, name: str) -> None:
    """Rates are an expert for long vectors; if features are noise, its weight grows."""
    await post(client, "/models", name=name, labels=LABELS, features={"kind": "dense", "size": 200})
    contexts = np.random.default_rng(3).normal(size=(60, 200)).tolist()
    made = (await post(client, "/predict/batch", model=name, contexts=contexts))["predictions"]
    feedback = [{"prediction_id": each["prediction_id"], "correct": each["label"] == "b"} for each in made]
    await post(client, "/feedback/batch", feedback=feedback)
    found = (await post(client, f"/models/{name}/explain", context=contexts[0]))["base_rates"]
    assert max(found["rates"], key=found["rates"].get) == "b"
    assert 0.2 < found["weight"] <= 1.0


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
    contributions = [each["contributions"] for each in answer["features"]]
    for found in (answer["scores"], answer["distribution"], answer["base_rates"]["rates"], *contributions):
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
