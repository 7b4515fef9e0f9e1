"""Costs and budgets over HTTP: what they change, what they leave, and what is refused."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.replicas.statistics import StatisticsAccumulator
from service.replicas.sums import CostSums
from service.store.records.codecs import label_codec
from service.store.records.layout import FEEDBACK, HOLDOUT
from service.store.records.optional_fields import ANOTHERS, OptionalFields
from service.store.records.round_table import row_dtype
from tests.service.actions.catalogue import definition as with_actions
from tests.service.actions.catalogue import item
from tests.service.api.http_api import Api, X, body_of, chi_square, problem_of
from tests.service.sample_models import GAPTRON, RANKING

FASTCB: dict[str, Any] = {"algorithm": "fastcb"}
PRICED = [FASTCB, {"algorithm": "squarecb"}, {"algorithm": "epsilon-greedy-ridge"}]
COSTS = {"red": 0.5, "blue": 1.0, "none": 2.0}  # green costs 0
CLOSING: dict[str, Any] = {"on_expiry": "incorrect", "window_seconds": 60.0, "learn": "on_arrival"}
BUDGET: dict[str, Any] = {"costs": COSTS, "budget": {"cost": 0.4}} | CLOSING
N = 500


async def teach(api: Api, n: int = 60, right: str = "none", **fields: Any) -> list[dict[str, Any]]:
    made = await api.batch(n, **fields)
    items = [{"prediction_id": each["prediction_id"], "correct": each["label"] == right} for each in made]
    body_of(await api.post("/feedback/batch", feedback=items), 200)
    return made


async def distribution(api: Api, **fields: Any) -> dict[str, float]:
    found: dict[str, float] = body_of(await api.predict(include_distribution=True, **fields), 200)["distribution"]
    return found


async def decision(api: Api) -> dict[str, Any]:
    made = body_of(await api.predict(), 200)
    return body_of(await api.get(f"/predictions/{made['prediction_id']}"), 200)


@pytest.mark.parametrize("learner", PRICED, ids=lambda choice: choice["algorithm"])
async def test_a_weight_favours_cheap_labels_and_the_propensity_is_that_of_the_draw(
    api: Api, learner: dict[str, Any]
) -> None:
    await api.create(learner=learner, costs=COSTS)
    await teach(api)
    free = await distribution(api)
    assert await distribution(api, cost_weight=0.0) == free
    assert await distribution(api, costs=dict.fromkeys(COSTS, 7.0) | {"green": 7.0}, cost_weight=3.0) == free
    body_of(await api.change("*", cost_weight=2.0), 200)
    made = await api.batch(N, include_distribution=True)
    p = made[0]["distribution"]
    assert p["green"] > max(free["green"], 0.5)
    assert p["none"] < free["none"]
    assert all(each["propensity"] == pytest.approx(p[each["label"]], rel=1e-9) for each in made)
    assert chi_square([each["label"] for each in made], p) < 22.0
    explained = body_of(await api.post(f"/models/{api.name}/explain", context=X), 200)["distribution"]
    assert explained == pytest.approx(p)
    assert await distribution(api, cost_weight=0.0) == free
    assert await distribution(api, eligible=["none", "red"], cost_weight=1e6) == pytest.approx(
        {"none": 0.0, "red": 1.0}, abs=0.5 if learner["algorithm"] == "epsilon-greedy-ridge" else 1e-3
    )


async def test_costs_of_a_request_replace_those_of_the_model(api: Api) -> None:
    await api.create(learner=FASTCB, costs=COSTS, cost_weight=1.0)
    assert (await distribution(api, costs={"green": 9.0}))["green"] < 0.05
    model = api.named(f"{api.name}-without")
    await model.create(learner=FASTCB)
    expected = await distribution(api, costs={"none": 3.0})
    assert await distribution(model, costs=COSTS | {"none": 3.0}, cost_weight=1.0) == pytest.approx(expected)


async def test_rounds_and_explanations_have_the_costs_as_decided(api: Api) -> None:
    await api.create(learner=FASTCB, costs=COSTS, cost_weight=0.25)
    plain = body_of(await api.predict(include_distribution=True), 200)
    given = body_of(await api.predict(costs={"green": 0.125}, cost_weight=0.5, include_distribution=True), 200)
    slots = body_of(await api.predict(top=2, costs={"green": 0.125}), 200)["slots"]
    body_of(await api.change("*", costs={"green": 4.0}, cost_weight=0.0), 200)
    ids = [each["prediction_id"] for each in (plain, given, *slots)]
    for id_ in ids:
        body_of(await api.judge(id_, correct=True), 200)
    costs = COSTS | {"green": 0.0}
    of_request = costs | {"green": 0.125}
    expected = [(0.25, costs), (0.5, of_request), (0.25, of_request), (0.25, of_request)]
    for line, (weight, whole) in zip(await api.rounds(), expected, strict=True):
        assert line["cost_weight"] == weight
        assert line["cost"] == whole[line["label"]]
        assert line["costs"] == ({"green": 0.125} if whole is of_request else None)
    for id_, made, (weight, whole) in zip(ids, (plain, given), expected, strict=False):
        found = body_of(await api.get(f"/predictions/{id_}"), 200)
        assert (found["cost"], found["cost_weight"]) == (whole[made["label"]], weight)
        assert found["costs"] == whole
        assert found["distribution"] == pytest.approx(made["distribution"], abs=0.0)


async def test_costs_are_recorded_but_do_not_count_for_other_policies(api: Api) -> None:
    holdout = {"fraction": 0.5, "policy": {"label": "none"}}
    await api.create(learner=FASTCB, costs=COSTS, cost_weight=1e4, holdout=holdout)
    held = [each for each in await teach(api, 80) if each["holdout"]]
    assert {(each["label"], each["propensity"]) for each in held} == {("none", 1.0)}
    assert {line["cost"] for line in await api.rounds() if line["holdout"]} == {2.0}
    body_of(await api.change("*", holdout=None, mode="logging"), 200)
    assert body_of(await api.predict(policy={"none": 1.0}), 200)["propensity"] == 1.0


async def test_the_holdouts_cost_is_apart_in_the_statistics() -> None:
    """The learner's mean leaves out the holdout and other policies."""
    rows = np.zeros(6, row_dtype(label_codec(3), 0))
    rows["propensity"], rows["kind"], rows["flags"] = 0.5, FEEDBACK, [0, 0, HOLDOUT, HOLDOUT, 0, 0]
    prices = np.array([[0.5, 1.0], [0.5, 2.0], [ANOTHERS, 4.0], [ANOTHERS, 8.0], [ANOTHERS, 16.0], [np.nan, np.nan]])
    counting = StatisticsAccumulator(3, 60.0)
    counting.take(rows, OptionalFields(np.empty((6, 0), np.bool_), prices=prices))
    assert counting.counts().costs == CostSums(2, 3.0, 1.5, 2, 12.0)


async def test_rules_bind_after_costs(api: Api) -> None:
    await api.create(
        learner=FASTCB, costs=COSTS, cost_weight=1e4, rules={"floor": {"none": 0.1}, "cap": {"green": 0.5}}
    )
    p = await distribution(api)
    assert p["green"] == pytest.approx(0.5)
    assert p["none"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"costs": {"pink": 1.0}}, "costs.pink"),
        ({"costs": {"red": -0.1}}, "costs.red"),
        ({"costs": {"red": 1e7}}, "costs.red"),
        ({"costs": {"red": True}}, "costs.red"),
        ({"costs": {"red": "1"}}, "costs.red"),
        ({"costs": [1.0]}, "costs"),
        ({"cost_weight": -1.0}, "cost_weight"),
        ({"cost_weight": 1e7}, "cost_weight"),
        ({"budget": {"cost": 0.4}} | CLOSING, "budget"),
        ({"costs": COSTS, "budget": {"cost": 0.4}}, "budget"),
        ({"costs": COSTS, "budget": {"cost": 0.0}} | CLOSING, "budget.cost"),
        ({"costs": COSTS, "budget": {"cost": -1.0}} | CLOSING, "budget.cost"),
        ({"costs": COSTS, "budget": {"cost": 1e-7}} | CLOSING, "budget.cost"),
        ({"costs": COSTS, "budget": {}} | CLOSING, "budget.cost"),
        ({"costs": COSTS, "budget": {"cost": 0.4, "weight": 1.0}} | CLOSING, "budget.weight"),
        (BUDGET | {"cost_weight": 1.0}, "cost_weight"),
        ({"learner": GAPTRON, "costs": COSTS}, "costs"),
        ({"learner": GAPTRON, "cost_weight": 0.5}, "cost_weight"),
        ({"learner": GAPTRON, "budget": {"cost": 0.4}} | CLOSING, "budget"),
        ({"learner": RANKING, "costs": COSTS}, "costs"),
    ],
)
async def test_impossible_costs_are_refused_and_change_nothing(api: Api, fields: dict[str, Any], field: str) -> None:
    body_of(await api.get(f"/models/{api.name}"), 404)
    assert body_of(await api.create(**{"learner": FASTCB} | fields), 422)["field"] == field
    body_of(await api.get(f"/models/{api.name}"), 404)
    await api.create(learner=fields.get("learner", FASTCB))
    before = await api.model()
    policies = {name: value for name, value in fields.items() if name != "learner"}
    assert body_of(await api.change("*", **policies), 422)["field"] == field
    assert await api.model() == before


async def test_infinite_costs_are_refused_by_name(api: Api) -> None:
    await api.create(learner=FASTCB)
    for number in ("Infinity", "NaN", "1e999"):
        text = f'{{"model": "{api.name}", "context": [0.6, 0.8, 0.0], "costs": {{"red": {number}}}}}'
        options = {"content": text, "headers": {"Content-Type": "application/json"}}
        assert (await api.request("POST", "/predict", **options)).status_code == 422
    assert (await api.model())["predictions"] == 0


@pytest.mark.parametrize(
    ("made", "asked", "field"),
    [
        ({}, {"costs": {"pink": 1.0}}, "costs.pink"),
        ({}, {"costs": {"red": -1.0}}, "costs.red"),
        ({}, {"cost_weight": 0.5}, "cost_weight"),
        ({}, {"costs": {"red": 1.0}, "cost_weight": -0.5}, "cost_weight"),
        ({"learner": GAPTRON}, {"costs": {"red": 1.0}}, "costs"),
        ({"learner": GAPTRON}, {"cost_weight": 1.0}, "cost_weight"),
        (BUDGET, {"cost_weight": 1.0}, "cost_weight"),
    ],
)
async def test_requests_with_impossible_costs_are_refused(
    api: Api, made: dict[str, Any], asked: dict[str, Any], field: str
) -> None:
    await api.create(**{"learner": FASTCB} | made)
    assert body_of(await api.predict(**asked), 422)["field"] == field
    items = body_of(
        await api.post("/predict/batch", model=api.name, items=[{"context": X} | asked, {"context": X}]), 200
    )
    assert [each.get("field") for each in items["predictions"]] == [field, None]


async def test_costs_are_part_of_a_request(api: Api) -> None:
    await api.create(learner=FASTCB, costs=COSTS)
    asked: dict[str, Any] = {"prediction_id": "p", "costs": {"red": 1.0, "blue": 2.0}, "cost_weight": 0.5}
    first = body_of(await api.predict(**asked), 200)
    assert body_of(await api.predict(**asked | {"costs": {"blue": 2.0, "red": 1.0}}), 200) == first
    for other in ({"costs": {"red": 1.0}}, {"cost_weight": 0.4}, {"costs": None}):
        problem_of(await api.predict(**asked | other), 409, "prediction-conflict", "prediction_id")


async def test_a_retired_label_may_have_a_cost(api: Api) -> None:
    await api.create(learner=FASTCB, costs=COSTS, cost_weight=1.0)
    body_of(await api.change("*", labels={"retire": ["none"], "add": ["pink"]}, costs=COSTS | {"pink": 0.1}), 200)
    p = await distribution(api)
    assert p.keys() == {"green", "red", "blue", "pink"}
    assert p["green"] > p["pink"] > p["red"] > p["blue"]
    assert body_of(await api.predict(costs={"none": 1.0}), 422)["field"] == "costs.none"


ITEMS = [item("a", price=0.2) | {"cost": 1.0}, item("b", price=0.4), item("c", price=0.6) | {"cost": 3.0}]


@pytest.mark.parametrize("log_actions", ["chosen", "all"])
async def test_actions_have_their_own_costs(api: Api, log_actions: str) -> None:
    actions = {"features": {"kind": "named"}, "log_actions": log_actions}
    body_of(await api.post("/models", **with_actions(api.name, actions=actions, cost_weight=0.1)), 201)
    asked = {"model": api.name, "context": {}, "actions": ITEMS}
    made = [body_of(await api.post("/predict", **asked, include_distribution=True), 200) for _ in range(300)]
    p = made[0]["distribution"]
    assert p["b"] > p["a"] > p["c"]
    assert chi_square([each["label"] for each in made], p) < 20.0
    for each in made[:30]:
        body_of(await api.judge(each["prediction_id"], reward=0.5), 200)
    costs = {"a": 1.0, "b": 0.0, "c": 3.0}
    for line in await api.rounds():
        chosen = line["label"] or line["actions"][0]["id"]
        assert (line["cost"], line["cost_weight"], line["costs"]) == (costs[chosen], 0.1, None)
        assert {each["id"]: each["cost"] or 0.0 for each in line["actions"]}.items() <= costs.items()
    found = body_of(await api.get(f"/predictions/{made[0]['prediction_id']}"), 200)
    assert found["costs"].items() <= costs.items()
    free = [{name: value for name, value in each.items() if name != "cost"} for each in ITEMS]
    even = body_of(await api.post("/predict", **asked | {"actions": free}, include_distribution=True), 200)
    unpriced = {"cost_weight": 0.0, "include_distribution": True}
    assert body_of(await api.post("/predict", **asked, **unpriced), 200)["distribution"] == even["distribution"]
    assert body_of(await api.post("/predict", **asked, costs={"a": 1.0}), 422)["field"] == "costs"
    again = asked | {"prediction_id": "p"}
    body_of(await api.post("/predict", **again), 200)
    problem_of(await api.post("/predict", **again | {"actions": free}), 409, "prediction-conflict", "prediction_id")
    wrong = [ITEMS[0], ITEMS[1] | {"cost": -1.0}]
    assert body_of(await api.post("/predict", **asked | {"actions": wrong}), 422)["field"] == "actions.1.cost"


async def test_a_budget_of_actions_needs_the_cost_of_each(api: Api) -> None:
    assert body_of(await api.post("/models", **with_actions(api.name, costs=COSTS)), 422)["field"] == "costs"
    body_of(await api.post("/models", **with_actions(api.name, budget={"cost": 1.0}, **CLOSING)), 201)
    asked = {"model": api.name, "context": {}, "actions": ITEMS}
    assert body_of(await api.post("/predict", **asked), 422)["field"] == "actions.1.cost"
    priced = [{"cost": 0.5} | each for each in ITEMS]
    for _ in range(30):
        made = body_of(await api.post("/predict", **asked | {"actions": priced}), 200)
        body_of(await api.judge(made["prediction_id"], reward=1.0), 200)
    weights = [line["cost_weight"] for line in await api.rounds()]
    assert weights[0] == pytest.approx(0.1)
    assert len(set(weights)) > 20


async def test_a_budget_sets_the_weight_from_the_rounds(api: Api) -> None:
    await api.create(learner=FASTCB, **BUDGET)
    for _ in range(12):
        await teach(api, 25)
    lines = await api.rounds()
    weights = [line["cost_weight"] for line in lines]
    assert weights[0] == pytest.approx(0.25)  # a tenth of 1/0.4
    by_state: dict[int, set[float]] = {}
    for line in lines:
        by_state.setdefault(line["rounds_seen"], set()).add(line["cost_weight"])
    assert all(len(found) == 1 for found in by_state.values())
    assert len({*weights}) == 12
    before = (await decision(api))["cost_weight"]
    body_of(await api.change("*", budget={"cost": 0.8}), 200)
    continued = await decision(api)
    assert continued["budget"] == {"cost": 0.8}
    assert continued["cost_weight"] == pytest.approx(before)
    body_of(await api.request("POST", f"/models/{api.name}/reset", json={}, headers={"If-Match": "*"}), 200)
    assert (await decision(api))["cost_weight"] == pytest.approx(0.1 / 0.8)
    body_of(await api.change("*", budget=None, cost_weight=0.7), 200)
    assert (await decision(api))["cost_weight"] == 0.7


async def test_copies_keep_costs_and_the_weight_of_a_budget(api: Api) -> None:
    await api.create(learner=FASTCB, **BUDGET)
    for _ in range(5):
        await teach(api, 20)
    body_of(await api.post(f"/models/{api.name}/clone", name=f"{api.name}-clone"), 201)
    body_of(await api.named(f"{api.name}-copy").imported(await api.exported()), 201)
    p = await distribution(api)
    for copy in ("clone", "copy"):
        named = api.named(f"{api.name}-{copy}")
        model = await named.model()
        assert (model["costs"], model["budget"]) == (COSTS, {"cost": 0.4})
        assert await distribution(named) == pytest.approx(p, abs=0.0)


async def test_a_learner_that_cannot_weigh_costs_is_no_shadow_and_no_promotion(api: Api) -> None:
    await api.create(learner=FASTCB, costs=COSTS, cost_weight=0.1)
    path, headers = f"/models/{api.name}", {"If-Match": "*"}
    refused = await api.request("PUT", f"{path}/shadows/rival", json={"learner": GAPTRON})
    assert body_of(refused, 422)["field"] == "costs"
    body_of(await api.change("*", costs=None, cost_weight=0.0), 200)
    body_of(await api.request("PUT", f"{path}/shadows/rival", json={"learner": GAPTRON}), 200)
    body_of(await api.change("*", costs=COSTS), 200)
    before = await api.model()
    refused = await api.request("POST", f"{path}/promote", json={"shadow": "rival"}, headers=headers)
    assert body_of(refused, 422)["field"] == "costs"
    assert await api.model() == before


async def test_the_guarantee_is_without_costs(api: Api) -> None:
    await api.create(learner=FASTCB, costs=COSTS)
    free = (await api.model())["guarantee"]
    body_of(await api.change("*", cost_weight=0.5), 200)
    guarantee = (await api.model())["guarantee"]
    assert guarantee.startswith(f"{free} This is for a cost_weight of 0")
    bound = body_of(await api.get(f"/models/{api.name}/statistics"), 200)["bound"]
    assert bound["guarantee"] == guarantee


async def test_statistics_show_the_costs(api: Api) -> None:
    await api.create(learner=FASTCB, **BUDGET)
    path = f"/models/{api.name}/statistics"
    found = body_of(await api.get(path), 200)["costs"]
    assert (found["rounds"], found["mean"], found["budget"], found["cost_weight"]) == (
        0,
        None,
        0.4,
        pytest.approx(0.25),
    )
    free = api.named(f"{api.name}-free")
    await free.create(learner=FASTCB)
    assert body_of(await free.get(f"/models/{free.name}/statistics"), 200)["costs"] is None


_DOCS = Path(__file__).parents[3] / "docs/guides"


def blocks(page: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in re.findall(r"```json\n(.*?)\n```", (_DOCS / page).read_text(), re.DOTALL)]


async def test_the_examples_of_the_page_of_costs_work(api: Api) -> None:
    created, asked, answered, patch, coupons, choice, chosen = blocks("costs.md")
    body_of(await api.post("/models", **(created | {"name": api.name})), 201)
    expected = pytest.approx(answered["distribution"], abs=1e-4)
    one = asked | {"model": api.name}
    assert body_of(await api.post("/predict", **one), 200)["distribution"] == expected
    body_of(await api.change("*", **patch), 200)
    assert body_of(await api.post("/predict", **one | {"cost_weight": None}), 200)["distribution"] == expected
    items = api.named(f"{api.name}-coupons")
    body_of(await api.post("/models", **(coupons | {"name": items.name})), 201)
    found = body_of(await api.post("/predict", **(choice | {"model": items.name})), 200)["distribution"]
    assert found == pytest.approx(chosen["distribution"], abs=1e-4)


async def test_the_examples_of_the_page_of_budgets_work(api: Api) -> None:
    created, shown = blocks("budgets.md")
    body_of(await api.post("/models", **(created | {"name": api.name})), 201)
    found = body_of(await api.get(f"/models/{api.name}/statistics"), 200)["costs"]
    assert found == shown["costs"] | {"cost_weight": pytest.approx(0.4)}
