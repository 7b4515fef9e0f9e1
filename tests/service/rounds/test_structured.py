"""Models that answer label sets, rankings and levels: exact propensities, truths and logs."""

import json
from typing import Any

import httpx2
import numpy as np
import pytest

from learners.base import Rounds
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import LABELS, learner_of, post, prepared, slug_of, some_contexts, true_state

SETS = ["1100", "0110", "0011", "1001", "1111", "0000"]
CHOICES: dict[str, dict[str, Any]] = {
    "set": {"algorithm": "fenchel-young-multilabel", "learning_rate": 1.0},
    "slate": {"algorithm": "fenchel-young-multilabel", "set_size": 2, "learning_rate": 0.3},
    "listed": {"algorithm": "fenchel-young-multilabel", "sets": SETS, "learning_rate": 0.5},
    "crf": {"algorithm": "fenchel-young-multilabel", "sets": SETS, "loss": "crf", "learning_rate": 0.5},
    "permutahedron": {"algorithm": "fenchel-young-ranking", "learning_rate": 1.0},
    "birkhoff": {"algorithm": "fenchel-young-ranking", "polytope": "birkhoff", "learning_rate": 0.5},
    "level": {"algorithm": "fenchel-young-ordinal", "learning_rate": 1.0},
}
OF_SETS = ("set", "slate", "listed", "crf")
SEVERAL = pytest.mark.parametrize("choice", [*OF_SETS, "permutahedron", "birkhoff"])
X = [0.6, 0.8, 0.0]


async def create(client: httpx2.AsyncClient, name: str, choice: str, status: int = 201, **fields: Any) -> Any:
    body = {"name": name, "labels": LABELS, "features": {"kind": "dense", "size": 3}, "learner": CHOICES[choice]}
    return await post(client, "/models", status, **body | fields)


def truth(choice: str, context: list[float]) -> dict[str, Any]:
    scores = np.array([*context, -0.2])
    if choice == "level":
        return {"true_label": LABELS[int(np.count_nonzero(np.array(context) > 0.0))]}
    if choice == "set":
        return {"true_labels": [LABELS[k] for k in np.flatnonzero(scores > 0.0)[::-1]]}
    if choice == "slate":
        return {"true_labels": [LABELS[k] for k in np.argsort(scores)[:2]]}
    if choice in OF_SETS:
        best = max(SETS, key=lambda digits: np.array(list(map(int, digits))) @ scores)
        return {"true_labels": [label for label, digit in zip(LABELS, best, strict=True) if digit == "1"]}
    return {"true_labels": [LABELS[k] for k in np.argsort(-scores)]}


async def teach(client: httpx2.AsyncClient, name: str, choice: str, n: int) -> None:
    """Play n rounds in batches of ten."""
    contexts = some_contexts(1, n)
    for start in range(0, n, 10):
        part = contexts[start : start + 10]
        answers = (await post(client, "/predict/batch", model=name, contexts=part))["predictions"]
        pairs = zip(answers, part, strict=True)
        feedback = [{"prediction_id": answer["prediction_id"]} | truth(choice, context) for answer, context in pairs]
        results = (await post(client, "/feedback/batch", feedback=feedback))["results"]
        assert [result["status"] for result in results] == ["recorded"] * len(part)


async def log_of(client: httpx2.AsyncClient, name: str) -> list[dict[str, Any]]:
    return list(map(json.loads, (await client.get(f"/models/{name}/rounds")).text.splitlines()))


def as_answer(line: dict[str, Any], prefix: str) -> Any:
    """Return a line's answer or truth in the learners' encoding."""
    if line[f"{prefix}label"] is not None:
        return LABELS.index(line[f"{prefix}label"])
    return [LABELS.index(label) for label in line[f"{prefix}labels"]]


@pytest.mark.parametrize("choice", CHOICES)
async def test_a_replay_of_the_log_reproduces_propensities_and_state(
    client: httpx2.AsyncClient, store: RedisStore, name: str, choice: str
) -> None:
    await create(client, name, choice)
    await teach(client, name, choice, 60)
    model = (await client.get(f"/models/{name}")).json()
    learner: Any = learner_of(model)
    state, K = learner.init(), len(LABELS)
    states = [[array.copy() for array in state]]

    def rows(answer: Any) -> Any:
        return np.array([np.isin(np.arange(K), answer).astype(np.int64) if choice in OF_SETS else answer])

    lines = await log_of(client, name)
    for line in lines:
        context = prepared(model, line["context"])
        decisions = learner.decide(learner.state_type(*states[line["rounds_seen"]]), context)
        served, right = rows(as_answer(line, "")), rows(as_answer(line, "true_"))
        chance = learner.space.probability(decisions.evidence[0], learner.vertices(served)[0])
        assert line["propensity"] == pytest.approx(chance, rel=1e-9)
        assert line["correct"] == np.array_equal(served, right)
        ones = np.ones(1)
        one = Rounds.of_bits(context, served, ones, ones > 0, right, decisions.evidence, 0.0 * ones)
        state = learner.fold(state, one)
        states.append([array.copy() for array in state])
    assert any(line["propensity"] < 0.99 for line in lines)
    for mine, theirs in zip(state, await true_state(store, name), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)


@SEVERAL
async def test_correct_true_implies_the_truth_and_correct_false_does_not(
    client: httpx2.AsyncClient, name: str, choice: str
) -> None:
    """`correct: false` needs `true_labels`; the order matters in rankings; a repeated prediction is the stored one."""
    await create(client, name, choice)
    await teach(client, name, choice, 40)
    ask: dict[str, Any] = {"model": name, "context": X, "prediction_id": "mine"}
    answer = await post(client, "/predict", **ask)
    assert [await post(client, "/predict", **ask) for _ in range(3)] == [answer] * 3
    given = {"prediction_id": answer["prediction_id"]}
    problem = await post(client, "/feedback", 422, **given, correct=False)
    assert (slug_of(problem), problem["field"]) == ("label-needed", "true_labels")
    assert (await post(client, "/feedback", **given, correct=True))["status"] == "recorded"
    assert await post(client, "/predict", **ask) == answer
    again = await post(client, "/feedback", **given, true_labels=answer["labels"])
    assert (again["status"], again["correct"]) == ("duplicate", True)
    backwards = answer["labels"][::-1]
    if choice in OF_SETS:
        assert (await post(client, "/feedback", **given, true_labels=backwards))["status"] == "duplicate"
    other = [label for label in LABELS if label not in answer["labels"]] if choice in OF_SETS else backwards
    assert slug_of(await post(client, "/feedback", 409, **given, true_labels=other)) == "feedback-conflict"
    assert (await post(client, "/feedback", 422, **given, true_labels=other, correct=True))["field"] == "correct"
    line = (await log_of(client, name))[-1]
    assert line["labels"] == line["true_labels"] == answer["labels"]
    assert (line["label"], line["true_label"], line["propensity"]) == (None, None, answer["propensity"])


async def test_an_improbable_answer_has_the_least_normal_propensity(client: httpx2.AsyncClient, name: str) -> None:
    """A set less probable than the least normal float64 is answered and logged with that number."""
    labels = [f"label {k}" for k in range(1500)]
    rate = {"algorithm": "fenchel-young-multilabel", "learning_rate": 0.1, "regularization": 0.2}
    await create(client, name, "set", labels=labels, learner=rate)
    answer = await post(client, "/predict", model=name, context=X)
    assert answer["propensity"] == 1.0  # untrained: always the empty set
    await post(client, "/feedback", prediction_id=answer["prediction_id"], true_labels=labels)
    answer = await post(client, "/predict", model=name, context=X)
    assert (answer["propensity"], 600 < len(answer["labels"]) < 900) == (2.0**-1022, True)
    await post(client, "/feedback", prediction_id=answer["prediction_id"], true_labels=[])
    assert [line["propensity"] for line in await log_of(client, name)] == [1.0, 2.0**-1022]
    assert (await post(client, "/predict", model=name, context=X))["rounds_seen"] == 2


@pytest.mark.parametrize("choice", ["slate", "listed", "crf"])
async def test_answers_are_possible_and_impossible_truths_are_refused(
    client: httpx2.AsyncClient, name: str, choice: str
) -> None:
    """Every answer is a set of the model, and a truth that is none gets 422 and changes nothing."""
    await create(client, name, choice)
    await teach(client, name, choice, 20)
    contexts = some_contexts(3, 40)
    answers = (await post(client, "/predict/batch", model=name, contexts=contexts, include_distribution=True))[
        "predictions"
    ]
    for answer in answers:
        digits = "".join("1" if label in answer["labels"] else "0" for label in LABELS)
        assert digits.count("1") == 2 if choice == "slate" else digits in SETS
        assert all(answer["distribution"][label] > 0.0 for label in answer["labels"])
        if choice == "slate":
            assert sum(answer["distribution"].values()) == pytest.approx(2.0)
    explained = await post(client, f"/models/{name}/explain", context=contexts[0])
    assert explained["distribution"] == answers[0]["distribution"]
    given = {"prediction_id": answers[0]["prediction_id"]}
    problem = await post(client, "/feedback", 422, **given, true_labels=["red"])
    assert (slug_of(problem), problem["field"]) == ("wrong-truth", "true_labels")
    expected = "a set of 2 labels" if choice == "slate" else "one of the 6 sets of the learner"
    assert problem["detail"] == f'true_labels: got ["red"]; must be {expected}'
    assert len(await log_of(client, name)) == 20
    assert (await post(client, "/feedback", **given, true_labels=["red", "green"]))["status"] == "recorded"


async def test_the_largest_list_is_served(client: httpx2.AsyncClient, name: str) -> None:
    """10,000 sets of 14 labels are shown as they were sent, counted in lists, answered, learned from and copied."""
    sets = [format(i, "014b") for i in range(1, 10_001)]
    labels = [f"label {k}" for k in range(14)]
    for loss in ("sparsemap", "crf"):
        learner = {"algorithm": "fenchel-young-multilabel", "sets": sets, "loss": loss}
        made = await create(client, f"{name}-{loss}", "listed", labels=labels, learner=learner)
        assert made["learner"]["sets"] == sets
        answer = await post(client, "/predict", model=f"{name}-{loss}", context=X)
        assert 0.0 < answer["propensity"] < 1.0
        feedback = {"prediction_id": answer["prediction_id"], "true_labels": ["label 13"]}
        assert (await post(client, "/feedback", **feedback))["status"] == "recorded"
        again = await post(client, "/predict", model=f"{name}-{loss}", context=X, include_distribution=True)
        assert again["rounds_seen"] == 1
        content = (await client.get(f"/models/{name}-{loss}/export")).content
        headers = {"Content-Type": "application/octet-stream"}
        copied = await client.post(f"/models/{name}-{loss}-copy/import", content=content, headers=headers)
        assert copied.status_code == 201, copied.text
        copy = await post(client, "/predict", model=f"{name}-{loss}-copy", context=X, include_distribution=True)
        assert copy["distribution"] == again["distribution"]
    listed = await listed_models(client, "/models", 100)
    counted = await listed_models(client, "/statistics", 100)
    for each in (f"{name}-sparsemap", f"{name}-crf"):
        assert listed[each]["learner"]["sets"] == 10_000
        assert counted[each]["algorithm"] == "fenchel-young-multilabel"


async def listed_models(client: httpx2.AsyncClient, path: str, limit: int) -> dict[str, Any]:
    """Return all models that an endpoint lists, by name."""
    found: dict[str, Any] = {}
    cursor: str | None = ""
    while cursor is not None:
        page = (await client.get(path, params={"cursor": cursor, "limit": limit})).json()
        found |= {each["name"]: each for each in page["models"]}
        cursor = page["next_cursor"]
    return found
