"""One process that generates load: predictions at Poisson times, and feedback later, out of order and partly repeated.

When the time is up, the process repeats unanswered requests until their outcomes are known, for at most `settle`
seconds. This is safe, because predictions have the client's ids and feedback is idempotent.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from service.json_values import JsonObject
from toolkit.load.client import NO_ANSWER, OK, Client
from toolkit.load.ledger import OPEN, PREDICTED, Ledger, Stage
from toolkit.load.loops import Bound, MeasuredSender
from toolkit.load.models import Example, examples
from toolkit.load.plan import Plan
from toolkit.load.timing import Histogram, Measured, Pacer, times_within

_LONGEST_PROBLEM = 300  # bytes of a response in `Result.problems`
_PAUSE = 0.2  # seconds before the next attempt to settle unanswered requests
_TOO_MANY_REQUESTS = 429


@dataclass
class Result:
    """The measurements and the ledger of one process."""

    predict: Measured = field(default_factory=Measured)
    feedback: Measured = field(default_factory=Measured)
    lag: Histogram = field(default_factory=Histogram)
    """Delays from due times to the starts of requests, during the measurement."""
    cpu: float = 0.0
    """Share of a core that the process used during the measurement."""
    ledger: Ledger = field(default_factory=Ledger)
    problems: Counter[str] = field(default_factory=Counter)
    """Items that were not accepted, counted by the status and body of the response, or as `no answer`."""


class Outcome(NamedTuple):
    """The outcome of one item of a request."""

    status: int
    label: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the outcome is unknown, so that the request must be repeated."""
        return self.status in {NO_ANSWER, _TOO_MANY_REQUESTS} or self.status >= 500


def outcomes(status: int, body: bytes, n: int) -> list[Outcome]:
    """Read the outcomes of n items from a response. All are NO_ANSWER if it is unreadable."""
    if status != OK:
        return [Outcome(status)] * n
    try:
        answer = json.loads(body)
        batch = answer.get("predictions", answer.get("results"))
        found = [_outcome(item) for item in ([answer] if batch is None else batch)]
    except (ValueError, LookupError, TypeError, AttributeError):
        found = []
    return found if len(found) == n else [Outcome(NO_ANSWER)] * n


def _outcome(item: JsonObject) -> Outcome:
    if "propensity" in item or "round" in item:
        return Outcome(OK, item.get("label") or "")
    return Outcome(int(item["status"]))


class Generator:
    """The load of one process. Request i contains the rounds i·batch to (i + 1)·batch - 1.

    Args:
        plan: the options of the load.
        process: the number of this process, from 0.
        models: names of the models, used in turn.
    """

    def __init__(self, plan: Plan, process: int, models: Sequence[str]) -> None:
        self.result = Result()
        self._plan, self._process, self._models = plan, process, models
        self._ledger = self.result.ledger
        self._examples = examples(plan, process)
        self._rng = np.random.default_rng([plan.seed, 2, process])  # delays, duplicates, order
        times = np.random.default_rng([plan.seed, 3, process])
        self._arrivals = times_within(plan.rate / plan.processes, plan.warm_up + plan.duration, times)
        self._n = 0  # the number of predict requests so far

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of predictions, acknowledged feedback items and right predictions so far."""
        ledger = self._ledger
        return ledger.count(*PREDICTED), ledger.count(Stage.ACKNOWLEDGED), ledger.correct.count(1)

    async def run(self, client: Client, start: float) -> Result:
        """Generate the load from `start`, in seconds of `time.perf_counter`, then settle all open rounds."""
        begins, self._ends = start + self._plan.warm_up, start + self._plan.warm_up + self._plan.duration
        bound = Bound(self._plan.in_flight)
        self._client, self._start, self._pacer = client, start, Pacer()
        self._predictions, self._feedback = (MeasuredSender(client, bound, begins, self._ends) for _ in range(2))
        self.result.predict, self.result.feedback = self._predictions.measured, self._feedback.measured
        self._over = asyncio.Event()
        self._pacer.at(begins, self._begin)
        self._pacer.at(self._ends, self._end)
        self._plan_arrival()
        await self._over.wait()
        await bound.drained()
        self._pacer.stop()
        await self._settle()
        return self.result

    def _begin(self, _due: float) -> None:
        self._pacer.lag = self.result.lag = Histogram()
        self._cpu, self._began = time.process_time(), time.perf_counter()

    def _end(self, _due: float) -> None:
        self.result.cpu = (time.process_time() - self._cpu) / (time.perf_counter() - self._began)
        self._over.set()

    def _plan_arrival(self) -> None:
        after = next(self._arrivals, None)
        if after is not None:
            self._pacer.at(self._start + after, self._arrive)

    def _arrive(self, due: float) -> None:
        i, self._n = self._n, self._n + 1
        rounds = self._ledger.add(self._plan.batch)
        if self._predictions.send(due, self._prediction(i), partial(self._answered, i)):
            self._ledger.advance(rounds, Stage.UNSENT, Stage.ASKED)
        self._plan_arrival()

    def _answered(self, i: int, status: int, body: bytes) -> None:
        """Record the response to a predict request and schedule its feedback."""
        self._note(self._rounds(i), status, body, Stage.ASKED)
        now = time.perf_counter()
        for _ in range(1 + (self._rng.random() < self._plan.duplicates)):
            due = now + self._rng.exponential(self._plan.delay)
            if due < self._ends:
                self._pacer.at(due, partial(self._send_feedback, i))

    def _send_feedback(self, i: int, due: float) -> None:
        rounds = self._predicted(i)
        done = partial(self._note, rounds, since=Stage.FEEDBACK_SENT)
        if rounds and self._feedback.send(due, self._feedback_on(i, rounds), done):
            self._ledger.advance(rounds, Stage.ANSWERED, Stage.FEEDBACK_SENT)

    def _rounds(self, i: int) -> range:
        return range(i * self._plan.batch, (i + 1) * self._plan.batch)

    def _predicted(self, i: int) -> list[int]:
        """Return, in random order, the rounds of a request that have a prediction and no refused feedback."""
        known = {Stage.ANSWERED, Stage.FEEDBACK_SENT, Stage.ACKNOWLEDGED}
        rounds = [each for each in self._rounds(i) if self._ledger.stages[each] in known]
        if len(rounds) > 1:
            self._rng.shuffle(rounds)
        return rounds

    def _model(self, i: int) -> str:
        return self._models[i % len(self._models)]

    def _prediction(self, i: int) -> bytes:
        ids = [f'"{self._process}.{each}"' for each in self._rounds(i)]
        contexts = [self._example(each).context for each in self._rounds(i)]
        if self._plan.batch == 1:
            body = f'{{"model":"{self._model(i)}","prediction_id":{ids[0]},"context":{contexts[0]}}}'
            return self._client.target.request("POST", "/predict", body.encode())
        listed = f'"prediction_ids":[{",".join(ids)}],"contexts":[{",".join(contexts)}]'
        return self._client.target.request(
            "POST", "/predict/batch", f'{{"model":"{self._model(i)}",{listed}}}'.encode()
        )

    def _feedback_on(self, i: int, rounds: Sequence[int]) -> bytes:
        items = []
        for each in rounds:
            right = "true" if self._ledger.correct[each] else "false"
            truth = f'"true_label":"{self._example(each).label}"' if self._plan.true_labels else f'"correct":{right}'
            items.append(f'"prediction_id":"{self._model(i)}:{self._process}.{each}",{truth}')
        if self._plan.batch == 1:
            return self._request("/feedback", items[0])
        return self._request("/feedback/batch", f'"feedback":[{",".join(f"{{{item}}}" for item in items)}]')

    def _request(self, path: str, members: str) -> bytes:
        return self._client.target.request("POST", path, f"{{{members}}}".encode())

    def _example(self, round_: int) -> Example:
        return self._examples[round_ % len(self._examples)]

    def _note(self, rounds: Sequence[int], status: int, body: bytes, since: Stage) -> None:
        """Record the response to a request about rounds at the stage `since`."""
        asked = since is Stage.ASKED
        done, refused = (
            (Stage.ANSWERED, Stage.PREDICTION_REFUSED) if asked else (Stage.ACKNOWLEDGED, Stage.FEEDBACK_REFUSED)
        )
        for each, outcome in zip(rounds, outcomes(status, body, len(rounds)), strict=True):
            if outcome.status == OK:
                if asked and self._ledger.stages[each] == since:
                    self._ledger.correct[each] = outcome.label == self._example(each).label
                self._ledger.advance([each], since, done)
                continue
            if not outcome.is_open:
                self._ledger.advance([each], since, refused)
            said = body[:_LONGEST_PROBLEM].decode(errors="replace")
            self.result.problems[f"{outcome.status}: {said}" if outcome.status else "no answer"] += 1

    async def _settle(self) -> None:
        deadline = time.perf_counter() + self._plan.settle
        while (left := self._open_requests()) and time.perf_counter() < deadline:
            queue = iter(left)
            await asyncio.gather(*(self._settle_from(queue, deadline) for _ in range(self._plan.connections)))
            if self._open_requests() == left:
                await asyncio.sleep(_PAUSE)

    def _open_requests(self) -> list[int]:
        numbers: list[int] = np.unique(np.flatnonzero(self._ledger.at(*OPEN)) // self._plan.batch).tolist()
        return numbers

    async def _settle_from(self, queue: Iterator[int], deadline: float) -> None:
        for i in queue:
            if time.perf_counter() > deadline:
                return
            if any(self._ledger.stages[each] == Stage.ASKED for each in self._rounds(i)):
                self._note(self._rounds(i), *await self._client.ask(self._prediction(i)), Stage.ASKED)
            if rounds := self._predicted(i):
                self._ledger.advance(rounds, Stage.ANSWERED, Stage.FEEDBACK_SENT)
                answer = await self._client.ask(self._feedback_on(i, rounds))
                self._note(rounds, *answer, Stage.FEEDBACK_SENT)
