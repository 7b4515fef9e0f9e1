"""Every policy of a model: what it answers, what becomes a round, and when."""

import functools
from collections.abc import Sequence
from typing import Any

from tests.recordings.chapters.teaching import DENSE, LABELS, contexts, teach
from tests.recordings.playing import Chapter, Play

_WINDOW = 60.0


async def _read(play: Play, name: str) -> None:
    for path in ("", "/rounds", "/predictions"):
        await play.send("GET", f"/models/{name}{path}")


async def _holdouts(play: Play) -> None:
    for number, policy in enumerate(("uniform", "baseline", {"label": "green"})):
        name = await play.create(
            str(number), labels=LABELS, features=DENSE, holdout={"fraction": 0.4, "policy": policy}
        )
        given = contexts(number, 30)
        items = [{"context": x, "baseline": "blue", "include_distribution": n < 6} for n, x in enumerate(given)]
        items[7]["eligible"], items[8]["top"] = ["blue", "none"], 2
        answers = (await play.post("/predict/batch", {"model": name, "items": items}))["predictions"]
        judged = [
            {"prediction_id": each["prediction_id"], "correct": each["label"] == "blue"}
            for each in answers
            if each["label"]
        ]
        await play.post("/feedback/batch", {"feedback": judged})
        await play.post("/predict", {"model": name, "context": given[0]})
        await play.post("/predict", {"model": name, "context": given[0], "baseline": "none", "prediction_id": "b"})
        await play.send("GET", f"/models/{name}/rounds?limit=12")
        await play.publish(name)
        for path in ("", "/statistics", "/evaluation", "/predictions"):
            await play.send("GET", f"/models/{name}{path}")
        await play.change(name, {"holdout": None})
        await play.post("/predict", {"model": name, "context": given[1], "baseline": "none"})


async def _holdout_of_actions(play: Play) -> None:
    features = {"kind": "dense", "size": 1}
    given = [{"id": each, "features": [n / 4]} for n, each in enumerate(LABELS)]
    for number, policy in enumerate(("uniform", "baseline", {"label": "green"})):
        name = await play.create(
            str(number), actions={"features": features}, holdout={"fraction": 0.5, "policy": policy}
        )
        items = [{"actions": given[: 2 + n % 3], "baseline": "red"} for n in range(10)]
        answers = (await play.post("/predict/batch", {"model": name, "items": items})).get("predictions", [])
        judged = [{"prediction_id": each["prediction_id"], "correct": True} for each in answers if "label" in each]
        await play.post("/feedback/batch", {"feedback": judged})
        await play.send("GET", f"/models/{name}/rounds?limit=3")


_RULES: tuple[dict[str, Any], ...] = (
    {"floor": {"none": 0.3}, "cap": {"green": 0.2}},
    {"groups": {"warm": ["red", "green"]}, "cap": {"warm": 0.4}, "floor_each": 0.05},
)


async def _rules(play: Play) -> None:
    for number, rules in enumerate(_RULES):
        name = await play.create(str(number), labels=LABELS, features=DENSE, rules=rules)
        await teach(play, name, contexts(number, 20))
        items: list[Any] = [{"context": x, "include_distribution": True} for x in contexts(number + 5, 4)]
        items[1]["eligible"], items[2] = ["red", "green"], {"context": items[2]["context"], "top": 3}
        await play.post("/predict/batch", {"model": name, "items": items})
        one = {"model": name, "context": contexts(1, 1)[0], "eligible": ["green"], "prediction_id": "one"}
        await play.post("/predict", one)
        await play.post("/predict", one)
        await play.publish(name)
        for path in ("", "/statistics"):
            await play.send("GET", f"/models/{name}{path}")
        await play.change(name, {"labels": {"retire": ["green"]}})
        await play.change(name, {"rules": {"floor": {"none": 0.7, "red": 0.4}}})
        await play.change(name, {"rules": None})


async def _rules_of_actions(play: Play) -> None:
    features, rules = {"kind": "dense", "size": 1}, {"floor": {"own": 0.5}, "cap": {"ad": 0.1}}
    name = await play.create("r", actions={"features": features, "log_actions": "all"}, rules=rules)
    given = [{"id": each, "features": [n / 4]} for n, each in enumerate(LABELS)]
    tagged = [given[0] | {"tag": "own"}, given[1] | {"tag": "ad"}, given[2], given[3] | {"tag": "else"}]
    for actions in (tagged, given, tagged[1:2]):
        asked = {"model": name, "actions": actions, "include_distribution": True}
        answer = await play.post("/predict", asked)
        await play.post("/feedback", {"prediction_id": answer["prediction_id"], "correct": True})
    await play.send("GET", f"/models/{name}/rounds")


_COSTS = {"red": 0.5, "blue": 1.0, "none": 2.0}


async def _costs(play: Play) -> None:
    name = await play.create("c", labels=LABELS, features=DENSE, costs=_COSTS, cost_weight=0.5)
    await teach(play, name, contexts(1, 20))
    one: dict[str, Any] = {"model": name, "context": contexts(2, 1)[0], "include_distribution": True}
    for given in (
        {},
        {"cost_weight": 0.0},
        {"costs": {"green": 0.75}},
        {"costs": {"pink": 1.0}},
        {"cost_weight": -1.0},
    ):
        await play.post("/predict", one | given)
    await play.post("/predict", one | {"costs": {"green": 0.75}, "prediction_id": "p"})
    await play.post("/feedback", {"prediction_id": f"{name}:p", "correct": True})
    await play.publish(name)
    for path in (
        f"/predictions/{name}:p",
        *(f"/models/{name}{each}" for each in ("", "/statistics", "/rounds?limit=3")),
    ):
        await play.send("GET", path)
    await play.change(name, {"costs": {"red": 1.0}, "cost_weight": 0.25})
    await play.change(name, {"costs": {"pink": 1.0}})
    await play.change(name, {"budget": {"cost": 0.5}})
    await play.create("g", labels=LABELS, features=DENSE, learner="gaptron", costs=_COSTS)
    actions = [{"id": "a", "features": [0.5], "cost": 1.0}, {"id": "b", "features": [0.5]}]
    of_actions = await play.create("a", actions={"features": {"kind": "dense", "size": 1}}, cost_weight=0.1)
    await play.post("/predict", {"model": of_actions, "actions": actions, "include_distribution": True})


async def _budgets(play: Play) -> None:
    closing = {"on_expiry": "incorrect", "window_seconds": 60.0, "learn": "on_arrival"}
    name = await play.create("b", labels=LABELS, features=DENSE, costs=_COSTS, budget={"cost": 0.4}, **closing)
    await play.send("GET", f"/models/{name}/statistics")
    for seed in range(3):
        await teach(play, name, contexts(seed, 20))
    await play.post("/predict", {"model": name, "context": contexts(9, 1)[0], "prediction_id": "p"})
    await play.publish(name)
    for path in (f"/predictions/{name}:p", f"/models/{name}", f"/models/{name}/statistics"):
        await play.send("GET", path)
    await play.post("/predict", {"model": name, "context": contexts(9, 1)[0], "cost_weight": 1.0})
    await play.change(name, {"budget": {"cost": 0.8}})
    await play.change(name, {"budget": {"cost": -0.8}})
    await play.change(name, {"on_expiry": "drop"})


async def _vectors(play: Play) -> None:
    fields = {"user.embedding": {"type": "vector", "size": 3, "precision": "float32", "required": True}}
    name = await play.create("v", labels=LABELS, features={"kind": "named", "fields": fields})
    for numbers in ([0.1, -2.5, 3], [0.1, 0.2], [0.1, None, 1], [0.1, [0.2], 1], "none", None):
        context = {"user": {"embedding": numbers, "age": 41}}
        await play.post("/predict", {"model": name, "context": context, "prediction_id": None})
    await play.post("/predict", {"model": name, "context": {"user": {"embedding": [1, 2, 3]}}, "prediction_id": "p"})
    await play.post("/feedback", {"prediction_id": f"{name}:p", "correct": True})
    for path in (f"/predictions/{name}:p", f"/models/{name}/rounds"):
        await play.send("GET", path)


async def _decisions_explained(play: Play) -> None:
    rules, holdout = {"floor": {"none": 0.3}}, {"fraction": 0.3, "policy": {"label": "green"}}
    name = await play.create("d", labels=LABELS, features=DENSE, rules=rules, holdout=holdout)
    await teach(play, name, contexts(1, 20))
    own = [f"{name}:p{n}" for n in range(5)]
    for n, x in enumerate(contexts(2, 4)):
        eligible = {"eligible": ["red", "green"]} if n == 1 else {}
        await play.post("/predict", {"model": name, "context": x, "prediction_id": own[n], **eligible})
    await play.post("/predict", {"model": name, "context": x, "prediction_id": "p4", "top": 2})
    await play.change(name, {"labels": {"add": ["pink"]}, "rules": None, "holdout": None})
    await play.post("/feedback", {"prediction_id": own[0], "true_label": "red"})
    await play.post("/feedback", {"prediction_id": f"{own[4]}:0", "reward": 0.5})
    for each in (*own[:4], f"{own[4]}:0", f"{own[4]}:1", own[4], f"{name}:nothing", "nobody:p", "p0"):
        await play.send("GET", f"/predictions/{each}")
    logging = await play.create("l", labels=LABELS, features=DENSE, mode="logging")
    await play.post("/predict", {"model": logging, "context": x, "prediction_id": "p"})
    await play.send("GET", f"/predictions/{logging}:p")


async def _decisions_among_actions(play: Play) -> None:
    given = [{"id": each, "features": [n / 4], "tag": "own"} for n, each in enumerate(LABELS)]
    for log_actions in ("all", "chosen"):
        actions = {"features": {"kind": "dense", "size": 1}, "log_actions": log_actions}
        name = await play.create(log_actions, actions=actions, rules={"floor": {"ad": 0.2}})
        await play.post("/predict", {"model": name, "actions": given, "prediction_id": "p"})
        await play.send("GET", f"/predictions/{name}:p")
        await play.post("/feedback", {"prediction_id": f"{name}:p", "correct": True})
        await play.send("GET", f"/predictions/{name}:p")


async def _modes(play: Play) -> None:
    for mode in ("online", "logging", "frozen"):
        name = await play.create(mode, labels=LABELS, features=DENSE, mode=mode)
        body: dict[str, Any] = {"model": name, "context": contexts(1, 1)[0]}
        fields: list[dict[str, Any]] = [
            {"policy": {"red": 0.25, "blue": 0.75}}, {"policy": {"green": 1.0}}, {}, {"eligible": ["red", "none"]},
             {"policy": {"red": 0.5, "blue": 0.5}, "eligible": ["red", "none"]}, {"policy": {"red": 0.5}},
             {"policy": {"pink": 1.0}}, {"policy": {"red": 0.5, "none": 0.5}, "top": 2}, {"top": 2},
             {"include_distribution": True},
        ]  # fmt: skip
        for number, more in enumerate(fields):
            await play.post("/predict", body | {"prediction_id": f"p{number}"} | more)
        for own in ("p0", "p1", "p2"):
            await play.post("/feedback", {"prediction_id": f"{name}:{own}", "correct": own != "p2"})
        await teach(play, name, contexts(2, 20))
        await play.post("/predict/batch", {"model": name, "contexts": contexts(3, 2), "include_distribution": True})
        await play.send("GET", f"/models/{name}/rounds?limit=6")
        await play.send("GET", f"/models/{name}/evaluation")
        other = {"online": "frozen", "logging": "online", "frozen": "logging"}[mode]
        await play.change(name, {"mode": other})
        await teach(play, name, contexts(4, 5))
        await play.post("/predict/batch", {"model": name, "contexts": contexts(3, 2), "include_distribution": True})


async def _expiry(on_expiry: Any, play: Play) -> None:
    for learn in ("on_arrival", "at_window_close", None):
        for late in ("reject", "accept"):
            given = {"on_expiry": on_expiry, "late_feedback": late, "window_seconds": _WINDOW}
            given |= {} if learn is None else {"learn": learn}
            name = play.name(f"{learn}-{late}")
            body = {"name": name, "labels": LABELS, "features": DENSE, **given}
            if (await play.send("POST", "/models", body)).status_code != 201:
                continue
            await _expire(play, name)


async def _expire(play: Play, name: str) -> None:
    items: list[dict[str, Any]] = [{"context": x, "prediction_id": f"p{n}"} for n, x in enumerate(contexts(5, 8))]
    items[5] |= {"activated": False}
    items[6] |= {"top": 2}
    items[7] |= {"activated": False}
    await play.post("/predict/batch", {"model": name, "items": items})
    await _judge(play, name, [("p0", True), ("p1", False), ("p5", True), ("p6:1", True)])
    await play.post("/activate", {"prediction_id": f"{name}:p5"})
    await play.post("/activate", {"prediction_id": f"{name}:p5"})
    await _judge(play, name, [("p5", True)])
    await play.send("GET", f"/models/{name}/predictions")
    await play.wait(_WINDOW + 10.0)
    await _read(play, name)
    await _judge(play, name, [("p0", True), ("p0", False), ("p2", True), ("p7", True), ("p6:0", False)])
    await play.post("/activate", {"prediction_id": f"{name}:p7"})
    await play.send("GET", f"/models/{name}/rounds?after=3")
    await play.post("/predict", {"model": name, "context": items[0]["context"], "include_distribution": True})
    await play.wait(3700.0)
    await _judge(play, name, [("p3", True)])
    await play.send("GET", f"/models/{name}")


async def _judge(play: Play, name: str, given: Sequence[tuple[str, bool]]) -> None:
    for own, correct in given:
        await play.post("/feedback", {"prediction_id": f"{name}:{own}", "correct": correct})


async def _windows(play: Play) -> None:
    name = await play.create("w", labels=LABELS, features=DENSE, window_seconds=100.0)
    for number, window in enumerate((100.0, 1000.0, 10.0)):
        await play.change(name, {"window_seconds": window})
        await play.post("/predict", {"model": name, "context": contexts(6, 1)[0], "prediction_id": f"p{number}"})
    for seconds in (50.0, 100.0, 1000.0):
        await play.wait(seconds)
        await play.send("GET", f"/models/{name}/predictions")
        await _judge(play, name, [("p0", True), ("p1", False), ("p2", True)])
    await play.publish(name)
    await play.get(f"/models/{name}/statistics")


async def _retention(play: Play) -> None:
    few = await play.create("few", labels=LABELS, features=DENSE, retain_rounds=5)
    short = await play.create("short", labels=LABELS, features=DENSE, retain_seconds=60.0)
    for name in (few, short):
        await teach(play, name, contexts(7, 20))
        await play.send("GET", f"/models/{name}/rounds?limit=3")
    await play.wait(300.0)
    for name in (few, short):
        await teach(play, name, contexts(8, 3))
        await play.trim(name)
        await _read(play, name)
        await play.send("GET", f"/models/{name}/rounds?after=2&limit=2")
        await play.send("GET", f"/models/{name}/evaluation?rounds=10")
        await play.change(name, {"retain_rounds": 0, "retain_seconds": None})
        await play.post("/predict/batch", {"model": name, "contexts": contexts(6, 2), "include_distribution": True})


async def _freshness(play: Play) -> None:
    name = await play.create("f", labels=LABELS, features=DENSE, freshness={"max_lag_seconds": 5.0})
    await play.post("/predict", {"model": name, "context": contexts(6, 1)[0], "include_distribution": True})
    await play.change(name, {"freshness": {}})
    await teach(play, name, contexts(7, 10))
    await play.post("/predict", {"model": name, "context": contexts(6, 1)[0], "include_distribution": True})
    await play.get(f"/models/{name}")


_FLAGS = "/ofrep/v1/evaluate/flags"


async def _flags(play: Play) -> None:
    values, sticky = {"red": {"color": "#f00"}, "green": {"color": "#0f0"}}, {"bulk": True, "sticky_seconds": 30.0}
    name = await play.create("flag", labels=LABELS, features={"kind": "named"}, values=values, ofrep=sticky)
    plain = await play.create("plain", labels=LABELS, ofrep={"bulk": True, "sticky_seconds": 0})
    contexts_: list[Any] = [
        {"targetingKey": "u", "age": 41}, {"targetingKey": "u", "age": 41.0}, {"targetingKey": "v", "tags": ["a"]}, {},
        {"targetingKey": ""}, {"targetingKey": 7}, {"targetingKey": "u", "user": {"tags": [[1]]}}, [], None,
    ]  # fmt: skip
    for context in contexts_:
        for path in (f"/{name}", f"/{plain}", "/nothing", ""):
            await play.post(f"{_FLAGS}{path}", {"context": context})
    bodies: list[Any] = [{}, [], {"later": 1, "context": {"targetingKey": "u"}}]
    for body in bodies:
        await play.post(f"{_FLAGS}/{name}", body)
    made = await play.post(f"{_FLAGS}/{name}", {"context": {"targetingKey": "w"}})
    await play.post("/feedback", {"prediction_id": made["metadata"]["predictionId"], "correct": True})
    everything = await play.send("POST", _FLAGS, {"context": {"targetingKey": "w"}})
    shown = next(each for each in everything.json()["flags"] if each["key"] == name)["metadata"]["predictionId"]
    await play.post("/feedback", {"prediction_id": shown, "correct": True})
    await play.post("/activate", {"prediction_id": shown})
    await play.post("/feedback", {"prediction_id": shown, "correct": True})
    await play.change(plain, {"ofrep": {}})
    tag = (await play.send("POST", _FLAGS, {"context": {"targetingKey": "w"}})).headers["etag"]
    await play.post(_FLAGS, {"context": {"targetingKey": "w"}}, if_none_match=tag)
    await play.wait(30.0)
    await play.post(f"{_FLAGS}/{name}", {"context": {"targetingKey": "w"}})
    await play.change(name, {"labels": {"retire": ["red"]}, "values": {"green": 1, "blue": 1.5, "none": 2}})
    await play.post(f"{_FLAGS}/{name}", {"context": {"targetingKey": "w"}})
    await play.change(name, {"values": {"pink": 1}})
    await play.change(name, {"values": {"green": None}})
    dense = await play.create("dense", labels=LABELS, features=DENSE)
    await play.post(f"{_FLAGS}/{dense}", {"context": {"targetingKey": "w"}})
    await play.change(dense, {"ofrep": {"bulk": True}})
    for path in (f"{_FLAGS}/{name}", "/ofrep/v1/configuration", f"/models/{name}/predictions"):
        await play.send("GET", path)


_CHANGES: list[dict[str, Any]] = [
    {"window_seconds": 600.0}, {"late_feedback": "accept"}, {"on_expiry": "incorrect", "window_seconds": 60.0},
    {"late_feedback": "reject", "on_expiry": "incorrect", "window_seconds": 60.0}, {"on_expiry": {"reward": 0.25}},
    {"on_expiry": {"reward": 0.25}, "window_seconds": 60.0}, {"learn": "on_arrival"}, {"learn": "at_window_close"},
    {"on_expiry": "drop"}, {"learn": "on_arrival"}, {"retain_rounds": 1000}, {"retain_seconds": 3600.0},
    {"mode": "logging"}, {"mode": "frozen"}, {"mode": "online"}, {"holdout": {"fraction": 0.5, "policy": "uniform"}},
    {"holdout": {"fraction": 0.25, "policy": {"label": "red"}}}, {"labels": {"retire": ["red"]}},
    {"holdout": None, "labels": {"retire": ["red"], "add": ["grey"]}}, {"freshness": {"max_lag_seconds": 2.5}},
    {"freshness": {}}, {"reward": "clicks"}, {"reward": "rating"},
    {"rules": {"floor": {"blue": 0.1}}}, {"rules": {"floor": {"blue": 0.1}, "cap": {}}},
    {"labels": {"retire": ["blue"]}}, {"rules": None}, {},
    {"labels": {}}, {"labels": None}, {"mode": "online"}, {"window_seconds": 60.0},
]  # fmt: skip


async def _patches(play: Play) -> None:
    name = await play.create("p", labels=LABELS, features=DENSE, reward="value")
    stale = (await play.send("GET", f"/models/{name}")).headers["etag"]
    for body in _CHANGES:
        fresh = (await play.send("GET", f"/models/{name}")).headers["etag"]
        await play.change(name, body, fresh)
        await teach(play, name, contexts(9, 3))
    for versions in (stale, '"other", *', "W/" + stale, "", "no quotes", f'{stale}, "x"'):
        await play.change(name, {"window_seconds": 9.0}, versions)
    await play.send("PATCH", f"/models/{name}", {"window_seconds": 9.0})
    await play.get(f"/models/{name}/changes")
    await play.get(f"/models/{name}/changes?after=3&limit=2")
    await play.wait(100.0)
    await _read(play, name)


CHAPTERS = [
    Chapter("holdout", _holdouts),
    Chapter("holdout-actions", _holdout_of_actions),
    Chapter("rules", _rules),
    Chapter("rules-of-actions", _rules_of_actions),
    Chapter("costs", _costs),
    Chapter("budgets", _budgets),
    Chapter("vectors", _vectors),
    Chapter("decisions-explained", _decisions_explained),
    Chapter("decisions-among-actions", _decisions_among_actions),
    Chapter("modes", _modes),
    Chapter("expiry-drop", functools.partial(_expiry, "drop")),
    Chapter("expiry-incorrect", functools.partial(_expiry, "incorrect")),
    Chapter("expiry-reward", functools.partial(_expiry, {"reward": 0.25})),
    Chapter("windows", _windows),
    Chapter("retention", _retention),
    Chapter("freshness", _freshness),
    Chapter("flags", _flags),
    Chapter("patches", _patches),
]
