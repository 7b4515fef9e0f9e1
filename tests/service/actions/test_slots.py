"""Answers of several slots among actions."""

import math
from collections import Counter
from itertools import permutations
from typing import Any

import pytest

from tests.service.actions.catalogue import NAMED, SHOES, definition, item
from tests.service.api.http_api import Api, body_of, problem_of


async def ranked(api: Api, top: int, actions: list[dict[str, Any]] = SHOES, **fields: Any) -> dict[str, Any]:
    body = {"model": api.name, "context": {}, "actions": actions, "top": top} | fields
    answer: dict[str, Any] = body_of(await api.post("/predict", **body), 200)
    return answer


async def chances(api: Api, left: list[dict[str, Any]]) -> dict[str, float]:
    body = {"model": api.name, "context": {}, "actions": left, "include_distribution": True}
    distribution: dict[str, float] = body_of(await api.post("/predict", **body), 200)["distribution"]
    return distribution


async def test_an_ordered_answer_has_the_product_of_its_propensities(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name)), 201)
    for _ in range(30):
        for slot in (await ranked(api, 2))["slots"]:
            await api.judge(slot["prediction_id"], reward=0.75 if slot["label"] == "red" else 0.25)
    orders, products = dict[tuple[str, ...], list[float]](), dict[tuple[str, ...], float]()
    for order in permutations(SHOES, 2):
        first = (await chances(api, SHOES))[order[0]["id"]]
        second = (await chances(api, [each for each in SHOES if each is not order[0]]))[order[1]["id"]]
        ids = tuple(each["id"] for each in order)
        orders[ids], products[ids] = [first, second], first * second
    assert math.fsum(products.values()) == pytest.approx(1.0)
    items = [{"context": {}, "actions": SHOES} for _ in range(500)]
    made = body_of(await api.post("/predict/batch", model=api.name, items=items, top=2), 200)["predictions"]
    counts: Counter[tuple[str, ...]] = Counter()
    for answer in made:
        ids = tuple(slot["label"] for slot in answer["slots"])
        assert [slot["propensity"] for slot in answer["slots"]] == pytest.approx(orders[ids], rel=1e-9)
        counts[ids] += 1
    assert sum((counts[ids] - 500 * p) ** 2 / (500 * p) for ids, p in products.items()) < 25.0  # 5 degrees of freedom


@pytest.mark.parametrize("log_actions", ["chosen", "all"])
async def test_each_slot_keeps_its_own_action(api: Api, log_actions: str) -> None:
    actions = {"features": NAMED, "log_actions": log_actions}
    body_of(await api.post("/models", **definition(api.name, actions=actions)), 201)
    first = await ranked(api, 3, prediction_id="mine", context={"user": {"age": 41}})
    again = await ranked(api, 3, prediction_id="mine", context={"user": {"age": 41}})
    assert again == first
    for slot in reversed(first["slots"]):
        assert body_of(await api.judge(slot["prediction_id"], reward=0.5), 200)["status"] == "recorded"
    lines = list(reversed(await api.rounds()))
    assert [line["label"] for line in lines] == [slot["label"] for slot in first["slots"]]
    assert [line["action_count"] for line in lines] == [3, 2, 1]
    assert [line["context"] for line in lines] == [{"user": {"age": 41}}] * 3
    chosen = {each["id"]: each["features"] for each in SHOES}
    for line in lines:
        kept = {each["id"]: each["features"] for each in line["actions"]}
        assert kept[line["label"]] == chosen[line["label"]]
    other = {"model": api.name, "context": {"user": {"age": 41}}, "actions": SHOES, "prediction_id": "mine", "top": 2}
    problem_of(await api.post("/predict", **other), 409, "prediction-conflict", "prediction_id")


async def test_more_slots_than_actions_are_refused(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name, actions={"features": NAMED, "log_actions": "all"})), 201)
    body: dict[str, Any] = {"model": api.name, "context": {}, "actions": SHOES}
    problem_of(await api.post("/predict", **body, top=4), 422, "too-few-choices", "top")
    problem_of(await api.post("/predict", **body, top=3, eligible=["red", "blue"]), 422, "too-few-choices", "top")
    many = [item(f"item-{i}", text="x" * 200) for i in range(1000)]
    problem_of(await api.post("/predict", **(body | {"actions": many}), top=100), 422, "top-too-large", "top")
    assert (await api.model())["predictions"] == 0


async def test_the_arms_of_slots_are_renormalized(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name, mode="logging")), 201)
    policy = {"red": 0.75, "blue": 0.25}
    for _ in range(20):
        slots = (await ranked(api, 3, policy=policy))["slots"]
        assert [slot["propensity"] for slot in slots] == [policy[slots[0]["label"]], 1.0, 1.0]
        assert slots[2]["label"] == "green"
