"""Clients of a simulation. They predict, repeat requests, and give feedback: late, twice, contradictory, in batches."""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from service.access.keys import Names
from service.choice.requests import NO_OPTIONS, PredictionRequest
from service.errors import StoreError, WagerError
from service.prediction_id import PredictionId
from service.rounds.flags import EvaluationContext
from service.schemas.fast_decoders import DecodedFeedback
from service.schemas.ofrep import Evaluation
from service.schemas.rounds import ActivateRequest, FeedbackAnswer, PredictAnswer
from tests.service.sample_models import SIZE
from tests.simulation.answers import Said, check_evaluation, said_by, stored_answer
from tests.simulation.histories import Since
from tests.simulation.log_rounds import ViolationError
from tests.simulation.models import FLAG, context_of, numbers_of
from tests.simulation.post import Ask, Listen, LostError, Post, heard_by_nobody
from tests.simulation.refusals import check_refusal, check_soundness
from tests.simulation.truth import Truth
from tests.simulation.truths import Truths

_THINKING = 0.02  # mean seconds between two actions of a client
_REMEMBERED = 40  # predictions of a model that clients give feedback on
_TRIES = 4
_POPULARITIES = (1.0, 1.0, 20.0)  # of a model, in comparison with the others
_USERS = 12  # who evaluate flags at the same time
_ALIKE, _NAMED, _SINGLE = 0.3, 0.5, 0.5
"""Shares of batches whose requests are equal, have ids, and are sent one by one."""

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
        self._users, self._is_bulk = list[list[float]](), list[bool]()  # the contexts of evaluations
        self.is_over = False
        self.acknowledged = self.predicted = 0

    async def play(self) -> None:
        """Act until it is over."""
        while not self.is_over:
            await asyncio.sleep(self._random.expovariate(1 / _THINKING))
            (known,) = self._random.choices(self.known, self._weights)
            if known.name == FLAG and self._random.random() < 0.5:
                await self._evaluate(known)
            elif not known.recent or self._random.random() < 0.4:
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
            named = self._random.random() < _NAMED
            requests = [self._request(known, named=named) for _ in range(self._random.randrange(1, 6))]
            if self._random.random() < _ALIKE:
                requests = requests[:1] * len(requests)
            if self._random.random() < _SINGLE:
                await asyncio.gather(*(self._predict_once(known, request) for request in requests))
                return
            listen = known.listen(partial(self._hear_all, requests))
            await self._post_quietly(lambda worker: worker.rounds.predict_all(known.name, requests), listen)
            return
        if self._random.random() < 0.3:
            await self._predict_once(known, self._request(known, named=False))
            return
        request = self._request(known, named=True)
        listen = known.listen(partial(self._hear_prediction, request))
        ask = lambda worker: worker.rounds.predict(known.name, request)  # noqa: E731
        answer = await self.ask(ask, listen)
        if isinstance(answer, PredictAnswer) and self._random.random() < _REPETITIONS:
            await self.ask(ask, listen)
        if isinstance(answer, PredictAnswer) and not request.options.activated and self._random.random() < 0.5:
            await self._activate(answer.prediction_id)

    async def _predict_once(self, known: Known, request: PredictionRequest) -> None:
        listen = known.listen(partial(self._hear_prediction, request))
        await self._post_quietly(lambda worker: worker.rounds.predict(known.name, request), listen)

    async def _evaluate(self, known: Known) -> None:
        """Evaluate a flag for a user, alone or among all flags."""
        if not self._users or self._random.random() < 0.5:
            self._users.append([self._random.gauss(0, 1) for _ in range(SIZE)])
            self._is_bulk.append(self._random.random() < 0.5)
        number = self._random.randrange(max(0, len(self._users) - _USERS), len(self._users))
        context = EvaluationContext(f"user-{number}", context_of(known.name, self._users[number]))
        listen = known.listen(partial(self._hear_evaluation, number))
        if not self._is_bulk[number]:
            await self.ask(lambda worker: worker.flags.evaluate(known.name, context), listen)
            return
        known.asked[tuple(self._users[number])] = NO_OPTIONS._replace(activated=False)
        answers = await self.ask(lambda worker: worker.flags.evaluate_all(context, Names("*")), listen)
        for _, each in answers if isinstance(answers, list) else []:
            if isinstance(each, Evaluation) and self._random.random() < 0.5:
                await self._activate(each.metadata.predictionId)

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

    def _hear_all(self, requests: list[PredictionRequest], known: Known, since: Since, answers: Any) -> None:
        for request, answer in zip(requests, answers, strict=True) if isinstance(answers, list) else []:
            self._hear_prediction(request, known, since, answer)

    def _hear_prediction(self, request: PredictionRequest, known: Known, since: Since, answer: Any) -> None:
        """Check an answer by what was stored since its request arrived.

        A prediction that was stored since then has seen what was acknowledged before.
        """
        if not isinstance(answer, PredictAnswer):
            check_soundness(known.truth, since, answer)
            return
        stored = stored_answer(known.truth, since, self._said(known, request, answer))
        if stored is not None and stored.moment > since.moment and answer.rounds_seen < since.newest:
            detail = f"has seen {answer.rounds_seen} rounds, {since.newest} were acknowledged"
            raise ViolationError(f"{answer.prediction_id} {detail}")

    def _said(self, known: Known, request: PredictionRequest, answer: PredictAnswer) -> Said:
        own = PredictionId.parse(answer.prediction_id)
        if request.id not in (None, own):
            raise ViolationError(f"{request.id} is answered as {own}")
        self._remember(known, own)
        return Said(own, answer.label, answer.propensity, numbers_of(request.context))

    def _remember(self, known: Known, own: PredictionId) -> None:
        self.predicted += 1
        known.recent.append(own)

    def _hear_evaluation(self, number: int, known: Known, since: Since, answer: Any) -> None:
        for each in [one for _, one in answer] if isinstance(answer, list) else [answer]:
            if not isinstance(each, Evaluation):
                check_soundness(known.truth, since, each)
                continue
            said = said_by(each, tuple(self._users[number]))
            self._remember(known, said.id)
            check_evaluation(known.truth, since, said)

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
