"""Clients of a simulation. They predict, repeat requests, and give feedback: late, twice, contradictory, in batches."""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from service.choice.requests import NO_OPTIONS, PredictionRequest
from service.errors import StoreError, WagerError
from service.prediction_id import PredictionId
from service.schemas.fast_decoders import DecodedFeedback
from service.schemas.rounds import ActivateRequest, FeedbackAnswer, PredictAnswer
from tests.service.sample_models import SIZE
from tests.simulation.histories import Since
from tests.simulation.log_rounds import ViolationError
from tests.simulation.models import context_of
from tests.simulation.post import Ask, Listen, LostError, Post, heard_by_nobody
from tests.simulation.refusals import check_refusal, check_soundness
from tests.simulation.truth import Truth
from tests.simulation.truths import Truths

_THINKING = 0.02  # mean seconds between two actions of a client
_REMEMBERED = 40  # predictions of a model that clients give feedback on
_TRIES = 4
_POPULARITIES = (1.0, 1.0, 20.0)  # of a model, in comparison with the others
_CONTRADICTIONS, _REPETITIONS, _BATCHES, _INACTIVE, _SELECTIVE, _PRICED = 0.1, 0.25, 0.15, 0.1, 0.2, 0.3


class Known:
    """What the clients know about one model.

    Args:
        truths: of all models.
        name: of this one.
    """

    def __init__(self, truths: Truths, name: str) -> None:
        self._truths = truths
        self.name = name
        self.recent: deque[PredictionId] = deque(maxlen=_REMEMBERED)
        self.asked = truths.asked
        self._lag = self.truth.model.definition.freshness.max_lag_seconds

    @property
    def truth(self) -> Truth:
        """The truth about the model."""
        return self._truths[self.name]

    def listen(self, hear: Callable[["Known", Since, Any], None]) -> Listen:
        """Return a listener that passes to `hear` what was true at the arrival of the request."""
        return lambda: partial(hear, self, self.truth.since(self._lag))


class Crowd:
    """All clients.

    Args:
        post: carries requests.
        truths: of all models.
        seed: of their random numbers.
    """

    def __init__(self, post: Post, truths: Truths, seed: int) -> None:
        self._post = post
        self.known = [Known(truths, name) for name in truths.names]
        self._random = random.Random(seed)
        self._weights = [self._random.choice(_POPULARITIES) for _ in self.known]
        self._names = 0
        self.is_over = False
        self.acknowledged = self.predicted = 0

    async def play(self) -> None:
        """Act until it is over."""
        while not self.is_over:
            await asyncio.sleep(self._random.expovariate(1 / _THINKING))
            (known,) = self._random.choices(self.known, self._weights)
            if not known.recent or self._random.random() < 0.4:
                await self._predict(known)
            else:
                await self._give(known)

    async def ask(self, ask: Ask, listen: Listen) -> Any:
        """Ask until an answer or a refusal arrives; return it, or None after some tries without one."""
        for _ in range(_TRIES):
            try:
                return await self._post.ask(ask, listen)
            except LostError:
                await asyncio.sleep(self._random.random())
            except WagerError as error:
                if not isinstance(error, StoreError):
                    return error
                await asyncio.sleep(self._random.random())
        return None

    async def _predict(self, known: Known) -> None:
        if self._random.random() < _BATCHES:
            requests = [self._request(known, named=False) for _ in range(self._random.randrange(1, 6))]
            listen = known.listen(self._hear_all)
            await self._post_quietly(lambda worker: worker.rounds.predict_all(known.name, requests), listen)
            return
        request, listen = self._request(known, named=self._random.random() < 0.7), known.listen(self._hear_prediction)
        ask = lambda worker: worker.rounds.predict(known.name, request)  # noqa: E731
        if request.id is None:
            await self._post_quietly(ask, listen)
            return
        answer = await self.ask(ask, listen)
        if isinstance(answer, PredictAnswer) and self._random.random() < _REPETITIONS:
            await self.ask(ask, listen)
        if isinstance(answer, PredictAnswer) and not request.options.activated and self._random.random() < 0.5:
            await self._activate(answer.prediction_id)

    async def _post_quietly(self, ask: Ask, listen: Listen) -> None:
        """Ask once: without an id of the client, a repetition is another request."""
        with contextlib.suppress(LostError, WagerError):
            await self._post.ask(ask, listen)

    async def _activate(self, prediction_id: str) -> None:
        request = ActivateRequest.model_validate({"prediction_id": prediction_id})
        await self.ask(lambda worker: worker.rounds.activate(request), heard_by_nobody)

    def _request(self, known: Known, *, named: bool) -> PredictionRequest:
        context = [self._random.gauss(0, 1) for _ in range(SIZE)]
        self._names += 1
        own = PredictionId(known.name, f"c{self._names}") if named else None
        active = not named or self._random.random() >= _INACTIVE
        options = NO_OPTIONS._replace(activated=active, eligible=self._some_labels(known), **self._some_prices(known))
        known.asked[tuple(context)] = options
        return PredictionRequest(context_of(known.name, context), own, False, options)

    def _some_labels(self, known: Known) -> tuple[str, ...] | None:
        if self._random.random() >= _SELECTIVE:
            return None
        labels = known.truth.labels
        return tuple(self._random.sample(labels, self._random.randrange(1, len(labels) + 1)))

    def _some_prices(self, known: Known) -> dict[str, Any]:
        """Return costs, or their weight, for some of the requests that may have them."""
        truth, definition = known.truth, known.truth.model.definition
        if self._random.random() >= _PRICED or not truth.model.learner.weighs_costs:
            return {}
        some = self._random.sample(truth.labels, self._random.randrange(1, len(truth.labels) + 1))
        found: dict[str, Any] = {"costs": tuple((label, self._random.uniform(0.0, 2.0)) for label in some)}
        if definition.costs is not None and self._random.random() < 0.5:
            found = {}
        if definition.budget is None and self._random.random() < 0.5:
            found["cost_weight"] = self._random.uniform(0.0, 1.0) if found or definition.costs is not None else None
        return found

    def _hear_all(self, known: Known, since: Since, answers: Any) -> None:
        for answer in answers if isinstance(answers, list) else []:
            self._hear_prediction(known, since, answer)

    def _hear_prediction(self, known: Known, since: Since, answer: Any) -> None:
        """Check an answer by what was stored since its request arrived.

        A prediction that was stored since then has seen what was acknowledged before.
        """
        if not isinstance(answer, PredictAnswer):
            check_soundness(known.truth, since, answer)
            return
        self.predicted += 1
        own, truth = PredictionId.parse(answer.prediction_id), known.truth
        known.recent.append(own)
        if since.losses < truth.losses:
            return
        given = answer.label, answer.propensity, answer.rounds_seen
        stored = truth.histories.stored_since((own.block, own.token), since.moment)
        found = [each for each in stored if given == (each.label, each.propensity, each.rounds_seen)]
        if not found:
            raise ViolationError(f"{answer.prediction_id} is answered {given}, and stored as {stored}")
        if found[0].moment > since.moment and answer.rounds_seen < since.newest:
            detail = f"has seen {answer.rounds_seen} rounds, {since.newest} were acknowledged"
            raise ViolationError(f"{answer.prediction_id} {detail}")

    async def _give(self, known: Known) -> None:
        if self._random.random() < _BATCHES:
            given = [self._feedback(known) for _ in range(self._random.randrange(1, 6))]
            listen = known.listen(partial(self._hear_results, given))
            await self.ask(lambda worker: worker.rounds.give_all(given), listen)
            return
        feedback = self._feedback(known)
        listen = known.listen(partial(self._hear_feedback, feedback))
        asks = [self.ask(lambda worker: worker.rounds.give_feedback(feedback), listen)]
        if self._random.random() < _REPETITIONS:
            asks.append(self.ask(lambda worker: worker.rounds.give_feedback(feedback), listen))
        await asyncio.gather(*asks)

    def _feedback(self, known: Known) -> DecodedFeedback:
        own = self._random.choice(known.recent)
        usual = sum(own.block.encode()) % 3 == 0
        return DecodedFeedback(own, usual != (self._random.random() < _CONTRADICTIONS), None)

    def _hear_results(self, given: list[DecodedFeedback], known: Known, since: Since, answers: Any) -> None:
        for feedback, answer in zip(given, answers, strict=True) if isinstance(answers, list) else []:
            self._hear_feedback(feedback, known, since, answer)

    def _hear_feedback(self, feedback: DecodedFeedback, known: Known, since: Since, answer: Any) -> None:
        own = (feedback.prediction_id.block, feedback.prediction_id.token)
        if isinstance(answer, FeedbackAnswer):
            known.truth.acknowledge(own, answer.round, answer.reward, since)
            self.acknowledged += 1
            if answer.reward != float(bool(feedback.correct)):
                raise ViolationError(f"feedback {feedback.correct} for {own} is answered with {answer.reward}")
        elif isinstance(answer, WagerError) and since.losses == known.truth.losses:
            check_soundness(known.truth, since, answer)
            check_refusal(known.truth, own, bool(feedback.correct), since, answer)
