"""The HTTP contract of labels that are added, retired, or eligible for one request."""

from collections import Counter
from typing import Any

import pytest

from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.sample_models import GAPTRON, LABELS, SOBA_DIAGONAL, UNIFORM

FASTCB = {"algorithm": "fastcb"}
N = 600


async def batch(api: Api, n: int, **fields: Any) -> list[dict[str, Any]]:
    """Request n predictions in a batch of items."""
    items = [{"context": X} | fields for _ in range(n)]
    answer = body_of(await api.post("/predict/batch", model=api.name, items=items), 200)
    found: list[dict[str, Any]] = answer["predictions"]
    return found


async def teach(api: Api, n: int, right: str = "green", **fields: Any) -> None:
    """Play n rounds in which one label is right."""
    made = await batch(api, n, **fields)
    items = [{"prediction_id": each["prediction_id"], "correct": each["label"] == right} for each in made]
    results = body_of(await api.post("/feedback/batch", feedback=items), 200)["results"]
    assert {result["status"] for result in results} == {"recorded"}


def chi_square(labels: list[str], expected: dict[str, float]) -> float:
    """Return the chi-square statistic of drawn labels against their probabilities."""
    counts = Counter(labels)
    assert set(counts) <= set(expected)
    return sum((counts[label] - len(labels) * p) ** 2 / (len(labels) * p) for label, p in expected.items())


# --- eligible labels


@pytest.mark.parametrize("learner", [FASTCB, SOBA_DIAGONAL, GAPTRON, UNIFORM], ids=lambda choice: choice["algorithm"])
async def test_answers_are_eligible_and_their_propensities_true(api: Api, learner: dict[str, Any]) -> None:
    """The distribution is over the eligible labels, sums to 1, and the drawn labels follow it."""
    await api.create(learner=learner)
    await teach(api, 30)
    eligible = ["none", "green", "red"]
    whole = body_of(await api.predict(include_distribution=True), 200)["distribution"]
    made = await batch(api, N, eligible=eligible, include_distribution=True)
    distribution = made[0]["distribution"]
    assert set(distribution) == set(eligible)
    assert set(whole) == set(LABELS)
    assert sum(distribution.values()) == pytest.approx(1.0)
    assert all(each["propensity"] == pytest.approx(distribution[each["label"]]) for each in made)
    positive = {label: p for label, p in distribution.items() if p > 0}
    assert chi_square([each["label"] for each in made], positive) < 22.0


async def test_one_eligible_label_is_certain(api: Api) -> None:
    """A request with one eligible label gets it, with propensity 1; the log lists the eligible labels."""
    await api.create(learner=FASTCB)
    answer = body_of(await api.predict(eligible=["blue"]), 200)
    assert (answer["label"], answer["propensity"]) == ("blue", 1.0)
    body_of(await api.judge(answer["prediction_id"], true_label="red"), 200)
    plain = body_of(await api.predict(eligible=LABELS), 200)
    body_of(await api.judge(plain["prediction_id"], correct=True), 200)
    assert [line["eligible"] for line in await api.rounds()] == [["blue"], None]


async def test_a_repeated_request_has_the_same_eligible_labels(api: Api) -> None:
    """The order of the eligible labels does not matter; another set is a conflict, and so is none."""
    await api.create()
    first = body_of(await api.predict(prediction_id="p", eligible=["red", "blue"]), 200)
    assert body_of(await api.predict(prediction_id="p", eligible=["blue", "red"]), 200) == first
    for fields in ({}, {"eligible": ["red"]}, {"eligible": LABELS}):
        answer = await api.post("/predict", model=api.name, context=X, prediction_id="p", **fields)
        problem_of(answer, 409, "prediction-conflict", "prediction_id")


async def test_items_succeed_or_fail_alone(api: Api) -> None:
    """Each item of a batch has its own eligible labels and its own problem."""
    await api.create()
    items: list[Any] = [
        {"context": X, "eligible": ["red"]},
        {"context": X, "eligible": ["purple"]},
        {"context": X, "model": api.name},
        {"context": X, "prediction_id": "mine", "include_distribution": True},
        7,
    ]
    answers = body_of(await api.post("/predict/batch", model=api.name, items=items), 200)["predictions"]
    assert (answers[0]["label"], answers[3]["prediction_id"]) == ("red", f"{api.name}:mine")
    assert set(answers[3]["distribution"]) == set(LABELS)
    slugs = [answers[i]["type"].removeprefix("urn:wager:problem:") for i in (1, 2, 4)]
    assert slugs == ["unknown-label", "unknown-field", "wrong-type"]
    assert [answers[i].get("field") for i in (1, 2)] == ["eligible.0", "model"]


# --- labels added


async def test_an_added_label_is_answered_and_learned(api: Api) -> None:
    """What was learnt about the other labels stays; the new label is drawn, learned, and known as a truth."""
    await api.create(learner=FASTCB)
    await teach(api, 60)
    early = body_of(await api.predict(), 200)["prediction_id"]
    before = body_of(await api.predict(include_distribution=True), 200)["distribution"]
    model = body_of(await api.change("*", labels={"add": ["amber", "pink"]}), 200)
    assert (model["labels"], model["retired_labels"]) == ([*LABELS, "amber", "pink"], [])
    assert model["changes"]["latest"][0]["added"] == ["amber", "pink"]
    after = body_of(await api.predict(include_distribution=True), 200)["distribution"]
    assert list(after) == model["labels"]
    assert max(after, key=after.get) == max(before, key=before.get) == "green"
    body_of(await api.judge(early, true_label="amber"), 200)
    await teach(api, 300, "amber")
    assert body_of(await api.predict(include_distribution=True), 200)["distribution"]["amber"] > 0.5
    first = (await api.rounds(limit=1))[0]
    assert first["eligible"] == LABELS


@pytest.mark.parametrize(
    "learner",
    [{"algorithm": "soba-newton"}, {"algorithm": "fenchel-young-ordinal"}],
    ids=lambda choice: choice["algorithm"],
)
async def test_a_fixed_number_of_labels_stays(api: Api, learner: dict[str, Any]) -> None:
    """A learner whose labels cannot grow refuses new ones, and still retires labels."""
    await api.create(learner=learner)
    problem_of(await api.change("*", labels={"add": ["amber"]}), 422, "labels-fixed", "labels.add")
    assert body_of(await api.change("*", labels={"retire": ["red"]}), 200)["retired_labels"] == ["red"]


@pytest.mark.parametrize(
    ("labels", "slug", "field"),
    [
        ({"add": ["red"]}, "duplicate-labels", "labels.add.0"),
        ({"add": ["a", "blue"]}, "duplicate-labels", "labels.add.1"),
        ({"add": ["gone"]}, "label-retired", "labels.add.0"),
        ({"retire": ["gone"]}, "label-retired", "labels.retire.0"),
        ({"retire": ["red", "never"]}, "unknown-label", "labels.retire.1"),
        ({"retire": ["red", "green", "blue"]}, "too-few-labels", "labels.retire"),
        ({"add": ["a"] * 2}, "duplicate-labels", "labels.add"),
        ({"add": [f"l{i}" for i in range(100_000)]}, "invalid-request", "labels.add"),
        ({"add": [f"l{i}" for i in range(90_000)]}, "model-too-large", "learner.algorithm"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_an_impossible_change_of_labels_changes_nothing(
    api: Api, labels: dict[str, Any], slug: str, field: str
) -> None:
    """Each reason has its own problem, and the model stays as it is."""
    await api.create(learner=FASTCB, labels=[*LABELS, "gone"], features={"kind": "dense", "size": 3000})
    body_of(await api.change("*", labels={"retire": ["gone"]}), 200)
    tag = await api.tag()
    problem_of(await api.change(tag, labels=labels), 422, slug, field)
    assert await api.tag() == tag


async def test_one_change_adds_and_retires(api: Api) -> None:
    """A change may add labels, retire all that the model had, and set policies."""
    await api.create(learner=FASTCB, labels=["a", "b"])
    body = {"labels": {"add": ["c", "d"], "retire": ["a", "b"]}, "window_seconds": 9.0}
    model = body_of(await api.change("*", **body), 200)
    assert (model["labels"], model["retired_labels"], model["window_seconds"]) == (list("abcd"), ["a", "b"], 9.0)
    assert model["changes"]["count"] == 1
    assert {each["label"] for each in await batch(api, 60)} == {"c", "d"}


# --- labels retired


@pytest.mark.parametrize("learner", [FASTCB, SOBA_DIAGONAL, UNIFORM], ids=lambda choice: choice["algorithm"])
async def test_a_retired_label_is_not_answered(api: Api, learner: dict[str, Any]) -> None:
    """Later predictions never answer it, list it, or accept it as eligible; earlier ones accept it as the truth."""
    await api.create(learner=learner)
    await teach(api, 40)
    early = body_of(await api.predict(), 200)["prediction_id"]
    body_of(await api.change("*", labels={"retire": ["green"]}), 200)
    made = await batch(api, 100, include_distribution=True)
    assert {each["label"] for each in made} <= {"red", "blue", "none"}
    assert set(made[0]["distribution"]) == {"red", "blue", "none"}
    problem_of(await api.predict(eligible=["red", "green"]), 422, "label-retired", "eligible.1")
    judged = body_of(await api.judge(early, true_label="green"), 200)
    late = body_of(await api.judge(made[0]["prediction_id"], true_label="green"), 200)
    assert (judged["status"], late["correct"]) == ("recorded", False)
    lines = await api.rounds(after=40)
    assert [line["eligible"] for line in lines] == [None, ["red", "blue", "none"]]
    assert {line["true_label"] for line in lines} == {"green"}


async def test_a_label_of_the_holdout_is_not_retired(api: Api) -> None:
    """A label stays while the holdout answers it, and a holdout cannot answer a retired label."""
    await api.create(holdout={"fraction": 0.5, "policy": {"label": "red"}})
    refused = await api.change("*", labels={"retire": ["red"]})
    problem = problem_of(refused, 422, "label-retired", "holdout.policy.label")
    assert problem["detail"].endswith('the holdout answers "red", so the model cannot retire it')
    body_of(await api.change("*", labels={"retire": ["red"]}, holdout=None), 200)
    holdout = {"fraction": 0.5, "policy": {"label": "red"}}
    problem = problem_of(await api.change("*", holdout=holdout), 422, "label-retired", "holdout.policy.label")
    assert problem["detail"].endswith('got "red"; the model has retired this label')
