"""Contexts, truths and feedback that chapters share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from learners.answers import answer_kind
from learners.base import AnyLearner, Problem
from tests.recordings.playing import Play
from tests.service.sample_models import some_contexts

LABELS = ["red", "green", "blue", "none"]
DENSE = {"kind": "dense", "size": 3}
PROBLEM = Problem(len(LABELS), 3, 1.0)


def form_of(learner: AnyLearner) -> str:
    if answer_kind(learner) in {"label-set", "ranking"}:
        return "ranking" if answer_kind(learner) == "ranking" else "set"
    return "true_label" if learner.needs_true_label else "correct"


def contexts(seed: int, n: int) -> list[list[float]]:
    rows = np.array(some_contexts(seed, n))
    scaled: list[list[float]] = np.round(0.9 * rows / np.linalg.norm(rows, axis=1, keepdims=True), 3).tolist()
    return scaled


def truth_of(context: Any, labels: Sequence[str]) -> str:
    if isinstance(context, list):
        return labels[int(np.argmax(context)) % len(labels)]
    return labels[sum(map(ord, str(context))) % len(labels)]


def verdict(form: str, answer: dict[str, Any], context: Any, labels: Sequence[str]) -> dict[str, Any]:
    truth, answered = truth_of(context, labels), answer["label"]
    if form == "set":
        given: dict[str, Any] = {"true_labels": [truth, labels[-1]] if truth != labels[-1] else [truth]}
    elif form == "ranking":
        given = {"true_labels": [truth, *(label for label in labels if label != truth)]}
    elif form == "true_label":
        given = {"true_label": truth}
    elif form == "reward":
        given = {"reward": 0.875 if answered == truth else 0.25 if answered > truth else 0.0}
    else:
        given = {"correct": answered == truth}
    return {"prediction_id": answer["prediction_id"]} | given


async def teach(
    play: Play, name: str, given: Sequence[Any], form: str = "correct", labels: Sequence[str] = LABELS, **fields: Any
) -> None:
    answer = await play.post("/predict/batch", {"model": name, "contexts": given, **fields})
    judged = [
        verdict(form, each, context, labels)
        for each, context in zip(answer["predictions"], given, strict=True)
        if "label" in each
    ]
    await play.post("/feedback/batch", {"feedback": judged})
