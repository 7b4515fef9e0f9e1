"""Exactly once, against a model of the service in plain Python: two workers, one store, anything in any order."""

import asyncio
import itertools
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx2
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from learners.base import Contexts
from learners.codec import encode_state
from learners.features import within_bound
from service.model import stored_model
from service.replica import Replica
from service.store.redis_store import RedisStore
from tests.service.models import GAPTRON, LABELS, SOBA_DIAGONAL, Replay, bits, definition, some_contexts
from tests.service.workers import Clock, worker

WINDOW = 100.0
CONTEXTS = some_contexts(1, 4)
WORKERS = st.integers(0, 1)
SECONDS = st.sampled_from([1.0, 30.0, 60.0, 101.0])
SAID = st.sampled_from(
    [
        {"correct": True},
        {"correct": False},
        *({"true_label": label} for label in LABELS[:2]),
        {"correct": False, "true_label": "none"},
    ]
)
RUNS = settings(deadline=None, derandomize=True, max_examples=25, stateful_step_count=30, report_multiple_bugs=False)
_lives = itertools.count()


@dataclass
class Expected:
    """A prediction as plain Python remembers it."""

    answer: dict[str, Any]
    context: list[float]
    made_at: float
    outcome: dict[str, Any] | None = None  # correct, true_label and round, once there is feedback


@dataclass
class Life:
    """One life of a model: its predictions, and the fold of its rounds."""

    replay: Replay
    predictions: dict[str, Expected] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        """Rounds so far."""
        return len(self.replay.states) - 1

    def judge(self, prediction_id: str, said: dict[str, Any], now: float) -> tuple[int, str]:
        """What must become of feedback: the status of the answer, and its `status` or the problem's slug."""
        prediction = self.predictions.get(prediction_id)
        if prediction is None:
            return 404, "prediction-not-found"
        label, truth = prediction.answer["label"], said.get("true_label")
        correct = said.get("correct", truth == label)
        if truth is not None and correct != (truth == label):
            return 422, "inconsistent-feedback"
        truth = label if correct else truth
        if prediction.outcome is not None:
            return _compare(prediction.outcome, correct, truth)
        if now > prediction.made_at + WINDOW:
            return 404, "prediction-expired"
        prediction.outcome = {"correct": correct, "true_label": truth, "round": self.rounds + 1}
        self._learn(prediction, prediction.outcome)
        return 200, "recorded"

    def _learn(self, prediction: Expected, outcome: dict[str, Any]) -> None:
        told = {key: prediction.answer[key] for key in ("label", "propensity", "rounds_seen")}
        self.replay.add(told | outcome | {"context": prediction.context})


def _compare(first: dict[str, Any], correct: bool, truth: str | None) -> tuple[int, str]:
    differs = None not in (truth, first["true_label"]) and truth != first["true_label"]
    return (409, "feedback-conflict") if correct != first["correct"] or differs else (200, "duplicate")


class TwoWorkers(RuleBasedStateMachine):
    """Any requests to two workers of one store are answered as plain Python says."""

    store_url: ClassVar[str]
    choice: ClassVar[dict[str, Any]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.name = f"once-{next(_lives)}"
        self.running = [self._start(0), self._start(1)]
        self.life = self._create(0)

    def teardown(self) -> None:
        """Compares with a third worker and the log, and stops."""
        try:
            self.everything_is_as_the_log_says()
        finally:
            for context, _ in self.running:
                self.runner.run(context.__aexit__(None, None, None))
            self.runner.close()

    def _start(self, seed: int) -> tuple[AbstractAsyncContextManager[httpx2.AsyncClient], httpx2.AsyncClient]:
        context = worker(self.store_url, self.clock, seed)
        return context, self.runner.run(context.__aenter__())

    def _send(self, at: int, method: str, path: str, **body: Any) -> httpx2.Response:
        return self.runner.run(self.running[at][1].request(method, path, json=body or None))

    def _create(self, at: int) -> Life:
        body = definition(self.name, learner=self.choice, window_seconds=WINDOW)
        response = self._send(at, "POST", "/models", **body)
        assert response.status_code == 201
        return Life(Replay(response.json()))

    def _seen(self, context: list[float]) -> list[float]:
        """The context as the learner sees it."""
        row: list[float] = within_bound(Contexts.dense([context]), "unit", 1.0).values.tolist()
        return row

    @rule(at=WORKERS, own=st.integers(0, 5) | st.none(), x=st.integers(0, 3))
    def predict(self, at: int, own: int | None, x: int) -> None:
        """A prediction sees every round so far; one asked for again is the stored one, or a conflict."""
        prediction_id = None if own is None else f"p{own}"
        body = {
            "model": self.name,
            "context": CONTEXTS[x],
            "prediction_id": prediction_id,
            "include_distribution": True,
        }
        response = self._send(at, "POST", "/predict", **body)
        answer = response.json()
        known = self.life.predictions.get(f"{self.name}:{prediction_id}")
        if known is not None:
            same = known.context == self._seen(CONTEXTS[x])
            assert response.status_code == (200 if same else 409)
            assert not same or answer == known.answer | {"distribution": None}
            return
        assert (response.status_code, answer["rounds_seen"]) == (200, self.life.rounds)
        assert list(answer["distribution"].values()) == self.life.replay.distribution(CONTEXTS[x])
        assert answer["propensity"] == answer["distribution"][answer["label"]]
        expected = Expected(answer, self._seen(CONTEXTS[x]), self.clock.now)
        self.life.predictions[answer["prediction_id"]] = expected

    @precondition(lambda self: self.life.predictions)
    @rule(at=WORKERS, said=SAID, data=st.data())
    def judge(self, at: int, said: dict[str, Any], data: st.DataObject) -> None:
        """Feedback is recorded once, and whatever follows is a duplicate or a conflict."""
        prediction_id = data.draw(st.sampled_from(sorted(self.life.predictions)))
        self._judge(at, prediction_id, said)

    @rule(at=WORKERS, said=SAID)
    def judge_the_unknown(self, at: int, said: dict[str, Any]) -> None:
        """Feedback for a prediction that was never made in this life of the model is unknown."""
        self._judge(at, f"{self.name}:never", said)

    def _judge(self, at: int, prediction_id: str, said: dict[str, Any]) -> None:
        expected = self.life.judge(prediction_id, said, self.clock.now)
        response = self._send(at, "POST", "/feedback", prediction_id=prediction_id, **said)
        answer = response.json()
        slug = answer.get("type", "").removeprefix("urn:wager:problem:")
        assert (response.status_code, slug or answer["status"]) == expected
        if response.status_code == 200:
            outcome = self.life.predictions[prediction_id].outcome
            assert outcome is not None
            assert (answer["correct"], answer["round"]) == (outcome["correct"], outcome["round"])

    @precondition(lambda self: self.life.predictions)
    @rule(said=st.lists(SAID, min_size=4, max_size=4), data=st.data())
    def judge_at_once(self, said: list[dict[str, Any]], data: st.DataObject) -> None:
        """Of feedback that reaches both workers at the same moment, plain Python allows some order."""
        prediction_id = data.draw(st.sampled_from(sorted(self.life.predictions)))
        answers = self.runner.run(self._race(prediction_id, said))
        order = sorted(range(4), key=lambda i: answers[i].json().get("status") != "recorded")
        for i in order:
            status, told = self.life.judge(prediction_id, said[i], self.clock.now)
            answer = answers[i].json()
            slug = answer.get("type", "").removeprefix("urn:wager:problem:")
            assert (answers[i].status_code, slug or answer["status"]) == (status, told)

    async def _race(self, prediction_id: str, said: list[dict[str, Any]]) -> list[httpx2.Response]:
        bodies = [{"prediction_id": prediction_id} | each for each in said]
        clients = itertools.cycle(client for _, client in self.running)
        return list(await asyncio.gather(*(c.post("/feedback", json=b) for c, b in zip(clients, bodies, strict=False))))

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: float) -> None:
        """Windows close."""
        self.clock.now += seconds

    @rule(at=WORKERS)
    def restart(self, at: int) -> None:
        """A worker is a cache: nothing is different after its end and another's start."""
        self.runner.run(self.running[at][0].__aexit__(None, None, None))
        self.running[at] = self._start(at)

    @rule(at=WORKERS, made_by=WORKERS)
    def delete_and_make_again(self, at: int, made_by: int) -> None:
        """A new life has nothing of the old one."""
        assert self._send(at, "DELETE", f"/models/{self.name}").status_code == 204
        self.life = self._create(made_by)

    @invariant()
    def counters_are_right(self) -> None:
        """Rounds are the predictions that got feedback, no more and no less."""
        model = self._send(0, "GET", f"/models/{self.name}").json()
        outcomes = [p.outcome for p in self.life.predictions.values() if p.outcome is not None]
        correct = sum(outcome["correct"] for outcome in outcomes)
        told = (model["rounds_seen"], model["predictions"], model["correct"])
        assert told == (len(outcomes), len(self.life.predictions), correct)

    def everything_is_as_the_log_says(self) -> None:
        """The log is the recorded rounds in order, and a fresh worker's state is its fold, to the bit."""
        lines = self._send(1, "GET", f"/models/{self.name}/rounds").text.splitlines()
        assert len(lines) == self.life.rounds
        assert self.runner.run(self._fresh_state()) == bits(self.life.replay.states[-1])

    async def _fresh_state(self) -> list[bytes]:
        store = RedisStore(self.store_url, timeout=5.0)
        try:
            stored = await store.get_model(self.name)
            assert stored is not None
            replica = Replica(stored_model(stored), store)
            async with replica.lock:
                await replica.catch_up()
            snapshot = await store.load_snapshot(stored.key)
        finally:
            await store.close()
        if snapshot is not None:
            expected = self.life.replay.states[snapshot.rounds]
            assert snapshot.state == encode_state(replica.model.learner, expected)
        return bits(replica.state)


@pytest.mark.parametrize("choice", [SOBA_DIAGONAL, GAPTRON], ids=lambda choice: str(choice["algorithm"]))
def test_two_workers_do_as_plain_python_says(store_url: str, choice: dict[str, Any]) -> None:
    """Predictions, repetitions, contradictions, expiry, deletion and restarts over two workers match the model."""

    class OnThisStore(TwoWorkers):
        """The machine, with its store and learner."""

    OnThisStore.store_url, OnThisStore.choice = store_url, choice
    run_state_machine_as_test(OnThisStore, settings=RUNS)
