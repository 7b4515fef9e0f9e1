"""Durable decisions per second of one worker in batches, compared with Vowpal Wabbit in one process without storage.

A decision is a prediction and its feedback.
"""

import importlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import uvloop

from benchmarks.report import Row, at_least, of_goal, print_rows
from benchmarks.server import Server, running
from benchmarks.traffic import REPEATS, SMALL, create_model, drive, post

ITEMS, CONNECTIONS = 500, 2
WANTED = 115_000  # decisions per second
WANTED_OF_VOWPAL = 2.2
LEARNERS = ("gaptron", "fastcb")


class Played(NamedTuple):
    """The measurements of a run."""

    rate: float  # decisions per second
    busy: float  # processor seconds of the worker per decision
    store_busy: float  # processor seconds of the store per decision


def prediction_batches(name: str, batches: int, seed: int) -> Iterator[bytes]:
    """Return requests for `ITEMS` predictions each."""
    contexts = SMALL.contexts(batches * ITEMS, seed)
    parts = [contexts[start : start + ITEMS] for start in range(0, len(contexts), ITEMS)]
    return iter([post("/predict/batch", json.dumps({"model": name, "contexts": part}).encode()) for part in parts])


def feedback_batches(answers: Sequence[bytes]) -> Iterator[bytes]:
    """Return the feedback for each prediction in these answers; one in three is right."""
    return iter([post("/feedback/batch", json.dumps({"feedback": _feedback(answer)}).encode()) for answer in answers])


def _feedback(answer: bytes) -> list[dict[str, Any]]:
    predictions = json.loads(answer)["predictions"]
    return [{"prediction_id": p["prediction_id"], "correct": i % 3 == 0} for i, p in enumerate(predictions)]


def play(server: Server, name: str, batches: int, seed: int) -> Played:
    """Make all predictions, then give feedback on all of them."""

    async def seconds() -> float:
        made = await drive(server.port, prediction_batches(name, batches, seed), CONNECTIONS)
        given = await drive(server.port, feedback_batches(made.answers), CONNECTIONS)
        recorded = sum(body.count(b'"recorded"') for body in given.answers)
        if recorded != batches * ITEMS:
            raise RuntimeError(f"{recorded} of {batches * ITEMS} feedbacks were recorded")
        return made.seconds + given.seconds

    before, store_before, n = server.busy_seconds(), server.store_busy_seconds(), batches * ITEMS
    taken = uvloop.run(seconds())
    return Played(n / taken, (server.busy_seconds() - before) / n, (server.store_busy_seconds() - store_before) / n)


def vowpal_rate(n: int, seed: int) -> float:
    """Measure the decisions per second of `--cb_explore 10` on named features: one predict and one learn each."""
    pyvw = importlib.import_module("vowpalwabbit.pyvw")  # without types
    workspace = pyvw.Workspace(f"--cb_explore {SMALL.K} --quiet")
    rng = np.random.default_rng(seed)
    lines = ["| " + " ".join(f"x{i}:{x}" for i, x in enumerate(context)) for context in SMALL.contexts(n, seed)]
    uniforms = rng.random(n)
    started = time.perf_counter()
    for i, line in enumerate(lines):
        probabilities = workspace.predict(line)
        label = min(int(np.searchsorted(np.cumsum(probabilities), uniforms[i])), SMALL.K - 1)
        workspace.learn(f"{label + 1}:{-float(i % 3 == 0)}:{probabilities[label]} {line}")
    return n / (time.perf_counter() - started)


def learner_rows(server: Server, algorithm: str, batches: int) -> list[Row]:
    """Measure one learner, alternately with Vowpal Wabbit."""
    create_model(server, algorithm, algorithm=algorithm)
    play(server, algorithm, batches // 4, seed=99)
    runs = [(play(server, algorithm, batches, seed), vowpal_rate(4000, seed)) for seed in range(REPEATS)]
    rate, busy, store_busy = (float(np.median([played[i] for played, _ in runs])) for i in range(3))
    vowpal = float(np.median([of_vowpal for _, of_vowpal in runs]))
    what = f"durable decisions in batches of {ITEMS}, {algorithm}, {SMALL}"
    return [
        at_least(what + ", vs. Vowpal Wabbit", rate, vowpal, "/s", WANTED_OF_VOWPAL),
        of_goal(what + ", vs. the goal", rate, WANTED, "/s"),
        of_goal(f"... {algorithm}, if the worker had its own core", 1 / (busy or math.nan), WANTED, "/s"),
        of_goal(f"... {algorithm}, if the store had its own core", 1 / (store_busy or math.nan), WANTED, "/s"),
    ]


def rows(batches: int = 150) -> list[Row]:
    """Return the table of batches."""
    vowpal_rate(1000, seed=99)
    with running() as server:
        return [row for algorithm in LEARNERS for row in learner_rows(server, algorithm, batches)]


if __name__ == "__main__":
    print_rows("Batches", rows())
