"""The HTTP contract of `top`: answers of several slots, each a prediction with its own feedback."""

import json
import math
import re
from collections import Counter
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.open_predictions import open_predictions
from tests.service.sample_models import LABELS

N = 600
_PAGE = Path(__file__).parents[3] / "docs" / "top.md"
_LEARNERS = ["fastcb", "gaptron", "soba-diagonal", "epsilon-greedy-ridge"]


async def top(api: Api, n: int, **fields: Any) -> dict[str, Any]:
    """Request an answer with n slots."""
    answer: dict[str, Any] = body_of(await api.predict(top=n, **fields), 200)
    return answer


async def tops(api: Api, n: int, count: int = N, **fields: Any) -> list[dict[str, Any]]:
    """Request many answers with n slots, in batches."""
    made = list[dict[str, Any]]()
    for _ in range(0, count, 200):
        items = [{"context": X} | fields for _ in range(200)]
        made += body_of(await api.post("/predict/batch", model=api.name, items=items, top=n), 200)["predictions"]
    return made


async def teach(api: Api, rounds: int = 60) -> None:
    """Let a model learn that `green` is right."""
    body = body_of(await api.post("/predict/batch", model=api.name, contexts=[X] * rounds), 200)
    given = [{"prediction_id": each["prediction_id"], "true_label": "green"} for each in body["predictions"]]
    body_of(await api.post("/feedback/batch", feedback=given), 200)


async def chances(api: Api, left: list[str]) -> dict[str, float]:
    """Return the distribution among some labels."""
    answer = body_of(await api.predict(eligible=left, include_distribution=True), 200)
    distribution: dict[str, float] = answer["distribution"]
    return distribution


async def every_order(api: Api, n: int) -> dict[tuple[str, ...], list[float]]:
    """Return the conditional propensities of each ordered answer, from requests with eligible labels."""
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
    """Return the labels of the slots."""
    return tuple(slot["label"] for slot in answer["slots"])


def chi_square(orders: list[tuple[str, ...]], expected: dict[tuple[str, ...], float]) -> float:
    """Return the chi-square statistic of drawn answers against their probabilities; rare ones are one cell."""
    counts, n = Counter(orders), len(orders)
    usual = [order for order, p in expected.items() if n * p >= 5.0]
    rest = max(1.0 - sum(expected[order] for order in usual), 0.0)
    total = sum((counts[order] - n * expected[order]) ** 2 / (n * expected[order]) for order in usual)
    others = n - sum(counts[order] for order in usual)
    return total + ((others - n * rest) ** 2 / (n * rest) if n * rest > 1.0 else 0.0)


@pytest.mark.parametrize("learner", _LEARNERS)
async def test_an_ordered_answer_has_the_product_of_its_propensities(api: Api, learner: str) -> None:
    """Each slot follows the learner's own rule among the labels that are left; the products sum to 1."""
    await api.create(learner=learner)
    await teach(api)
    orders = await every_order(api, 3)
    products = {order: math.prod(each) for order, each in orders.items()}
    assert math.fsum(products.values()) == pytest.approx(1.0, abs=1e-9)
    made = await tops(api, 3)
    for answer in made:
        assert [slot["propensity"] for slot in answer["slots"]] == pytest.approx(orders[order_of(answer)], rel=1e-12)
    assert chi_square([order_of(answer) for answer in made], products) < 60.0  # at most 24 degrees of freedom


async def test_slots_are_predictions_with_their_own_feedback(api: Api) -> None:
    """Each slot takes feedback once, under its own id; the request's id takes none."""
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
    """The same id with another `top`, or without, is a conflict."""
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
    """Slots are drawn among the eligible labels; more slots than that are refused."""
    await api.create()
    answer = await top(api, 2, eligible=["red", "blue"])
    assert (set(order_of(answer)), answer["slots"][1]["propensity"]) == ({"red", "blue"}, 1.0)
    problem_of(await api.predict(top=3, eligible=["red", "blue"]), 422, "too-few-choices", "top")
    body_of(await api.change("*", labels={"retire": ["green"]}), 200)
    assert "green" not in order_of(await top(api, 3))
    problem_of(await api.predict(top=4), 422, "too-few-choices", "top")


async def test_a_batch_has_answers_with_and_without_slots(api: Api) -> None:
    """`top` of a batch is for all; an item may have its own, and a bad item has its problem."""
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


async def test_slots_are_activated_one_by_one(api: Api) -> None:
    """With `activated: false`, each slot needs its own activation; the list of open predictions shows all."""
    await api.create()
    first, second = (await top(api, 2, activated=False))["slots"]
    problem_of(await api.judge(first["prediction_id"], correct=True), 409, "not-activated", "prediction_id")
    body_of(await api.post("/activate", prediction_id=second["prediction_id"]), 200)
    body_of(await api.judge(second["prediction_id"], correct=True), 200)
    listed = await open_predictions(api, api.name)
    assert [(each["prediction_id"], each["status"]) for each in listed] == [(first["prediction_id"], "inactive")]


async def test_the_holdout_answers_every_slot(api: Api) -> None:
    """The first slot has the holdout's label, the others are uniform among the rest; none is learned."""
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
    """In logging mode, later slots follow the policy given the earlier ones; labels without mass are uniform."""
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
    """The requests of docs/top.md, sent in order, have answers with the members on the page."""
    blocks = [json.loads(each) for each in re.findall(r"```json\n(.*?)\n```", _PAGE.read_text(), re.DOTALL)]
    created, asked, answered, judged, recorded = blocks
    body_of(await api.post("/models", **(created | {"name": api.name})), 201)
    answer = body_of(await api.post("/predict", **(asked | {"model": api.name})), 200)
    assert answer.keys() >= answered.keys()
    assert [each.keys() for each in answer["slots"]] == [each.keys() for each in answered["slots"]]
    ids = [each["prediction_id"] for each in answered["slots"]]
    assert [each["prediction_id"] for each in answer["slots"]] == [
        each.replace("news:", f"{api.name}:") for each in ids
    ]
    judged["feedback"] = [
        each | {"prediction_id": each["prediction_id"].replace("news:", f"{api.name}:")} for each in judged["feedback"]
    ]
    results = body_of(await api.post("/feedback/batch", **judged), 200)["results"]
    assert [each["status"] for each in results] == [each["status"] for each in recorded["results"]]
