"""The costliest permitted model of every algorithm, alongside a small model in the same worker.

For each algorithm this measures the small model's p99 during predictions and feedback of the costly model, and the
longest standstill of the event loop. A standstill is the processor time of the loop's thread between two beats of a
heartbeat, so waits for a processor do not count.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import numpy as np
import pydantic
import uvloop

from benchmarks.measurements.blocking import client_of, latencies
from benchmarks.report import Row, at_most, print_rows, seen
from benchmarks.server import Server, running
from benchmarks.traffic import SMALL, ask, create_model, post, predictions
from learners.answers import answer_kind
from learners.base import AnyLearner, LearnerError, Problem
from learners.new_models import check_evidence_size, check_new, check_state_size, check_step_cost
from learners.registry import ALL_LEARNERS
from service.settings import Settings
from toolkit.load.client import Client

PER_SECOND = 100
STANDSTILL_MS = 50.0  # the promised bound
_MOST_FEATURES = 200_000  # a context must fit into a request
_BATCH_COST = 2_000_000_000  # multiply-adds
_BATCH_BYTES = 3_000_000

_COSTLY: dict[str, list[dict[str, Any]]] = {
    "adaboost-olm": [{"weak_learners": 5}, {"weak_learners": 1000}, {"weak_learner": "folklore"}],
    "bandit-reduction": [{"base": name} for name in ("fenchel-young", "folklore", "adaboost-olm")],
    "bandit-perceptrons-kernel": [{"max_support": n} for n in (1000, 100_000, 1_000_000)],
    "bandit-perceptrons-features": [{"degree": n} for n in (1, 4, 40)],
    "soba-low-rank": [{"max_updates": n, "max_nonzeros": 100_000} for n in (1000, 5000)],
    "fenchel-young-ranking": [{"polytope": name} for name in ("permutahedron", "birkhoff")],
}
"""Hyperparameters that make an algorithm slower, by algorithm."""


class Definition(NamedTuple):
    """A model to create."""

    learner: AnyLearner
    hyperparameters: dict[str, Any]

    @property
    def algorithm(self) -> str:
        """The name of the algorithm in the API."""
        return self.learner.algorithm

    @property
    def step_cost(self) -> int:
        """The multiply-adds of the costliest step."""
        d = self.learner.problem.n_features
        return max(self.learner.decide_cost(d), self.learner.fold_cost(d) + self.learner.fold_overhead)

    def __str__(self) -> str:
        problem, given = self.learner.problem, "".join(f", {n} {v}" for n, v in self.hyperparameters.items())
        return f"{self.algorithm}, K={problem.n_labels:,}, d={problem.n_features:,}{given}"


def costliest(cls: type[Any], limits: Settings) -> Definition:
    """Return the permitted definition with the highest step cost."""
    return max(_permitted(cls, limits), key=lambda definition: definition.step_cost)


def _permitted(cls: type[Any], limits: Settings) -> Iterator[Definition]:
    """Yield definitions with several numbers of labels, each with the most features that the limits permit."""
    for hyperparameters in _COSTLY.get(cls.algorithm, [{}]):
        for n_labels in (2, 3, 10, 30, 60, 90, 150, 300, 1000, 10_000):
            low, high = 0, _MOST_FEATURES
            while low < high:
                middle = (low + high + 1) // 2
                fits = _made(cls, n_labels, middle, hyperparameters, limits) is not None
                low, high = (middle, high) if fits else (low, middle - 1)
            if (learner := _made(cls, n_labels, low, hyperparameters, limits)) is not None:
                yield Definition(learner, hyperparameters)


def _made(cls: type[Any], K: int, d: int, hyperparameters: dict[str, Any], limits: Settings) -> AnyLearner | None:
    try:
        learner: AnyLearner = cls(problem=Problem(K, d), **hyperparameters)
        check_state_size(learner, limits.max_state_bytes)
        check_step_cost(learner, limits.max_step_cost)
        check_evidence_size(learner, limits.max_evidence_bytes)
        check_new(learner)
    except (pydantic.ValidationError, LearnerError):
        return None
    return learner


def create(server: Server, name: str, definition: Definition) -> None:
    """Create a model with that definition."""
    problem = definition.learner.problem
    body = {
        "name": name,
        "labels": [str(k) for k in range(problem.n_labels)],
        "features": {"kind": "dense", "size": problem.n_features, "norm": "scale", "intercept": False},
        "learner": {"algorithm": definition.algorithm} | definition.hyperparameters,
        "retain_rounds": 0,
    }
    httpx2.post(f"http://127.0.0.1:{server.port}/models", json=body, timeout=60.0).raise_for_status()


def batch(name: str, definition: Definition) -> bytes:
    """Return a request for as many predictions as take a few seconds or fit into one request."""
    d = definition.learner.problem.n_features
    n = max(1, min(1000, _BATCH_COST // definition.learner.decide_cost(d), _BATCH_BYTES // (7 * d)))
    contexts = np.random.default_rng(1).normal(size=(n, d)).round(3).tolist()
    return post("/predict/batch", json.dumps({"model": name, "contexts": contexts}).encode())


async def teach(client: Client, request: bytes, definition: Definition) -> None:
    """Predict and give feedback, until cancelled."""
    K = definition.learner.problem.n_labels
    labels = [str(k) for k in range(K)]
    truth: dict[str, Any] = {
        "label-set": {"true_labels": labels[:1]},
        "ranking": {"true_labels": labels[::-1]},
    }.get(answer_kind(definition.learner), {"true_label": labels[1]})
    while True:
        made = json.loads(await ask(client, request))["predictions"]
        said = [{"prediction_id": each["prediction_id"]} | truth for each in made]
        await ask(client, post("/feedback/batch", json.dumps({"feedback": said}).encode()))


async def measure(server: Server, definition: Definition | None, seconds: float) -> tuple[float, float]:
    """Return the small model's p99 and the longest standstill, in milliseconds. Without a definition, it runs alone."""
    async with client_of(server) as client:
        teaching = None
        if definition is not None:
            teaching = asyncio.create_task(teach(client, batch(definition.algorithm, definition), definition))
        await ask(client, post("/bench/standstill", b"{}"))
        waits = await latencies(client, predictions(["small"], int(seconds * PER_SECOND), 1), seconds)
        standstill = json.loads(await ask(client, post("/bench/standstill", b"{}")))["cpu_seconds"]
        if teaching is not None:
            if teaching.done():
                teaching.result()
            teaching.cancel()
            await asyncio.wait([teaching])
    return float(np.quantile(waits, 0.99)) * 1000, standstill * 1000


def rows(seconds: float = 6.0, algorithms: tuple[str, ...] = tuple(ALL_LEARNERS)) -> list[Row]:
    """Return the table of the costliest models."""
    limits, table = Settings(), []
    for algorithm in algorithms:
        definition = costliest(ALL_LEARNERS[algorithm], limits)
        with running() as server:
            create_model(server, "small", SMALL, algorithm="gaptron")
            uvloop.run(measure(server, None, 1.0))  # warms up
            quiet, _ = uvloop.run(measure(server, None, seconds / 2))
            create(server, algorithm, definition)
            busy, standstill = uvloop.run(measure(server, definition, seconds))
        what = f"a small model's p99 alongside {definition}"
        table.append(seen(what, f"{busy:.2f} ms", f"{quiet:.2f} ms", busy / quiet))
        table.append(at_most("- the longest standstill of the event loop", standstill, STANDSTILL_MS, "ms", 1.0))
    return table


if __name__ == "__main__":
    import sys

    print_rows("The costliest models", rows(algorithms=tuple(sys.argv[1:]) or tuple(ALL_LEARNERS)))
