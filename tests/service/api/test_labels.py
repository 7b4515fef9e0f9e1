"""The HTTP contract of choices: labels that are added, retired or eligible, modes, holdouts, and slots."""

import json
import math
import re
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.service.api.http_api import Api, X, body_of, chi_square, problem_of
from tests.service.sample_models import GAPTRON, LABELS, SOBA_DIAGONAL, UNIFORM, definition

FASTCB = {"algorithm": "fastcb"}
N = 600


async def teach(api: Api, n: int, right: str = "green", **fields: Any) -> None:
    made = await api.batch(n, **fields)
    items = [{"prediction_id": each["prediction_id"], "correct": each["label"] == right} for each in made]
    results = body_of(await api.post("/feedback/batch", feedback=items), 200)["results"]
    assert {result["status"] for result in results} == {"recorded"}


@pytest.mark.parametrize("learner", [FASTCB, SOBA_DIAGONAL, GAPTRON, UNIFORM], ids=lambda choice: choice["algorithm"])
async def test_answers_are_eligible_and_their_propensities_true(api: Api, learner: dict[str, Any]) -> None:
    await api.create(learner=learner)
    await teach(api, 30)
    eligible = ["none", "green", "red"]
    whole = body_of(await api.predict(include_distribution=True), 200)["distribution"]
    made = await api.batch(N, eligible=eligible, include_distribution=True)
    distribution = made[0]["distribution"]
    assert set(distribution) == set(eligible)
    assert set(whole) == set(LABELS)
    assert sum(distribution.values()) == pytest.approx(1.0)
    assert all(each["propensity"] == pytest.approx(distribution[each["label"]]) for each in made)
    positive = {label: p for label, p in distribution.items() if p > 0}
    assert chi_square([each["label"] for each in made], positive) < 22.0


async def test_one_eligible_label_is_certain(api: Api) -> None:
    await api.create(learner=FASTCB)
    answer = body_of(await api.predict(eligible=["blue"]), 200)
    assert (answer["label"], answer["propensity"]) == ("blue", 1.0)
    body_of(await api.judge(answer["prediction_id"], true_label="red"), 200)
    plain = body_of(await api.predict(eligible=LABELS), 200)
    body_of(await api.judge(plain["prediction_id"], correct=True), 200)
    assert [line["eligible"] for line in await api.rounds()] == [["blue"], None]


async def test_a_repeated_request_has_the_same_eligible_labels(api: Api) -> None:
    await api.create()
    first = body_of(await api.predict(prediction_id="p", eligible=["red", "blue"]), 200)
    assert body_of(await api.predict(prediction_id="p", eligible=["blue", "red"]), 200) == first
    for fields in ({}, {"eligible": ["red"]}, {"eligible": LABELS}):
        answer = await api.post("/predict", model=api.name, context=X, prediction_id="p", **fields)
        problem_of(answer, 409, "prediction-conflict", "prediction_id")


async def test_an_added_label_is_answered_and_learned(api: Api) -> None:
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


@pytest.mark.parametrize("learner", [
    {"algorithm": "soba-newton"}, {"algorithm": "fenchel-young-ordinal"},
], ids=lambda choice: choice["algorithm"])  # fmt: skip
async def test_a_fixed_number_of_labels_stays(api: Api, learner: dict[str, Any]) -> None:
    await api.create(learner=learner)
    problem_of(await api.change("*", labels={"add": ["amber"]}), 422, "labels-fixed", "labels.add")
    assert body_of(await api.change("*", labels={"retire": ["red"]}), 200)["retired_labels"] == ["red"]


@pytest.mark.parametrize(("labels", "slug", "field"), [
    ({"add": ["red"]}, "duplicate-labels", "labels.add.0"),
    ({"add": ["new"], "retire": ["new"]}, "unknown-label", "labels.retire.0"),
    ({"add": ["a", "blue"]}, "duplicate-labels", "labels.add.1"),
    ({"add": ["gone"]}, "label-retired", "labels.add.0"), ({"retire": ["gone"]}, "label-retired", "labels.retire.0"),
    ({"retire": ["red", "never"]}, "unknown-label", "labels.retire.1"),
    ({"retire": ["red", "green", "blue"]}, "too-few-labels", "labels.retire"),
    ({"add": ["a"] * 2}, "duplicate-labels", "labels.add"),
    ({"add": [f"l{i}" for i in range(100_000)]}, "invalid-request", "labels.add"),
    ({"add": [f"l{i}" for i in range(90_000)]}, "model-too-large", "learner.algorithm"),
], ids=lambda value: str(value)[:40])  # fmt: skip
async def test_an_impossible_change_of_labels_changes_nothing(
    api: Api, labels: dict[str, Any], slug: str, field: str
) -> None:
    await api.create(learner=FASTCB, labels=[*LABELS, "gone"], features={"kind": "dense", "size": 3000})
    body_of(await api.change("*", labels={"retire": ["gone"]}), 200)
    tag = await api.tag()
    problem_of(await api.change(tag, labels=labels), 422, slug, field)
    assert await api.tag() == tag


async def test_one_change_adds_and_retires(api: Api) -> None:
    await api.create(learner=FASTCB, labels=["a", "b"])
    body = {"labels": {"add": ["c", "d"], "retire": ["a", "b"]}, "window_seconds": 9.0}
    model = body_of(await api.change("*", **body), 200)
    assert (model["labels"], model["retired_labels"], model["window_seconds"]) == (list("abcd"), ["a", "b"], 9.0)
    assert model["changes"]["count"] == 1
    assert {each["label"] for each in await api.batch(60)} == {"c", "d"}


@pytest.mark.parametrize("learner", [FASTCB, SOBA_DIAGONAL, UNIFORM], ids=lambda choice: choice["algorithm"])
async def test_a_retired_label_is_not_answered(api: Api, learner: dict[str, Any]) -> None:
    await api.create(learner=learner)
    await teach(api, 40)
    early = body_of(await api.predict(), 200)["prediction_id"]
    body_of(await api.change("*", labels={"retire": ["green"]}), 200)
    made = await api.batch(100, include_distribution=True)
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
    await api.create(holdout={"fraction": 0.5, "policy": {"label": "red"}})
    refused = await api.change("*", labels={"retire": ["red"]})
    problem = problem_of(refused, 422, "label-retired", "holdout.policy.label")
    assert problem["detail"].endswith('the holdout answers "red", so the model cannot retire it')
    body_of(await api.change("*", labels={"retire": ["red"]}, holdout=None), 200)
    holdout = {"fraction": 0.5, "policy": {"label": "red"}}
    problem = problem_of(await api.change("*", holdout=holdout), 422, "label-retired", "holdout.policy.label")
    assert problem["detail"].endswith('got "red"; the model has retired this label')


MANY = 400


async def judged(api: Api, predictions: list[dict[str, Any]]) -> None:
    items = [{"prediction_id": each["prediction_id"], "correct": i % 2 == 0} for i, each in enumerate(predictions)]
    results = body_of(await api.post("/feedback/batch", feedback=items), 200)["results"]
    assert {result["status"] for result in results} == {"recorded"}


async def test_a_logging_model_draws_from_the_policy(api: Api) -> None:
    await api.create(mode="logging")
    policy = {"red": 0.5, "blue": 0.3, "none": 0.2}
    made = await api.batch(MANY, policy=policy)
    assert all(each["propensity"] == policy[each["label"]] for each in made)
    assert chi_square([each["label"] for each in made], policy) < 16.0  # 2 degrees of freedom


async def test_a_logging_model_without_a_policy_is_uniform_and_learns(api: Api) -> None:
    await api.create(mode="logging")
    made = await api.batch(MANY)
    assert {each["propensity"] for each in made} == {0.25}
    assert chi_square([each["label"] for each in made], dict.fromkeys(LABELS, 0.25)) < 20.0
    before = body_of(await api.predict(), 200)
    await judged(api, made)
    body_of(await api.change("*", mode="online"), 200)
    after = body_of(await api.predict(include_distribution=True), 200)
    assert after["rounds_seen"] - before["rounds_seen"] == MANY
    assert after["distribution"] != dict.fromkeys(LABELS, 0.25)


async def test_a_frozen_model_records_rounds_and_does_not_learn(api: Api) -> None:
    await api.create()
    await judged(api, await api.batch(20))
    frozen = body_of(await api.change("*", mode="frozen"), 200)
    first = body_of(await api.predict(include_distribution=True), 200)["distribution"]
    await judged(api, await api.batch(20))
    again = body_of(await api.predict(include_distribution=True), 200)
    assert (again["rounds_seen"], again["distribution"]) == (40, first)
    assert (await api.model())["rounds_seen"] == frozen["rounds_seen"] + 20
    body_of(await api.change("*", mode="online"), 200)
    assert body_of(await api.predict(include_distribution=True), 200)["distribution"] == first
    await judged(api, await api.batch(20))
    assert body_of(await api.predict(include_distribution=True), 200)["distribution"] != first


@pytest.mark.parametrize("policy", ["uniform", "baseline", {"label": "blue"}])
async def test_a_holdout_is_answered_by_its_policy_and_never_learned(api: Api, policy: Any) -> None:
    await api.create(holdout={"fraction": 0.25, "policy": policy})
    made = await api.batch(MANY, baseline="green")
    held = [each for each in made if each["holdout"]]
    assert abs(len(held) - MANY / 4) < 5 * (MANY * 3 / 16) ** 0.5
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
    await api.create(learner=UNIFORM, holdout={"fraction": 0.5, "policy": "baseline"})
    problem_of(await api.predict(), 422, "baseline-needed", "baseline")
    problem_of(await api.predict(baseline="purple"), 422, "unknown-label", "baseline")
    body_of(await api.predict(baseline="red"), 200)


async def test_a_repeated_prediction_has_the_same_options(api: Api) -> None:
    await api.create(mode="logging")
    first: dict[str, Any] = {"prediction_id": "p", "policy": {"red": 0.25, "blue": 0.75}}
    answer = body_of(await api.predict(**first), 200)
    same = body_of(await api.predict(prediction_id="p", policy={"blue": 0.75, "red": 0.25}), 200)
    assert same == answer
    for other in ({}, {"policy": {"red": 0.75, "blue": 0.25}}, first | {"baseline": "red"}):
        problem_of(await api.predict(**(other | {"prediction_id": "p"})), 409, "prediction-conflict", "prediction_id")


_PAGE = Path(__file__).parents[3] / "docs/guides/top.md"
_LEARNERS = ["fastcb", "gaptron", "soba-diagonal", "epsilon-greedy-ridge"]


async def top(api: Api, n: int, **fields: Any) -> dict[str, Any]:
    answer: dict[str, Any] = body_of(await api.predict(top=n, **fields), 200)
    return answer


async def tops(api: Api, n: int, count: int = N, **fields: Any) -> list[dict[str, Any]]:
    """Request many answers with n slots, in batches."""
    return [each for _ in range(0, count, 200) for each in await api.batch(200, n, **fields)]


async def taught(api: Api, rounds: int = 60) -> None:
    body = body_of(await api.post("/predict/batch", model=api.name, contexts=[X] * rounds), 200)
    given = [{"prediction_id": each["prediction_id"], "true_label": "green"} for each in body["predictions"]]
    body_of(await api.post("/feedback/batch", feedback=given), 200)


async def chances(api: Api, left: list[str]) -> dict[str, float]:
    answer = body_of(await api.predict(eligible=left, include_distribution=True), 200)
    distribution: dict[str, float] = answer["distribution"]
    return distribution


async def every_order(api: Api, n: int) -> dict[tuple[str, ...], list[float]]:
    known: dict[frozenset[str], dict[str, float]] = {}
    found: dict[tuple[str, ...], list[float]] = {}
    for order in permutations(LABELS, n):
        left, found[order] = list(LABELS), []
        for label in order:
            if frozenset(left) not in known:
                known[frozenset(left)] = await chances(api, left)
            found[order].append(known[frozenset(left)][label])
            left.remove(label)
    return found


def order_of(answer: dict[str, Any]) -> tuple[str, ...]:
    return tuple(slot["label"] for slot in answer["slots"])


@pytest.mark.parametrize("learner", _LEARNERS)
async def test_an_ordered_answer_has_the_product_of_its_propensities(api: Api, learner: str) -> None:
    await api.create(learner=learner)
    await taught(api)
    orders = await every_order(api, 3)
    products = {order: math.prod(each) for order, each in orders.items()}
    assert math.fsum(products.values()) == pytest.approx(1.0, abs=1e-9)
    made = await tops(api, 3)
    for answer in made:
        assert [slot["propensity"] for slot in answer["slots"]] == pytest.approx(orders[order_of(answer)], rel=1e-12)
    assert chi_square([order_of(answer) for answer in made], products) < 60.0  # at most 24 degrees of freedom


async def test_slots_are_predictions_with_their_own_feedback(api: Api) -> None:
    await api.create(learner="fastcb")
    answer = await top(api, 3, prediction_id="mine")
    ids = [slot["prediction_id"] for slot in answer["slots"]]
    assert (answer["label"], answer["propensity"], answer["distribution"]) == (None, None, None)
    assert ids == [f"{api.name}:mine:{i}" for i in range(3)]
    assert answer["prediction_id"] == f"{api.name}:mine"
    problem_of(await api.judge(answer["prediction_id"], correct=True), 404, "prediction-not-found", "prediction_id")
    for i, id_ in enumerate(ids):
        assert body_of(await api.judge(id_, reward=i / 4), 200)["status"] == "recorded"
        assert body_of(await api.judge(id_, reward=i / 4), 200)["status"] == "duplicate"
        problem_of(await api.judge(id_, correct=True), 409, "feedback-conflict", "correct")
    problem_of(await api.judge(f"{api.name}:mine:3", correct=True), 404, "prediction-not-found", "prediction_id")
    lines = await api.rounds()
    assert [line["prediction_id"] for line in lines] == ids
    assert [(line["label"], line["propensity"]) for line in lines] == [
        (slot["label"], slot["propensity"]) for slot in answer["slots"]
    ]
    left = [set(LABELS) - set(order_of(answer)[:i]) for i in range(3)]
    assert [set(line["eligible"] or LABELS) for line in lines] == left
    assert [line["reward"] for line in lines] == [0.0, 0.25, 0.5]


async def test_a_repeated_request_has_the_same_slots(api: Api) -> None:
    await api.create()
    first = await top(api, 4, prediction_id="mine")
    assert await top(api, 4, prediction_id="mine") == first
    assert sorted(order_of(first)) == sorted(LABELS)
    problem_of(await api.predict(prediction_id="mine", top=3), 409, "prediction-conflict", "prediction_id")
    problem_of(await api.predict(prediction_id="mine"), 409, "prediction-conflict", "prediction_id")
    body_of(await api.predict(prediction_id="other"), 200)
    problem_of(await api.predict(prediction_id="other", top=1), 409, "prediction-conflict", "prediction_id")
    one = await top(api, 1, prediction_id="one")
    assert (one["label"], len(one["slots"]), one["slots"][0]["prediction_id"]) == (None, 1, f"{api.name}:one:0")
    body_of(await api.judge(f"{api.name}:one:0", correct=True), 200)


async def test_the_last_eligible_label_is_certain(api: Api) -> None:
    await api.create()
    answer = await top(api, 2, eligible=["red", "blue"])
    assert (set(order_of(answer)), answer["slots"][1]["propensity"]) == ({"red", "blue"}, 1.0)
    problem_of(await api.predict(top=3, eligible=["red", "blue"]), 422, "too-few-choices", "top")
    body_of(await api.change("*", labels={"retire": ["green"]}), 200)
    assert "green" not in order_of(await top(api, 3))
    problem_of(await api.predict(top=4), 422, "too-few-choices", "top")


async def test_a_batch_has_answers_with_and_without_slots(api: Api) -> None:
    await api.create()
    items: list[dict[str, Any]] = [{"context": X}, {"context": X, "top": 3}, {"context": X, "top": 9}, {"context": [1]}]
    mixed = body_of(await api.post("/predict/batch", model=api.name, items=[*items, items[0]]), 200)["predictions"]
    assert [len(mixed[0]["labels"] or ()), mixed[0]["slots"], len(mixed[1]["slots"])] == [0, None, 3]
    assert [each["type"].rpartition(":")[2] for each in mixed[2:4]] == ["too-few-choices", "wrong-context-length"]
    assert mixed[4]["label"] in LABELS
    ids = [f"p{i}" for i in range(5)]
    body = {"model": api.name, "contexts": [X] * 5, "prediction_ids": ids, "top": 2}
    first = body_of(await api.post("/predict/batch", **body), 200)["predictions"]
    assert [each["slots"][1]["prediction_id"] for each in first] == [f"{api.name}:{id_}:1" for id_ in ids]
    assert body_of(await api.post("/predict/batch", **body), 200)["predictions"] == first
    shared = body_of(await api.post("/predict/batch", model=api.name, contexts=[X] * 5, top=2), 200)["predictions"]
    assert {len(each["slots"]) for each in shared} == {2}
    assert (await api.model())["predictions"] == 2 + 3 + 10 + 10
    body = {"model": api.name, "contexts": [X] * 30, "top": 100}
    problem_of(await api.post("/predict/batch", **body), 422, "batch-too-large", "top")
    body = {"model": api.name, "items": [{"context": X, "top": 100}] * 30}
    problem_of(await api.post("/predict/batch", **body), 422, "batch-too-large", "items")
    tops = [*[100] * 10, True, None]  # 1000 slots, and no more
    body = {"model": api.name, "items": [{"context": X, "top": top} for top in tops], "top": 2}
    found = body_of(await api.post("/predict/batch", **body), 200)["predictions"]
    slugs = [each.get("type", "").rpartition(":")[2] for each in found]
    assert slugs == [*["too-few-choices"] * 10, "wrong-type", ""]


async def test_the_holdout_answers_every_slot(api: Api) -> None:
    await api.create(holdout={"fraction": 0.5, "policy": {"label": "blue"}})
    made = [await top(api, 3, prediction_id=f"p{i}") for i in range(30)]
    held = [each for each in made if each["holdout"]]
    assert 0 < len(held) < 30
    for answer in held:
        assert [slot["propensity"] for slot in answer["slots"]] == pytest.approx([1.0, 1 / 3, 1 / 2])
        assert order_of(answer)[0] == "blue"
    assert [await top(api, 3, prediction_id=f"p{i}") for i in range(30)] == made
    for slot in held[0]["slots"]:
        body_of(await api.judge(slot["prediction_id"], correct=True), 200)
    assert [line["holdout"] for line in await api.rounds()] == [True] * 3


async def test_a_policy_is_renormalized_on_what_is_left(api: Api) -> None:
    await api.create(mode="logging")
    policy = {"red": 0.5, "blue": 0.3, "none": 0.2}
    for answer in await tops(api, 4, 200, policy=policy):
        left, order = dict(policy), order_of(answer)
        for slot in answer["slots"][:3]:
            chance = left.pop(slot["label"])
            assert slot["propensity"] == pytest.approx(chance / (chance + sum(left.values())))
        assert (order[3], answer["slots"][3]["propensity"]) == ("green", 1.0)
    for answer in await tops(api, 3, 200):
        assert [slot["propensity"] for slot in answer["slots"]] == pytest.approx([1 / 4, 1 / 3, 1 / 2])


async def test_the_examples_of_the_page_work(api: Api) -> None:
    blocks = [json.loads(each) for each in re.findall(r"```json\n(.*?)\n```", _PAGE.read_text(), re.DOTALL)]
    created, asked, answered, judged, recorded = blocks
    body_of(await api.post("/models", **(created | {"name": api.name})), 201)
    answer = body_of(await api.post("/predict", **(asked | {"model": api.name})), 200)
    assert answer.keys() >= answered.keys()
    assert all(each.keys() >= answered["slots"][0].keys() for each in answer["slots"])
    ids = [each["prediction_id"] for each in answered["slots"]]
    assert [each["prediction_id"] for each in answer["slots"]] == [
        each.replace("news:", f"{api.name}:") for each in ids
    ]
    judged["feedback"] = [
        each | {"prediction_id": each["prediction_id"].replace("news:", f"{api.name}:")} for each in judged["feedback"]
    ]
    results = body_of(await api.post("/feedback/batch", **judged), 200)["results"]
    assert [each["status"] for each in results] == [each["status"] for each in recorded["results"]]
