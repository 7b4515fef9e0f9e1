"""Models with actions: every learner with several kinds of features, and every form of a request."""

import functools
from typing import Any

import numpy as np

from learners.registry import ACTION_LEARNERS
from tests.recordings.playing import Chapter, Play
from tests.service.actions.catalogue import SHOES

_NAMED = {"kind": "named", "size": 16}
_KINDS: dict[str, dict[str, Any]] = {
    "named": {
        "features": _NAMED,
        "actions": {"features": _NAMED, "interactions": [["user", "item"]], "log_actions": "all"},
    },
    "dense": {
        "features": {"kind": "dense", "size": 2},
        "actions": {"features": {"kind": "dense", "size": 2}, "log_actions": "chosen"},
    },
    "sparse": {"actions": {"features": {"kind": "sparse", "size": 9}}},
}


def _request(kind: str, number: int, n: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng([7, number])
    x = np.round(rng.random((n + 1, 2)) * 0.7, 3).tolist()
    if kind == "dense":
        return {"context": x[n], "actions": [{"id": f"a{i}", "features": x[i]} for i in range(n)]}
    if kind == "sparse":
        rows = [{"indices": [i % 9, (i + number) % 4 + 5], "values": x[i]} for i in range(n)]
        return {"actions": [{"id": f"a{i}", "features": row} for i, row in enumerate(rows)]}
    items = [{"id": f"a{i}", "features": {"item": {"price": x[i][0], "colour": SHOES[i % 3]["id"]}}} for i in range(n)]
    return {"context": {"user": {"age": x[n][0], "tags": ["new"] if number % 2 else []}}, "actions": items}


def _judged(answer: dict[str, Any], number: int) -> dict[str, Any]:
    given = {"reward": 0.75} if number % 3 == 0 else {"correct": answer["label"] in {"a1", "a3"}}
    return {"prediction_id": answer["prediction_id"]} | given


async def _play(algorithm: str, kind: str, play: Play) -> None:
    name = await play.create("m", **_KINDS[kind], learner={"algorithm": algorithm})
    await play.get(f"/models/{name}")
    await _single(play, name, kind)
    for start in (0, 40):
        items = [_request(kind, start + number, 2 + number % 4) for number in range(40)]
        items[3]["eligible"], items[4]["include_distribution"], items[5]["top"] = ["a0", "a1"], True, 2
        answer = await play.post("/predict/batch", {"model": name, "items": items})
        made = [each for each in answer["predictions"] if each.get("label")]
        await play.post("/feedback/batch", {"feedback": [_judged(each, n) for n, each in enumerate(made)]})
        looks = [_request(kind, 99) | {"include_distribution": True}, _request(kind, 98)]
        await play.post("/predict/batch", {"model": name, "items": looks, "include_distribution": True})
    await _reports(play, name, kind)


async def _single(play: Play, name: str, kind: str) -> None:
    body = {"model": name, **_request(kind, 1)}
    first = body | {"prediction_id": "p0", "include_distribution": True}
    changed = {**first, "actions": first["actions"][:2]}
    fields: list[dict[str, Any]] = [
        {"prediction_id": "p1", "eligible": ["a1", "a2"], "include_distribution": True},
        {"prediction_id": "p2", "top": 3},
        {"prediction_id": "p3", "baseline": "a1"},
        {"prediction_id": "p4", "activated": False},
        {"policy": {"a0": 1.0}},
        {"eligible": ["b"]},
        {"top": 9},
        {"actions": []},
        {"baseline": "b"},
    ]
    for more in fields:
        await play.post("/predict", body | more)
    for request in (first, first, changed):
        await play.post("/predict", request)
    await play.post("/activate", {"prediction_id": f"{name}:p4"})
    for own, given in (
        ("p0", {"correct": True}),
        ("p0", {"correct": True}),
        ("p0", {"reward": 0.5}),
        ("p1", {"true_label": "a1"}),
        ("p1", {"true_label": "a9"}),
        ("p2:0", {"reward": 0.25}),
        ("p2:2", {"correct": False}),
        ("p3", {"reward": 1.0}),
        ("p4", {"reward": 0.0}),
    ):
        await play.post("/feedback", {"prediction_id": f"{name}:{own}"} | given)


async def _reports(play: Play, name: str, kind: str) -> None:
    await play.publish(name)
    for path in ("", "/rounds?limit=5", "/predictions", "/statistics", "/evaluation"):
        await play.send("GET", f"/models/{name}{path}")
    await play.post(f"/models/{name}/explain", _request(kind, 5, 2))
    chosen = _request(kind, 6) | {"label": "a2", "propensity": 0.5, "reward": 0.5}
    drawn = _request(kind, 7) | {"true_label": "a0", "eligible": ["a0", "a1"]}
    await play.post(f"/models/{name}/rounds", {"source": "log", "offset": 0, "rounds": [chosen, drawn]})
    await play.send("GET", f"/models/{name}/rounds?after=80")
    await play.change(name, {"labels": {"add": ["a"]}})
    await play.post(f"/models/{name}/clone", {"name": play.name("copy")})
    await play.send("GET", f"/models/{play.name('copy')}/export")


CHAPTERS = [
    Chapter(f"actions-{algorithm}-{kind}", functools.partial(_play, algorithm, kind))
    for algorithm in ACTION_LEARNERS
    for kind in _KINDS
]
