"""Clients of a simulation. They predict, repeat requests, and give feedback: late, twice, contradictory, in batches."""

import asyncio
import contextlib
import random
from collections import deque
from functools import partial
from typing import Any

from service.choice.requests import NO_OPTIONS, PredictionRequest
from service.errors import (
    BrokenPredictionError,
    FeedbackConflictError,
    ModelNotFoundError,
    NewerVersionError,
    NotActivatedError,
    PredictionExpiredError,
    PredictionNotFoundError,
    StoreCorruptError,
    StoreError,
    WagerError,
)
from service.prediction_id import PredictionId
from service.schemas.fast_decoders import DecodedFeedback
from service.schemas.rounds import ActivateRequest, FeedbackAnswer, PredictAnswer
from tests.service.sample_models import SIZE
from tests.simulation.log_rounds import Own, ViolationError
from tests.simulation.models import context_of
from tests.simulation.post import LostError, Post
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

    @property
    def least_seen(self) -> int:
        """The round that a prediction which is asked for now must have seen."""
        return self.truth.newest_before(self._lag) if self._lag else self.truth.newest


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

    async def ask(self, ask: Any, heard: Any) -> Any:
        """Ask until an answer or a refusal arrives; return it, or None after some tries without one."""
        for _ in range(_TRIES):
            try:
                return await self._post.ask(ask, heard)
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
            heard = partial(self._hear_all, known, known.least_seen, known.truth.losses)
            await self._post_quietly(lambda worker: worker.rounds.predict_all(known.name, requests), heard)
            return
        request = self._request(known, named=self._random.random() < 0.7)
        if request.id is not None and not request.options.activated:
            known.truth.never_active.add((request.id.block, request.id.token))
        heard = partial(self._hear_prediction, known, known.least_seen, known.truth.losses)
        ask = lambda worker: worker.rounds.predict(known.name, request)  # noqa: E731
        if request.id is None:
            await self._post_quietly(ask, heard)
            return
        answer = await self.ask(ask, heard)
        if isinstance(answer, PredictAnswer) and self._random.random() < _REPETITIONS:
            again = await self.ask(ask, partial(self._hear_prediction, known, 0, known.truth.losses))
            own = (answer.label, answer.propensity)
            if isinstance(again, PredictAnswer) and own != (again.label, again.propensity) and not known.truth.losses:
                raise ViolationError(f"{request.id} was answered {own}, then {again.label}, {again.propensity}")
        if isinstance(answer, PredictAnswer) and not request.options.activated and self._random.random() < 0.5:
            await self._activate(known, answer)

    async def _post_quietly(self, ask: Any, heard: Any) -> None:
        """Ask once: without an id of the client, a repetition is another request."""
        with contextlib.suppress(LostError, WagerError):
            await self._post.ask(ask, heard)

    async def _activate(self, known: Known, answer: PredictAnswer) -> None:
        own = PredictionId.parse(answer.prediction_id)
        known.truth.never_active.discard((own.block, own.token))
        request = ActivateRequest.model_validate({"prediction_id": answer.prediction_id})
        await self.ask(lambda worker: worker.rounds.activate(request), lambda _: None)

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

    def _hear_all(self, known: Known, newest: int, losses: int, answers: Any) -> None:
        for answer in answers if isinstance(answers, list) else []:
            self._hear_prediction(known, newest, losses, answer)

    def _hear_prediction(self, known: Known, newest: int, losses: int, answer: Any) -> None:
        """Check an answer when a worker gives it."""
        if not isinstance(answer, PredictAnswer):
            _check_soundness(known.truth, losses, answer)
            return
        self.predicted += 1
        own, truth = PredictionId.parse(answer.prediction_id), known.truth
        known.recent.append(own)
        if losses < truth.losses:
            return
        stored = truth.predictions.get((own.block, own.token))
        given = answer.label, answer.propensity
        if stored is None or (stored.label, stored.propensity) != given:
            raise ViolationError(f"{answer.prediction_id} is answered {given}, and stored as {stored}")
        if answer.rounds_seen < newest:
            detail = f"has seen {answer.rounds_seen} rounds, {newest} were acknowledged"
            raise ViolationError(f"{answer.prediction_id} {detail}")

    async def _give(self, known: Known) -> None:
        if self._random.random() < _BATCHES:
            given = [self._feedback(known) for _ in range(self._random.randrange(1, 6))]
            heard = partial(self._hear_results, known, given, known.truth.losses)
            await self.ask(lambda worker: worker.rounds.give_all(given), heard)
            return
        feedback = self._feedback(known)
        heard = partial(self._hear_feedback, known, feedback, known.truth.losses)
        asks = [self.ask(lambda worker: worker.rounds.give_feedback(feedback), heard)]
        if self._random.random() < _REPETITIONS:
            asks.append(self.ask(lambda worker: worker.rounds.give_feedback(feedback), heard))
        await asyncio.gather(*asks)

    def _feedback(self, known: Known) -> DecodedFeedback:
        own = self._random.choice(known.recent)
        usual = sum(own.block.encode()) % 3 == 0
        return DecodedFeedback(own, usual != (self._random.random() < _CONTRADICTIONS), None)

    def _hear_results(self, known: Known, given: list[DecodedFeedback], losses: int, answers: Any) -> None:
        for feedback, answer in zip(given, answers, strict=True) if isinstance(answers, list) else []:
            self._hear_feedback(known, feedback, losses, answer)

    def _hear_feedback(self, known: Known, feedback: DecodedFeedback, losses: int, answer: Any) -> None:
        own = (feedback.prediction_id.block, feedback.prediction_id.token)
        if isinstance(answer, FeedbackAnswer):
            known.truth.acknowledge(own, answer.round, answer.reward, losses)
            self.acknowledged += 1
            if answer.reward != float(bool(feedback.correct)):
                raise ViolationError(f"feedback {feedback.correct} for {own} is answered with {answer.reward}")
        elif isinstance(answer, WagerError) and losses == known.truth.losses:
            _check_soundness(known.truth, losses, answer)
            _check_refusal(known.truth, own, bool(feedback.correct), answer)


def _check_soundness(truth: Truth, losses: int, error: Any) -> None:
    """Check that no worker finds damage. A loss between two reads of a worker may look like it."""
    if isinstance(error, StoreCorruptError | NewerVersionError) and losses == truth.losses:
        raise ViolationError(f"nothing is damaged, but a worker found: {error}")


def _check_refusal(truth: Truth, own: Own, correct: bool, error: WagerError) -> None:
    """Check that the state of the prediction explains a refusal."""
    number = truth.closed.get(own)
    there = None if number is None else truth.rounds[number - 1]
    match error:
        case FeedbackConflictError():
            waits = truth.waits(own)
            holds = waits or (there is not None and there.reward != float(correct))
        case PredictionNotFoundError():
            holds = own not in truth.predictions or own in truth.lost or truth.may_have_expired(own)
        case PredictionExpiredError():
            holds = truth.may_have_expired(own)
        case ModelNotFoundError():
            holds = not truth.exists
        case BrokenPredictionError() | NewerVersionError():
            holds = False
        case NotActivatedError():
            holds = there is None
        case _:
            holds = isinstance(error, StoreError)
    if not holds:
        raise ViolationError(f"feedback {correct} for {own} is refused ({error}), but its round is {there}")
