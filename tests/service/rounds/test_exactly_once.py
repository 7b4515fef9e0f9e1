"""Exactly once, against a model of the service in plain Python: two workers, one store, anything in any order."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

import httpx2
import numpy as np
import pytest

from learners.base import Contexts
from learners.codec import encode_state
from learners.mathematics.norms import within_bound
from service.models.model import stored_model
from service.replicas.replica import Replica
from service.store.redis.redis_store import RedisStore
from tests.service.plain import WINDOW, Expected, Life
from tests.service.sample_models import COMPUTE, GAPTRON, LABELS, SOBA_DIAGONAL, Replay, bits, definition, some_contexts
from tests.service.workers import Clock, worker

CONTEXTS = some_contexts(1, 3)
SAID: list[dict[str, Any]] = [
    {"correct": True},
    {"correct": False},
    *({"true_label": label} for label in LABELS[:2]),
    {"correct": False, "true_label": "none"},
    {"correct": True, "true_label": "blue"},
]
# How often each thing is done, beside the others. Most of the time a service predicts and is told.
KINDS = {
    "predict": 18,
    "ask_again": 6,
    "judge": 12,
    "judge_the_closed": 6,
    "judge_at_once": 4,
    "judge_a_former_life": 2,
    "pass_time": 3,
    "restart": 2,
    "make_again": 1,
}

OUTCOMES = {
    "recorded",
    "duplicate",
    "feedback-conflict",
    "inconsistent-feedback",
    "prediction-expired",
    "prediction-not-found",
}
OPS = 250
"""Things done in one run."""


class Op(NamedTuple):
    """Something to do, at one of the two workers, with choices to be taken modulo what there is."""

    kind: str
    at: int
    which: int
    said: tuple[int, ...]


def random_ops(seed: int, n: int) -> list[Op]:
    """As many things to do, in any order."""
    rng = np.random.default_rng(seed)
    kinds = [kind for kind, times in KINDS.items() for _ in range(times)]
    return [
        Op(
            kinds[rng.integers(len(kinds))],
            int(rng.integers(2)),
            int(rng.integers(12)),
            tuple(rng.integers(len(SAID), size=4).tolist()),
        )
        for _ in range(n)
    ]


def slug_of(response: httpx2.Response) -> str:
    """The `status` of an answer, or the problem's name."""
    body = response.json()
    return str(body["status"] if "round" in body else body["type"].removeprefix("urn:wager:problem:"))


class TwoWorkers:
    """Two workers and their store, and beside them plain Python, which says what each answer must be."""

    lives = itertools.count()

    def __init__(self, store_url: str, choice: dict[str, Any]) -> None:
        self._store_url = store_url
        self._choice = choice
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.name = f"once-{next(self.lives)}"
        self.former: list[str] = []
        self.done: Counter[str] = Counter()
        self.running = [self._start(0), self._start(1)]
        self.life = self._create(0)

    def stop(self) -> None:
        """Stops the workers."""
        for context, _ in self.running:
            self.runner.run(context.__aexit__(None, None, None))
        self.runner.close()

    def do(self, op: Op) -> None:
        """Does something, and checks its answer and the model's counters."""
        getattr(self, op.kind)(op)
        model = self._send(op.at, "GET", f"/models/{self.name}").json()
        assert (model["rounds_seen"], model["predictions"], model["correct"]) == self.life.counters()

    def _start(self, seed: int) -> tuple[AbstractAsyncContextManager[httpx2.AsyncClient], httpx2.AsyncClient]:
        context = worker(self._store_url, self.clock, seed)
        return context, self.runner.run(context.__aenter__())

    def _send(self, at: int, method: str, path: str, **body: Any) -> httpx2.Response:
        return self.runner.run(self.running[at][1].request(method, path, json=body or None))

    def _create(self, at: int) -> Life:
        body = definition(self.name, learner=self._choice, window_seconds=WINDOW)
        response = self._send(at, "POST", "/models", **body)
        assert response.status_code == 201
        return Life(Replay(response.json()))

    def _one_of(self, ids: Sequence[str], op: Op) -> str:
        """One of the newest of these, or an id that was never used."""
        return ids[-1 - op.which % len(ids)] if ids else f"{self.name}:never"

    def predict(self, op: Op) -> None:
        """A prediction sees every round so far, and is drawn from the distribution after these."""
        own = f"p{op.which}" if op.which < 4 else None
        context = CONTEXTS[op.said[0] % len(CONTEXTS)]
        if f"{self.name}:{own}" in self.life.predictions:
            return self._repeat(op.at, f"{self.name}:{own}", context)
        asked = {"model": self.name, "context": context, "prediction_id": own, "include_distribution": True}
        response = self._send(op.at, "POST", "/predict", **asked)
        answer = response.json()
        assert (response.status_code, answer["rounds_seen"]) == (200, self.life.rounds)
        assert list(answer["distribution"].values()) == self.life.replay.distribution(context)
        assert answer["propensity"] == answer["distribution"][answer["label"]]
        seen = within_bound(Contexts.dense([context]), "unit", 1.0).values.tolist()
        self.life.predictions[answer["prediction_id"]] = Expected(answer, context, seen, self.clock.now)
        return None

    def ask_again(self, op: Op) -> None:
        """One of our own ids is asked for again, mostly with its own context."""
        known = [key for key in self.life.predictions if ":p" in key]
        if known:
            expected = self.life.predictions[self._one_of(known, op)]
            context = CONTEXTS[0] if op.said[0] == 0 else expected.given
            self._repeat(op.at, expected.answer["prediction_id"], context)

    def _repeat(self, at: int, prediction_id: str, context: list[float]) -> None:
        """A prediction asked for again is the stored one, or a conflict."""
        known = self.life.predictions[prediction_id]
        asked = {"model": self.name, "context": context, "prediction_id": prediction_id}
        response = self._send(at, "POST", "/predict", **asked)
        if context == known.given:
            assert response.json() == known.answer | {"distribution": None}
        else:
            assert (response.status_code, slug_of(response)) == (409, "prediction-conflict")

    def judge(self, op: Op) -> None:
        """Feedback is recorded once, where there is something open; else it is what plain Python says."""
        still = [key for key, each in self.life.predictions.items() if each.outcome is None]
        self._judge(op.at, self._one_of(still, op), SAID[op.said[0]])

    def judge_the_closed(self, op: Op) -> None:
        """What follows the first feedback is a duplicate or a conflict."""
        closed = [key for key, each in self.life.predictions.items() if each.outcome is not None]
        self._judge(op.at, self._one_of(closed, op), SAID[op.said[0]])

    def judge_a_former_life(self, op: Op) -> None:
        """Predictions of a deleted model are unknown to its successor."""
        self._judge(op.at, self._one_of(self.former, op), SAID[op.said[0]])

    def _judge(self, at: int, prediction_id: str, said: dict[str, Any]) -> None:
        expected = self.life.judge(prediction_id, said, self.clock.now)
        response = self._send(at, "POST", "/feedback", prediction_id=prediction_id, **said)
        assert (response.status_code, slug_of(response)) == expected
        self.done[expected[1]] += 1
        if response.status_code == 200:
            outcome = self.life.predictions[prediction_id].outcome
            assert outcome is not None
            assert (response.json()["correct"], response.json()["round"]) == (outcome["correct"], outcome["round"])

    def judge_at_once(self, op: Op) -> None:
        """Of feedback that reaches both workers at the same moment, plain Python allows some order."""
        prediction_id = self._one_of(list(self.life.predictions), op)
        said = [SAID[i] for i in op.said]
        answers = self.runner.run(self._race(prediction_id, said))
        for i in sorted(range(4), key=lambda i: slug_of(answers[i]) != "recorded"):
            expected = self.life.judge(prediction_id, said[i], self.clock.now)
            assert (answers[i].status_code, slug_of(answers[i])) == expected

    async def _race(self, prediction_id: str, said: list[dict[str, Any]]) -> list[httpx2.Response]:
        clients = itertools.cycle(client for _, client in self.running)
        bodies = [{"prediction_id": prediction_id} | each for each in said]
        return await asyncio.gather(*(next(clients).post("/feedback", json=body) for body in bodies))

    def pass_time(self, op: Op) -> None:
        """Windows close."""
        self.clock.now += [1.0, 30.0, 60.0, WINDOW + 1.0][op.which % 4]

    def restart(self, op: Op) -> None:
        """A worker is a cache: nothing is different after its end and another's start."""
        self.runner.run(self.running[op.at][0].__aexit__(None, None, None))
        self.running[op.at] = self._start(op.at)

    def make_again(self, op: Op) -> None:
        """A model deleted, and made again at either worker, has nothing of its former life."""
        assert self._send(op.at, "DELETE", f"/models/{self.name}").status_code == 204
        self.former = list(self.life.predictions)
        self.life = self._create(op.which % 2)

    def check_state(self) -> None:
        """The log is the recorded rounds in order, and a fresh worker's state is its fold, to the bit."""
        lines = self._send(1, "GET", f"/models/{self.name}/rounds").text.splitlines()
        assert len(lines) == self.life.rounds
        assert self.runner.run(self._fresh_state()) == bits(self.life.replay.states[-1])

    async def _fresh_state(self) -> list[bytes]:
        store = RedisStore(self._store_url, timeout=5.0)
        try:
            stored = await store.get_model(self.name)
            assert stored is not None
            replica = Replica(stored_model(stored), store, COMPUTE)
            await replica.catch_up()
            snapshot = await store.load_snapshot(stored.key)
        finally:
            await store.close()
        if snapshot is not None:
            expected = self.life.replay.states[snapshot.round_count]
            assert snapshot.state == encode_state(replica.model.learner, expected)
        return bits(replica.state)


@pytest.mark.parametrize("choice", [SOBA_DIAGONAL, GAPTRON], ids=lambda choice: str(choice["algorithm"]))
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
def test_two_workers_do_as_plain_python_says(store_url: str, choice: dict[str, Any], seed: int) -> None:
    """Predictions, repetitions, contradictions, expiry, deletion and restarts over two workers match the model."""
    workers = TwoWorkers(store_url, choice)
    try:
        for number, op in enumerate(random_ops(seed, OPS)):
            try:
                workers.do(op)
            except AssertionError as error:
                error.add_note(f"at operation {number}: {op}")
                raise
        workers.check_state()
    finally:
        workers.stop()
    assert set(workers.done) == OUTCOMES  # else this run has shown too little
