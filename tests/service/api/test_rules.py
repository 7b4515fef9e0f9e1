"""Rules: floors and caps of labels, groups and tagged actions, over HTTP."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.service.actions.catalogue import definition as with_actions
from tests.service.actions.catalogue import item
from tests.service.api.http_api import Api, X, body_of, chi_square, problem_of
from tests.service.sample_models import GAPTRON, LABELS, RANKING, UNIFORM

FASTCB = {"algorithm": "fastcb"}
N = 500
FLOOR = {"floor": {"none": 0.05}}
CAP = {"cap": {"green": 0.3}}
GROUPS = {"groups": {"warm": ["red", "green"]}, "cap": {"warm": 0.6}, "floor": {"red": 0.2, "none": 0.1}}
EACH = {"floor_each": 0.04}
ALL = {"floor": {"none": 0.1, "cool": 0.35}, "cap": {"green": 0.4}, "groups": {"cool": ["blue"]}, "floor_each": 0.06}
RULES: dict[str, dict[str, Any]] = {"floor": FLOOR, "cap": CAP, "groups": GROUPS, "each": EACH, "all": ALL}


async def teach(api: Api, n: int = 60, right: str = "green", **fields: Any) -> None:
    made = await api.batch(n, **fields)
    items = [{"prediction_id": each["prediction_id"], "correct": each["label"] == right} for each in made]
    body_of(await api.post("/feedback/batch", feedback=items), 200)


async def distribution(api: Api, **fields: Any) -> dict[str, float]:
    found: dict[str, float] = body_of(await api.predict(include_distribution=True, **fields), 200)["distribution"]
    return found


def obeys(p: dict[str, float], rules: dict[str, Any]) -> bool:
    def share(name: str) -> float:
        return sum(p[each] for each in rules.get("groups", {}).get(name, [name]))

    floors = all(share(name) >= least - 1e-9 for name, least in rules.get("floor", {}).items())
    caps = all(share(name) <= most + 1e-9 for name, most in rules.get("cap", {}).items())
    return floors and caps and min(p.values()) >= rules.get("floor_each", 0.0) - 1e-9


@pytest.mark.parametrize("learner", [FASTCB, GAPTRON, UNIFORM], ids=lambda choice: choice["algorithm"])
@pytest.mark.parametrize("rules", RULES)
async def test_answers_are_drawn_from_a_distribution_that_obeys(api: Api, learner: dict[str, Any], rules: str) -> None:
    await api.create(learner=learner, rules=RULES[rules])
    await teach(api)
    made = await api.batch(N, include_distribution=True)
    p = made[0]["distribution"]
    assert obeys(p, RULES[rules])
    assert sum(p.values()) == pytest.approx(1.0)
    assert all(each["propensity"] == pytest.approx(p[each["label"]], rel=1e-9) for each in made)
    assert all(each["rules_left_out"] is None for each in made)
    assert chi_square([each["label"] for each in made], p) < 22.0
    context = {"model": api.name, "context": X}
    assert body_of(await api.post(f"/models/{api.name}/explain", context=X), 200)["distribution"] == pytest.approx(p)
    single = body_of(await api.post("/predict", **context), 200)
    assert single["propensity"] == pytest.approx(p[single["label"]])


async def test_rules_change_like_policies_and_are_part_of_the_history(api: Api) -> None:
    await api.create(learner=FASTCB)
    await teach(api)
    free = await distribution(api)
    for rules in (CAP, ALL, None):
        body_of(await api.change("*", rules=rules), 200)
        model = await api.model()
        assert model["changes"]["latest"][0]["policies"] == {"rules": model["rules"]}
        body_of(await api.change("*", rules=rules), 200)  # changes nothing
        assert (await api.model())["changes"]["count"] == model["changes"]["count"]
        p = await distribution(api)
        assert p == free if rules is None else obeys(p, rules)
    await teach(api, right="red")
    assert len(await api.rounds()) == 120


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"floor": {"none": 0.6, "red": 0.5}}, "rules"),
        ({"floor_each": 0.3}, "rules"),
        ({"cap": dict.fromkeys(LABELS, 0.2)}, "rules"),
        ({"floor": {"none": 0.4}, "cap": {"none": 0.3}}, "rules.floor.none"),
        ({"floor_each": 0.1, "cap": {"red": 0.05}}, "rules.floor_each"),
        ({"floor": {"pink": 0.1}}, "rules.floor.pink"),
        ({"cap": {"pink": 0.1}}, "rules.cap.pink"),
        ({"floor": {"none": 0.0}}, "rules.floor.none"),
        ({"floor": {"none": -0.1}}, "rules.floor.none"),
        ({"cap": {"none": 1.0}}, "rules.cap.none"),
        ({"floor": {"none": True}}, "rules.floor.none"),
        ({"floor_each": 1.0}, "rules.floor_each"),
        ({"groups": {"warm": ["red", "pink"]}}, "rules.groups.warm.1"),
        ({"groups": {"warm": ["red"], "other": ["blue", "red"]}}, "rules.groups.other.1"),
        ({"groups": {"warm": ["red", "red"]}}, "rules.groups.warm.1"),
        ({"groups": {"red": ["red"]}}, "rules.groups.red"),
        ({"groups": {"warm": []}}, "rules.groups.warm"),
        ({"groups": {"warm": ["red"]}, "floor": {"warm": 0.3}, "cap": {"red": 0.2}}, "rules.floor.warm"),
        ({"groups": {"warm": ["red", "green"]}, "cap": {"warm": 0.3}, "floor": {"red": 0.4}}, "rules.cap.warm"),
        ({"floors": {"none": 0.1}}, "rules.floors"),
    ],
)
async def test_rules_that_cannot_hold_are_refused_and_change_nothing(
    api: Api, rules: dict[str, Any], field: str
) -> None:
    assert body_of(await api.create(rules=rules), 422)["field"] == field
    body_of(await api.get(f"/models/{api.name}"), 404)
    await api.create(rules=FLOOR)
    before = await api.model()
    assert body_of(await api.change("*", rules=rules), 422)["field"] == field
    assert await api.model() == before


async def test_learners_of_several_labels_have_no_rules(api: Api) -> None:
    assert body_of(await api.create(learner=RANKING, rules=FLOOR), 422)["field"] == "rules"


async def test_labels_that_rules_name_cannot_be_retired_alone(api: Api) -> None:
    await api.create(learner=FASTCB, rules=GROUPS)
    for label, field in (("none", "rules.floor.none"), ("green", "rules.groups.warm.1")):
        problem_of(await api.change("*", labels={"retire": [label]}), 422, "label-retired", field)
    body_of(await api.change("*", labels={"retire": ["none"]}, rules={"cap": {"red": 0.4}}), 200)
    problem_of(await api.change("*", rules=FLOOR), 422, "label-retired", "rules.floor.none")
    assert obeys(await distribution(api), {"cap": {"red": 0.4}})


async def test_added_labels_must_leave_the_rules_possible(api: Api) -> None:
    await api.create(learner=FASTCB, rules={"floor_each": 0.2})
    body_of(await api.change("*", labels={"add": ["pink"]}), 200)
    assert body_of(await api.change("*", labels={"add": ["grey"]}), 422)["field"] == "rules"
    assert set((await distribution(api)).values()) == {0.2}


@pytest.mark.parametrize(
    ("rules", "eligible", "left_out"),
    [
        (FLOOR, ["red", "blue"], ["floor.none"]),
        ({"cap": {"red": 0.3, "blue": 0.2}}, ["red", "blue"], ["cap.red", "cap.blue"]),
        ({"cap": {"red": 0.3}} | FLOOR, ["red", "none"], None),
        (ALL, ["green", "red", "none"], ["floor.cool"]),
        (CAP, ["green"], ["cap.green"]),
    ],
)
async def test_rules_that_a_request_makes_impossible_are_named(
    api: Api, rules: dict[str, Any], eligible: list[str], left_out: list[str] | None
) -> None:
    await api.create(learner=UNIFORM, rules=rules)
    first = body_of(await api.predict(eligible=eligible, prediction_id="one"), 200)
    assert first["rules_left_out"] == left_out
    assert body_of(await api.predict(eligible=eligible, prediction_id="one"), 200) == first | {"rules_left_out": None}
    made = await api.batch(3, eligible=eligible)
    assert [each["rules_left_out"] for each in made] == [left_out] * 3


async def test_slots_obey_among_the_labels_that_remain(api: Api) -> None:
    await api.create(learner=FASTCB, rules={"floor": {"none": 0.3}, "cap": {"green": 0.3}})
    await teach(api)
    for _ in range(40):
        slots = body_of(await api.predict(top=2), 200)["slots"]
        assert slots[0]["rules_left_out"] is None
        served = slots[0]["label"] == "none"
        assert slots[1]["rules_left_out"] == (["floor.none"] if served else None)
        for slot in slots:
            assert slot["label"] != "green" or slot["propensity"] <= 0.3 + 1e-9
            assert slot["label"] != "none" or slot["propensity"] >= 0.3 - 1e-9


async def test_rules_bind_neither_the_holdout_nor_logging(api: Api) -> None:
    await api.create(learner=FASTCB, rules=ALL, holdout={"fraction": 0.5, "policy": {"label": "green"}})
    made = await api.batch(60, eligible=["green", "red"])
    held = [each for each in made if each["holdout"]]
    assert {(each["label"], each["propensity"], each["rules_left_out"]) for each in held} == {("green", 1.0, None)}
    assert all(each["rules_left_out"] == ["floor.cool", "floor.none"][::-1] for each in made if not each["holdout"])
    body_of(await api.change("*", holdout=None, mode="logging"), 200)
    answer = body_of(await api.predict(policy={"green": 1.0}), 200)
    assert (answer["propensity"], answer["rules_left_out"]) == (1.0, None)
    body_of(await api.change("*", mode="frozen"), 200)
    assert obeys(await distribution(api), ALL)


async def test_the_guarantee_says_what_rules_cost(api: Api) -> None:
    await api.create(learner=GAPTRON)
    free = (await api.model())["guarantee"]
    for rules, moved in ((FLOOR, 0.05), (CAP, 0.7), (EACH, 0.16), (ALL, 0.6)):
        body_of(await api.change("*", rules=rules), 200)
        guarantee = (await api.model())["guarantee"]
        assert guarantee.startswith(free)
        assert f"at most {moved} T" in guarantee
        bound = body_of(await api.get(f"/models/{api.name}/statistics"), 200)["bound"]
        assert (bound["guarantee"], bound["mistakes"]) == (guarantee, None)


ITEMS = [item("a", price=0.2), item("b", price=0.4), item("c", price=0.6), item("d", price=0.8)]
TAGGED = [ITEMS[0] | {"tag": "own"}, ITEMS[1] | {"tag": "own"}, ITEMS[2] | {"tag": "partner"}, ITEMS[3]]
OF_TAGS = {"floor": {"own": 0.5}, "cap": {"partner": 0.2}, "floor_each": 0.02}


@pytest.mark.parametrize("log_actions", ["chosen", "all"])
async def test_actions_obey_by_tag(api: Api, log_actions: str) -> None:
    actions = {"features": {"kind": "named"}, "log_actions": log_actions}
    body_of(await api.post("/models", **with_actions(api.name, actions=actions, rules=OF_TAGS)), 201)
    for _ in range(40):
        answer = body_of(await api.post("/predict", model=api.name, context={}, actions=TAGGED), 200)
        await api.judge(answer["prediction_id"], reward=1.0 if answer["label"] in {"c", "d"} else 0.0)
    asked = {"model": api.name, "context": {}, "actions": TAGGED}
    p = body_of(await api.post("/predict", **asked, include_distribution=True), 200)["distribution"]
    assert p["a"] + p["b"] >= 0.5 - 1e-9
    assert p["c"] <= 0.2 + 1e-9
    assert min(p.values()) >= 0.02 - 1e-9
    items = [{"context": {}, "actions": TAGGED}, {"context": {}, "actions": TAGGED[2:]}] * 250
    made = body_of(await api.post("/predict/batch", model=api.name, items=items), 200)["predictions"]
    assert chi_square([each["label"] for each in made[::2]], p) < 22.0
    assert all(each["propensity"] == pytest.approx(p[each["label"]]) for each in made[::2])
    assert {tuple(each["rules_left_out"] or ()) for each in made} == {(), ("floor.own",)}
    (line, *_) = await api.rounds()
    tags = {each["id"]: each.get("tag") for each in line["actions"]}
    assert tags.items() <= {"a": "own", "b": "own", "c": "partner", "d": None}.items()


async def test_tags_are_part_of_a_request_and_groups_are_not_for_actions(api: Api) -> None:
    groups = {"groups": {"own": ["a"]}}
    assert body_of(await api.post("/models", **with_actions(api.name, rules=groups)), 422)["field"] == "rules.groups"
    body_of(await api.post("/models", **with_actions(api.name, rules=OF_TAGS)), 201)
    asked = {"model": api.name, "context": {}, "prediction_id": "p"}
    first = body_of(await api.post("/predict", **asked, actions=TAGGED), 200)
    assert body_of(await api.post("/predict", **asked, actions=TAGGED), 200) == first
    problem_of(await api.post("/predict", **asked, actions=ITEMS), 409, "prediction-conflict", "prediction_id")
    wrong = [ITEMS[0] | {"tag": ""}]
    assert (
        body_of(await api.post("/predict", model=api.name, context={}, actions=wrong), 422)["field"] == "actions.0.tag"
    )


async def test_only_some_of_many_broken_rules_are_named(api: Api) -> None:
    labels = [f"l{i}" for i in range(30)]
    await api.create(labels=labels, learner=UNIFORM, rules={"floor": dict.fromkeys(labels[2:], 0.01)})
    names = body_of(await api.predict(eligible=labels[:2]), 200)["rules_left_out"]
    assert names == [*(f"floor.{label}" for label in labels[2:12]), "18 more"]


async def test_a_floor_of_each_action_is_below_every_cap(api: Api) -> None:
    rules = {"cap": {"ad": 0.005}, "floor_each": 0.01}
    assert body_of(await api.post("/models", **with_actions(api.name, rules=rules)), 422)["field"] == "rules.floor_each"


async def test_too_many_actions_for_a_floor_of_each_leave_it_out(api: Api) -> None:
    body_of(await api.post("/models", **with_actions(api.name, rules={"floor_each": 0.02})), 201)
    for n, left_out in ((50, None), (51, ["floor_each"])):
        actions = [item(str(i), price=i) for i in range(n)]
        asked = {"model": api.name, "context": {}, "actions": actions}
        assert body_of(await api.post("/predict", **asked), 200)["rules_left_out"] == left_out


async def test_copies_and_promotions_keep_the_rules(api: Api) -> None:
    await api.create(learner=FASTCB, rules=ALL)
    await teach(api)
    body_of(await api.post(f"/models/{api.name}/clone", name=f"{api.name}-clone"), 201)
    body_of(await api.named(f"{api.name}-copy").imported(await api.exported()), 201)
    p = await distribution(api)
    for copy in ("clone", "copy"):
        named = api.named(f"{api.name}-{copy}")
        assert (await named.model())["rules"] == (await api.model())["rules"]
        assert await distribution(named) == pytest.approx(p)
    path = f"/models/{api.name}"
    body_of(await api.request("PUT", f"{path}/shadows/rival", json={"learner": GAPTRON}), 200)
    body_of(await api.request("POST", f"{path}/promote", json={"shadow": "rival"}, headers={"If-Match": "*"}), 200)
    assert obeys(await distribution(api), ALL)
    body_of(await api.request("POST", f"{path}/reset", json={}, headers={"If-Match": "*"}), 200)
    assert obeys(await distribution(api), ALL)


async def test_statistics_show_the_rules_with_the_traffic(api: Api) -> None:
    await api.create(learner=FASTCB)
    statistics = f"/models/{api.name}/statistics"
    assert body_of(await api.get(statistics), 200)["rules"] is None
    body_of(
        await api.change("*", rules={"groups": {"own": ["red", "blue"]}, "floor": {"own": 0.4}, "cap": {"none": 0.2}}),
        200,
    )
    shown = body_of(await api.get(statistics), 200)["rules"]
    assert shown == [
        {"rule": "floor.own", "share": 0.4, "latest_share": None},
        {"rule": "cap.none", "share": 0.2, "latest_share": None},
    ]


_PAGE = Path(__file__).parents[3] / "docs/guides/rules.md"


async def test_the_examples_of_the_page_work(api: Api) -> None:
    blocks = [json.loads(each) for each in re.findall(r"```json\n(.*?)\n```", _PAGE.read_text(), re.DOTALL)]
    created, asked, answered, patch, eligible, restricted, feed, choice, chosen = blocks
    body_of(await api.post("/models", **(created | {"name": api.name})), 201)
    one, other = asked | {"model": api.name}, eligible | {"model": api.name}
    assert_has(body_of(await api.post("/predict", **one), 200), answered)
    body_of(await api.change("*", **patch), 200)
    assert_has(body_of(await api.post("/predict", **other), 200), restricted)
    items = api.named(f"{api.name}-feed")
    body_of(await api.post("/models", **(feed | {"name": items.name})), 201)
    assert_has(body_of(await api.post("/predict", **(choice | {"model": items.name})), 200), chosen)


def assert_has(answer: dict[str, Any], fields: dict[str, Any]) -> None:
    assert answer["distribution"] == pytest.approx(fields["distribution"])
    assert answer["rules_left_out"] == fields["rules_left_out"]
