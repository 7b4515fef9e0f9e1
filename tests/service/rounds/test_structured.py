"""Models that answer label sets, rankings and levels: exact propensities, truths and logs."""

import json
from typing import Any

import httpx2
import numpy as np
import pytest

from learners.base import Rounds
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import learner_of, prepared, some_contexts, true_state

LABELS = ["red", "green", "blue", "none"]
CHOICES: dict[str, dict[str, Any]] = {
    "set": {"algorithm": "fenchel-young-multilabel", "learning_rate": 1.0},
    "permutahedron": {"algorithm": "fenchel-young-ranking", "learning_rate": 1.0},
    "birkhoff": {"algorithm": "fenchel-young-ranking", "polytope": "birkhoff", "learning_rate": 0.5},
    "level": {"algorithm": "fenchel-young-ordinal", "learning_rate": 1.0},
}
EACH_CHOICE = pytest.mark.parametrize("choice", CHOICES)
SEVERAL = pytest.mark.parametrize("choice", ["set", "permutahedron", "birkhoff"])
X = [0.6, 0.8, 0.0]


async def create(client: httpx2.AsyncClient, name: str, choice: str, **fields: Any) -> httpx2.Response:
    """Create a model of four labels."""
    features = {"kind": "dense", "size": 3}
    body = {"name": name, "labels": LABELS, "features": features, "learner": CHOICES[choice]} | fields
    return await client.post("/models", json=body)


async def post(client: httpx2.AsyncClient, path: str, status: int = 200, **body: Any) -> Any:
    """Post a JSON object; check the status and return the answer's object."""
    response = await client.post(path, json=body)
    assert response.status_code == status, response.text
    return response.json()


def truth(choice: str, context: list[float]) -> dict[str, Any]:
    """Return the true feedback for a context."""
    scores = np.array([context[0], context[1], context[2], -0.2])
    if choice == "level":
        return {"true_label": LABELS[int(np.count_nonzero(np.array(context) > 0.0))]}
    if choice == "set":
        return {"true_labels": [LABELS[k] for k in np.flatnonzero(scores > 0.0)[::-1]]}
    return {"true_labels": [LABELS[k] for k in np.argsort(-scores)]}


async def teach(client: httpx2.AsyncClient, name: str, choice: str, n: int, seed: int = 1) -> None:
    """Play n rounds in batches of ten."""
    contexts = some_contexts(seed, n)
    for start in range(0, n, 10):
        part = contexts[start : start + 10]
        answers = (await post(client, "/predict/batch", model=name, contexts=part))["predictions"]
        pairs = zip(answers, part, strict=True)
        feedback = [{"prediction_id": answer["prediction_id"]} | truth(choice, context) for answer, context in pairs]
        results = (await post(client, "/feedback/batch", feedback=feedback))["results"]
        assert [result["status"] for result in results] == ["recorded"] * len(part)


async def log_of(client: httpx2.AsyncClient, name: str, **query: int) -> list[dict[str, Any]]:
    """Return the lines of a model's log."""
    response = await client.get(f"/models/{name}/rounds", params=query)
    return [json.loads(line) for line in response.text.splitlines()]


def as_answer(line: dict[str, Any], prefix: str) -> Any:
    """Return a line's answer or truth in the learners' encoding."""
    if line[f"{prefix}label"] is not None:
        return LABELS.index(line[f"{prefix}label"])
    return [LABELS.index(label) for label in line[f"{prefix}labels"]]


@EACH_CHOICE
async def test_a_replay_of_the_log_reproduces_propensities_and_state(
    client: httpx2.AsyncClient, store_url: str, name: str, choice: str
) -> None:
    """Replayed from its log, a model gives each answer its logged probability and reaches the same state."""
    await create(client, name, choice)
    await teach(client, name, choice, 60)
    model = (await client.get(f"/models/{name}")).json()
    learner: Any = learner_of(model)
    state, K = learner.init(), len(LABELS)
    states = [[array.copy() for array in state]]

    def rows(answer: Any) -> Any:
        return np.array([np.isin(np.arange(K), answer).astype(np.int64) if choice == "set" else answer])

    lines = await log_of(client, name)
    for line in lines:
        context = prepared(model, line["context"])
        before = learner.state_type(*states[line["rounds_seen"]])
        decisions = learner.decide(before, context)
        served, right = rows(as_answer(line, "")), rows(as_answer(line, "true_"))
        chance = learner.space.probability(decisions.evidence[0], learner.vertices(served)[0])
        assert line["propensity"] == pytest.approx(chance, rel=1e-9)
        assert line["correct"] == np.array_equal(served, right)
        ones = np.ones(1)
        one = Rounds.of_bits(context, served, ones, ones > 0, right, decisions.evidence, 0.0 * ones)
        state = learner.fold(state, one)
        states.append([array.copy() for array in state])
    assert any(line["propensity"] < 0.99 for line in lines)
    store = RedisStore(store_url, 10.0)
    stored = await true_state(store, name)
    await store.close()
    for mine, theirs in zip(state, stored, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@EACH_CHOICE
async def test_accuracy_improves_over_http(client: httpx2.AsyncClient, name: str, choice: str) -> None:
    """Later answers are exactly right more often than the first ones."""
    await create(client, name, choice)
    await teach(client, name, choice, 300)
    correct = [line["correct"] for line in await log_of(client, name)]
    assert sum(correct[-100:]) > sum(correct[:20]) / 20 * 100 + 10


@SEVERAL
async def test_correct_true_implies_the_truth_and_correct_false_does_not(
    client: httpx2.AsyncClient, name: str, choice: str
) -> None:
    """`correct: true` records the answer as the truth; `correct: false` needs `true_labels`, before and after."""
    await create(client, name, choice)
    answer = await post(client, "/predict", model=name, context=X)
    feedback = {"prediction_id": answer["prediction_id"]}
    problem = await post(client, "/feedback", 422, **feedback, correct=False)
    assert (problem["type"], problem["field"]) == ("urn:wager:problem:label-needed", "true_labels")
    assert (await post(client, "/feedback", **feedback, correct=True))["status"] == "recorded"
    again = await post(client, "/feedback", **feedback, true_labels=answer["labels"])
    assert (again["status"], again["correct"]) == ("duplicate", True)
    others: list[str] = [label for label in LABELS if label not in answer["labels"]]
    other = others if choice == "set" else answer["labels"][::-1]
    assert (await post(client, "/feedback", 409, **feedback, true_labels=other))["type"].endswith("feedback-conflict")
    assert (await post(client, "/feedback", 422, **feedback, true_labels=other, correct=True))["field"] == "correct"
    (line,) = await log_of(client, name)
    assert line["labels"] == line["true_labels"] == answer["labels"]
    assert (line["label"], line["true_label"], line["propensity"]) == (None, None, answer["propensity"])


@SEVERAL
async def test_a_repeated_prediction_is_the_stored_one(client: httpx2.AsyncClient, name: str, choice: str) -> None:
    """The same id returns the same answer, before and after its feedback."""
    await create(client, name, choice)
    await teach(client, name, choice, 40)
    ask: dict[str, Any] = {"model": name, "context": X, "prediction_id": "mine"}
    first = await post(client, "/predict", **ask)
    assert [await post(client, "/predict", **ask) for _ in range(5)] == [first] * 5
    await post(client, "/feedback", prediction_id=f"{name}:mine", correct=True)
    assert await post(client, "/predict", **ask) == first


async def test_order_matters_only_in_rankings(client: httpx2.AsyncClient, name: str) -> None:
    """A set in another order is the same feedback; a ranking in another order is another ranking."""
    for choice, status in (("set", 200), ("permutahedron", 409)):
        own = f"{name}.{choice}"
        await create(client, own, choice)
        answer = await post(client, "/predict", model=own, context=X)
        feedback = {"prediction_id": answer["prediction_id"]}
        await post(client, "/feedback", **feedback, true_labels=LABELS)
        await post(client, "/feedback", status, **feedback, true_labels=LABELS[::-1])


async def test_an_improbable_answer_has_the_least_normal_propensity(client: httpx2.AsyncClient, name: str) -> None:
    """A set less probable than the least normal float64 is answered and logged with that number."""
    labels = [f"label {k}" for k in range(1500)]
    rate = {"algorithm": "fenchel-young-multilabel", "learning_rate": 0.1, "regularization": 0.2}
    assert (await create(client, name, "set", labels=labels, learner=rate)).status_code == 201
    answer = await post(client, "/predict", model=name, context=X)
    assert answer["propensity"] == 1.0  # untrained: always the empty set
    await post(client, "/feedback", prediction_id=answer["prediction_id"], true_labels=labels)
    answer = await post(client, "/predict", model=name, context=X)
    assert answer["propensity"] == 2.0**-1022
    assert 600 < len(answer["labels"]) < 900
    await post(client, "/feedback", prediction_id=answer["prediction_id"], true_labels=[])
    assert [line["propensity"] for line in await log_of(client, name)] == [1.0, 2.0**-1022]
    assert (await post(client, "/predict", model=name, context=X))["rounds_seen"] == 2


REFUSED_MODELS: list[tuple[str, int, dict[str, Any], str, str]] = [
    (
        "regularizer",
        4,
        {"algorithm": "fenchel-young-multilabel", "regularization": 1.0},
        "regularization",
        "at least 2.001",
    ),
    ("levels", 5, {"algorithm": "fenchel-young-ordinal", "regularization": 1.0}, "regularization", "least 2.001"),
    ("places", 21, {"algorithm": "fenchel-young-ranking", "polytope": "birkhoff"}, "polytope", "permutahedron"),
    ("items", 1001, {"algorithm": "fenchel-young-ranking"}, "polytope", "fenchel-young-multilabel"),
]


@pytest.mark.parametrize(("n_labels", "learner", "field", "instead"), [row[1:] for row in REFUSED_MODELS])
async def test_impossible_models_are_refused_at_creation(
    client: httpx2.AsyncClient, name: str, n_labels: int, learner: dict[str, Any], field: str, instead: str
) -> None:
    """A weak regularizer or too many labels are refused with the reason and an alternative."""
    labels = [str(k) for k in range(n_labels)]
    response = await create(client, name, "set", labels=labels, learner=learner)
    problem = response.json()
    assert (response.status_code, problem["field"]) == (422, f"learner.{field}")
    assert instead in problem["detail"]
    assert (await client.get(f"/models/{name}")).status_code == 404
