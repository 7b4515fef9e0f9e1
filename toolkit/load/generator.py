"""One process that generates load: predictions at Poisson times, and feedback later, out of order and partly twice.

When the time is up, the process repeats every request without a response until the outcome is known. This is safe,
because predictions have the client's ids and feedback counts once.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from toolkit.load import requests
from toolkit.load.client import Client
from toolkit.load.fleet import Part
from toolkit.load.ledger import OPEN, Stage
from toolkit.load.models import Example, examples
from toolkit.load.plan import Plan
from toolkit.load.requests import OK, Bound, MeasuredSender
from toolkit.load.timing import Histogram, Pacer, times_within

_LONGEST_PROBLEM = 300
_PAUSE = 0.2  # seconds before unanswered requests are repeated


class Generator:
    """The load of one process. Requests are numbered; request i has rounds i·batch to (i + 1)·batch - 1.

    Args:
        plan: the options of the load.
        process: the number of this process, from 0.
        models: names of the models, which it uses in turn.
    """

    def __init__(self, plan: Plan, process: int, models: Sequence[str]) -> None:
        self.part = Part()
        self._plan, self._process, self._models = plan, process, models
        self._ledger = self.part.ledger
        self._examples = examples(plan, process)
        self._rng = np.random.default_rng([plan.seed, 2, process])  # delays, duplicates, order
        times = np.random.default_rng([plan.seed, 3, process])
        self._arrivals = times_within(plan.rate / plan.processes, plan.warm_up + plan.seconds, times)
        self._n = 0  # predict requests so far

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of predictions, acknowledged feedback items and right predictions so far."""
        known = sum(
            map(self._ledger.count, (Stage.ANSWERED, Stage.FEEDBACK_SENT, Stage.ACKNOWLEDGED, Stage.FEEDBACK_REFUSED))
        )
        return known, self._ledger.count(Stage.ACKNOWLEDGED), self._ledger.correct.count(1)

    async def run(self, client: Client, start: float) -> Part:
        """Generate the load from `start`, in seconds of `time.perf_counter`, then settle all open rounds."""
        begins, self._ends = start + self._plan.warm_up, start + self._plan.warm_up + self._plan.seconds
        bound = Bound(self._plan.in_flight)
        self._client, self._start, self._pacer = client, start, Pacer()
        self._predictions, self._feedback = (MeasuredSender(client, bound, begins, self._ends) for _ in range(2))
        self.part.predict, self.part.feedback = self._predictions.measured, self._feedback.measured
        self._pacer.at(begins, self._begin)
        self._pacer.at(self._ends, self._end)
        self._over = asyncio.Event()
        self._plan_arrival()
        await self._over.wait()
        await bound.drained()
        self._pacer.stop()
        await self._settle()
        return self.part

    def _begin(self, _due: float) -> None:
        self._pacer.lag = self.part.lag = Histogram()
        self._cpu, self._began = time.process_time(), time.perf_counter()

    def _end(self, _due: float) -> None:
        self.part.cpu = (time.process_time() - self._cpu) / (time.perf_counter() - self._began)
        self._over.set()

    def _plan_arrival(self) -> None:
        time_ = next(self._arrivals, None)
        if time_ is not None:
            self._pacer.at(self._start + time_, self._arrive)

    def _arrive(self, due: float) -> None:
        i, self._n = self._n, self._n + 1
        rounds = self._ledger.add(self._plan.batch)
        if self._predictions.send(due, self._prediction(i), partial(self._answered, i)):
            self._ledger.advance(rounds, Stage.UNSENT, Stage.ASKED)
        self._plan_arrival()

    def _answered(self, i: int, status: int, body: bytes) -> None:
        """Record the response to a predict request and schedule its feedback."""
        self._note_prediction(i, status, body)
        now = time.perf_counter()
        for _ in range(1 + (self._rng.random() < self._plan.duplicates)):
            due = now + self._rng.exponential(self._plan.delay)
            if due < self._ends:
                self._pacer.at(due, partial(self._tell, i))

    def _tell(self, i: int, due: float) -> None:
        rounds = self._to_tell(i)
        if rounds and self._feedback.send(due, self._feedback_on(i, rounds), partial(self._note_feedback, rounds)):
            self._ledger.advance(rounds, Stage.ANSWERED, Stage.FEEDBACK_SENT)

    def _rounds(self, i: int) -> range:
        return range(i * self._plan.batch, (i + 1) * self._plan.batch)

    def _to_tell(self, i: int) -> list[int]:
        """Return the rounds of a request with a known prediction, in random order."""
        known = {Stage.ANSWERED, Stage.FEEDBACK_SENT, Stage.ACKNOWLEDGED}
        rounds = [each for each in self._rounds(i) if self._ledger.stages[each] in known]
        if len(rounds) > 1:
            self._rng.shuffle(rounds)
        return rounds

    def _model(self, i: int) -> str:
        return self._models[i % len(self._models)]

    def _prediction(self, i: int) -> bytes:
        batch = self._plan.batch
        ids = [f"{self._process}.{each}" for each in self._rounds(i)]
        contexts = [self._example(each).context for each in self._rounds(i)]
        body = requests.predict_body(self._model(i), ids, contexts, batch)
        return self._client.target.request("POST", requests.predict_path(batch), body)

    def _feedback_on(self, i: int, rounds: Sequence[int]) -> bytes:
        items = []
        for each in rounds:
            truth = self._example(each).label if self._plan.true_labels else None
            correct = bool(self._ledger.correct[each])
            items.append(requests.feedback_item(self._model(i), f"{self._process}.{each}", correct, truth))
        body = requests.feedback_body(items, self._plan.batch)
        return self._client.target.request("POST", requests.feedback_path(self._plan.batch), body)

    def _example(self, round_: int) -> Example:
        return self._examples[round_ % len(self._examples)]

    def _note_prediction(self, i: int, status: int, body: bytes) -> None:
        for each, outcome in zip(
            self._rounds(i), requests.outcomes(status, body, self._plan.batch, self._plan.batch), strict=True
        ):
            if outcome.status == OK and self._ledger.stages[each] == Stage.ASKED:
                self._ledger.correct[each] = outcome.label == self._example(each).label
                self._ledger.advance([each], Stage.ASKED, Stage.ANSWERED)
            elif not requests.is_open(outcome.status):
                self._ledger.advance([each], Stage.ASKED, Stage.PREDICTION_REFUSED)
            self._note_problem(outcome.status, body)

    def _note_feedback(self, rounds: Sequence[int], status: int, body: bytes) -> None:
        for each, outcome in zip(rounds, requests.outcomes(status, body, len(rounds), self._plan.batch), strict=True):
            if outcome.status == OK:
                self._ledger.advance([each], Stage.FEEDBACK_SENT, Stage.ACKNOWLEDGED)
            elif not requests.is_open(outcome.status):
                self._ledger.advance([each], Stage.FEEDBACK_SENT, Stage.FEEDBACK_REFUSED)
            self._note_problem(outcome.status, body)

    def _note_problem(self, status: int, body: bytes) -> None:
        if status != OK:
            said = body[:_LONGEST_PROBLEM].decode(errors="replace")
            self.part.problems[f"{status}: {said}" if status else "no answer"] += 1

    async def _settle(self) -> None:
        deadline = time.perf_counter() + self._plan.settle
        while (left := self._open_requests()) and time.perf_counter() < deadline:
            queue = iter(left)
            await asyncio.gather(*(self._settle_from(queue, deadline) for _ in range(self._plan.connections)))
            if self._open_requests() == left:
                await asyncio.sleep(_PAUSE)

    def _open_requests(self) -> list[int]:
        stages = np.frombuffer(bytes(self._ledger.stages), dtype=np.uint8)
        requests: list[int] = np.unique(np.flatnonzero(np.isin(stages, OPEN)) // self._plan.batch).tolist()
        return requests

    async def _settle_from(self, queue: Iterator[int], deadline: float) -> None:
        for i in queue:
            if time.perf_counter() > deadline:
                return
            if any(self._ledger.stages[each] == Stage.ASKED for each in self._rounds(i)):
                self._note_prediction(i, *await self._client.ask(self._prediction(i)))
            if rounds := self._to_tell(i):
                self._ledger.advance(rounds, Stage.ANSWERED, Stage.FEEDBACK_SENT)
                self._note_feedback(rounds, *await self._client.ask(self._feedback_on(i, rounds)))
