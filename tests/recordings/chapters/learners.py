"""One chapter for each learner of labels: everything that a model does, and how its distribution moves."""

import functools
from typing import Any

from learners.registry import ALL_LEARNERS
from tests.learners.implementations import IMPLEMENTATIONS
from tests.recordings.chapters.teaching import DENSE, LABELS, PROBLEM, contexts, form_of, teach, verdict
from tests.recordings.playing import Chapter, Play


async def _play(algorithm: str, play: Play) -> None:
    chosen = next(case for case in IMPLEMENTATIONS if case.learner is ALL_LEARNERS[algorithm]).at(PROBLEM)
    labels, form = LABELS[: chosen.problem.n_labels], form_of(chosen)
    name = await play.create("m", labels=labels, features=DENSE, learner={"algorithm": algorithm})
    await play.get(f"/models/{name}")
    await _single_predictions(play, name, labels)
    await _single_feedback(play, name, form, labels)
    await teach(play, name, contexts(1, 60), form, labels)
    await _look(play, name)
    await _items(play, name, form, labels)
    await _look(play, name)
    await _reports(play, name)
    await play.change(name, {"labels": {"add": ["grey"], "retire": [labels[1]]}})
    await _look(play, name)
    copy = play.name("copy")
    await play.post(f"/models/{name}/clone", {"name": copy})
    await teach(play, copy, contexts(3, 15), form, labels)
    await _look(play, copy)
    await play.send("GET", f"/models/{copy}/export")


async def _single_predictions(play: Play, name: str, labels: list[str]) -> None:
    x, other, *_ = contexts(4, 2)
    body: dict[str, Any] = {"model": name, "context": x}
    first = body | {"prediction_id": "p0", "include_distribution": True}
    for request in (
        first,
        first,
        first | {"context": other},
        body | {"prediction_id": "p1", "include_distribution": True, "eligible": labels[1:]},
        body | {"prediction_id": "p2", "baseline": labels[0]},
        body | {"prediction_id": "p3", "top": 2},
        body | {"prediction_id": "p4"},
        body,
    ):
        await play.post("/predict", request)


async def _single_feedback(play: Play, name: str, form: str, labels: list[str]) -> None:
    one: dict[str, Any] = {"prediction_id": f"{name}:{'p4' if form == 'ranking' else 'p0'}"}
    truth = {"set": {"true_labels": labels[:2]}, "ranking": {"true_labels": labels}}.get(form)
    right: dict[str, Any] = truth or {"true_label": labels[0]}
    for body in (
        one | {"correct": True},
        one | {"correct": True},
        one | {"reward": 0.5},
        one | {"true_labels": [labels[0]]},
        one | right,
        one | {"correct": False} | right,
        {"prediction_id": f"{name}:p1", "correct": False},
        {"prediction_id": f"{name}:p2", "reward": 0.25},
        {"prediction_id": f"{name}:p3:0", "true_label": labels[0]},
        {"prediction_id": f"{name}:p3", "correct": True},
        {"prediction_id": f"{name}:p4"} | right,
    ):
        await play.post("/feedback", body)


async def _items(play: Play, name: str, form: str, labels: list[str]) -> None:
    given = contexts(2, 30)
    items: list[dict[str, Any]] = [{"context": x, "prediction_id": f"i{n}"} for n, x in enumerate(given)]
    for item in items[:4]:
        item["eligible"] = labels[:2]
    items[4]["top"], items[5]["include_distribution"], items[6]["context"] = 3, True, [1.0]
    answers = (await play.post("/predict/batch", {"model": name, "items": items}))["predictions"]
    pairs = [pair for pair in zip(answers, given, strict=True) if pair[0].get("prediction_id") and not pair[0]["slots"]]
    judged = [verdict(form, answer, x, labels) for answer, x in pairs]
    slots = [{"prediction_id": f"{name}:i4:{n}", "correct": n == 1} for n in range(3)]
    contrary = judged[0] | {"correct": False, "true_label": labels[0]}
    await play.post("/feedback/batch", {"feedback": [*judged, *slots, judged[0], contrary, {"prediction_id": "a:b"}]})
    rewarded = (await play.post("/predict/batch", {"model": name, "contexts": contexts(5, 12)}))["predictions"]
    feedback = [
        verdict("reward", each, x, labels) for each, x in zip(rewarded, contexts(5, 12), strict=True) if each["label"]
    ]
    await play.post("/feedback/batch", {"feedback": feedback or [{"prediction_id": f"{name}:p2", "reward": 1.0}]})


async def _look(play: Play, name: str) -> None:
    body = {"model": name, "contexts": contexts(6, 2), "include_distribution": True}
    await play.post("/predict/batch", body)


async def _reports(play: Play, name: str) -> None:
    await play.publish(name)
    for path in ("", "/rounds?limit=6", "/rounds?after=60&limit=4", "/predictions", "/statistics", "/evaluation"):
        await play.send("GET", f"/models/{name}{path}")
    await play.post(f"/models/{name}/explain", {"context": contexts(7, 1)[0]})


CHAPTERS = [Chapter(algorithm, functools.partial(_play, algorithm)) for algorithm in ALL_LEARNERS]
