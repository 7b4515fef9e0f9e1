"""The HTTP contract of modes and holdouts."""

from collections import Counter
from typing import Any

import pytest

from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.sample_models import LABELS, UNIFORM, definition

N = 400


async def many(api: Api, n: int, **fields: Any) -> list[dict[str, Any]]:
    """Request n predictions in a batch of items."""
    items = [{"context": X} | fields for _ in range(n)]
    answer = body_of(await api.post("/predict/batch", model=api.name, items=items), 200)
    found: list[dict[str, Any]] = answer["predictions"]
    return found


def chi_square(labels: list[str], expected: dict[str, float]) -> float:
    """Return the chi-square statistic of drawn labels against their probabilities."""
    counts = Counter(labels)
    assert set(counts) <= set(expected)
    return sum((counts[label] - len(labels) * p) ** 2 / (len(labels) * p) for label, p in expected.items())


async def judged(api: Api, predictions: list[dict[str, Any]]) -> None:
    """Give feedback for predictions."""
    items = [{"prediction_id": each["prediction_id"], "correct": i % 2 == 0} for i, each in enumerate(predictions)]
    results = body_of(await api.post("/feedback/batch", feedback=items), 200)["results"]
    assert {result["status"] for result in results} == {"recorded"}


async def test_a_logging_model_draws_from_the_policy(api: Api) -> None:
    """The labels follow the policy of the request, and the propensities are its probabilities."""
    await api.create(mode="logging")
    policy = {"red": 0.5, "blue": 0.3, "none": 0.2}
    made = await many(api, N, policy=policy)
    assert all(each["propensity"] == policy[each["label"]] for each in made)
    assert chi_square([each["label"] for each in made], policy) < 16.0  # 2 degrees of freedom


async def test_a_logging_model_without_a_policy_is_uniform_and_learns(api: Api) -> None:
    """Without a policy, labels are uniform; the model learns from the rounds."""
    await api.create(mode="logging")
    made = await many(api, N)
    assert {each["propensity"] for each in made} == {0.25}
    assert chi_square([each["label"] for each in made], dict.fromkeys(LABELS, 0.25)) < 20.0
    before = body_of(await api.predict(), 200)
    await judged(api, made)
    body_of(await api.change("*", mode="online"), 200)
    after = body_of(await api.predict(include_distribution=True), 200)
    assert after["rounds_seen"] - before["rounds_seen"] == N
    assert after["distribution"] != dict.fromkeys(LABELS, 0.25)


async def test_a_frozen_model_records_rounds_and_does_not_learn(api: Api) -> None:
    """In the mode frozen, rounds are recorded and counted, but the distribution stays; back online, it learns."""
    await api.create()
    await judged(api, await many(api, 20))
    frozen = body_of(await api.change("*", mode="frozen"), 200)
    first = body_of(await api.predict(include_distribution=True), 200)["distribution"]
    await judged(api, await many(api, 20))
    again = body_of(await api.predict(include_distribution=True), 200)
    assert (again["rounds_seen"], again["distribution"]) == (40, first)
    assert (await api.model())["rounds_seen"] == frozen["rounds_seen"] + 20
    body_of(await api.change("*", mode="online"), 200)
    assert body_of(await api.predict(include_distribution=True), 200)["distribution"] == first
    await judged(api, await many(api, 20))
    assert body_of(await api.predict(include_distribution=True), 200)["distribution"] != first


@pytest.mark.parametrize("policy", ["uniform", "baseline", {"label": "blue"}])
async def test_a_holdout_is_answered_by_its_policy_and_never_learned(api: Api, policy: Any) -> None:
    """About the given share is held out and marked, in the answer and in the log; its propensity is its own."""
    await api.create(holdout={"fraction": 0.25, "policy": policy})
    made = await many(api, N, baseline="green")
    held = [each for each in made if each["holdout"]]
    assert abs(len(held) - N / 4) < 5 * (N * 3 / 16) ** 0.5
    expected = {"uniform": set(LABELS), "baseline": {"green"}}.get(str(policy), {"blue"})
    assert {each["label"] for each in held} == expected
    assert {each["propensity"] for each in held} == {0.25 if policy == "uniform" else 1.0}
    await judged(api, held)
    lines = await api.rounds()
    assert {line["prediction_id"] for line in lines} == {each["prediction_id"] for each in held}
    assert all(line["holdout"] for line in lines)
    body_of(await api.change("*", holdout=None), 200)
    fresh = body_of(await api.predict(include_distribution=True), 200)
    assert (fresh["rounds_seen"], fresh["holdout"]) == (len(held), False)
    other = {"model": f"{api.name}-new", "context": X, "include_distribution": True}
    await api.post("/models", **definition(f"{api.name}-new"))
    assert fresh["distribution"] == body_of(await api.post("/predict", **other), 200)["distribution"]


async def test_a_baseline_holdout_needs_the_baseline(api: Api) -> None:
    """Every request to a model whose holdout answers baselines has one, whether or not it is held out."""
    await api.create(learner=UNIFORM, holdout={"fraction": 0.5, "policy": "baseline"})
    problem_of(await api.predict(), 422, "baseline-needed", "baseline")
    problem_of(await api.predict(baseline="purple"), 422, "unknown-label", "baseline")
    body_of(await api.predict(baseline="red"), 200)


async def test_a_repeated_prediction_of_the_holdout_is_marked(api: Api) -> None:
    """A repeated request returns the stored prediction, also whether the holdout answered it."""
    await api.create(holdout={"fraction": 0.5, "policy": "uniform"})
    marks = set()
    for number in range(20):
        answer = body_of(await api.predict(prediction_id=f"p{number}"), 200)
        assert body_of(await api.predict(prediction_id=f"p{number}"), 200) == answer
        marks.add(answer["holdout"])
    assert marks == {False, True}


async def test_a_repeated_prediction_has_the_same_options(api: Api) -> None:
    """The same id with another baseline or policy is a conflict; the order of a policy does not matter."""
    await api.create(mode="logging")
    first: dict[str, Any] = {"prediction_id": "p", "policy": {"red": 0.25, "blue": 0.75}}
    answer = body_of(await api.predict(**first), 200)
    same = body_of(await api.predict(prediction_id="p", policy={"blue": 0.75, "red": 0.25}), 200)
    assert same == answer
    for other in ({}, {"policy": {"red": 0.75, "blue": 0.25}}, first | {"baseline": "red"}):
        problem_of(await api.predict(**(other | {"prediction_id": "p"})), 409, "prediction-conflict", "prediction_id")
