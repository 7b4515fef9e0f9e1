"""Where one worker plays the rounds of one model: predictions and feedback, coalesced."""

import asyncio
import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from learners.answers import uniforms_per_answer
from learners.base import Contexts, FloatArray, IntArray
from learners.mathematics.norms import within_bound_unchecked
from service.contexts.registry import GivenContext
from service.environment import Environment
from service.errors import (
    NoDistributionError,
    StoreUnavailableError,
    WagerError,
)
from service.models.model import Model
from service.per_item import apply_to_valid, attempt_each
from service.replicas.replica import TYPICAL_NONZEROS, Replica
from service.replicas.snapshot_policy import SnapshotPolicy
from service.replicas.statistics import SLOTS
from service.rounds.batching import Batcher
from service.rounds.deciding import Decider
from service.rounds.isolation import ImpossibleDecisionsError, each_alone
from service.rounds.responses import stored_answer, to_answers
from service.schemas.rounds import PredictAnswer
from service.store.base import Block, Feedback, FeedbackResult, FeedbackStatus, PublishedStatistics, Seen, Tail
from service.store.prediction_ids import OWN, ids_in, tokens_of
from service.store.records.records import NewPredictions

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_ATTEMPTS = 3
"""To store predictions: the first wants that no feedback came meanwhile, the others that no rounds were lost."""

FOLD_EVERY = 64
"""Recorded rounds that a worker lets wait before it folds them, asked for or not. Few, for every other request waits
while the store reads them and the worker folds them; those of a batch come together and are folded together."""

_ITEMS_AT_ONCE = 512
"""Most predictions, or feedbacks, handed over together: a few milliseconds in which the worker hears nobody else."""

_NUMBER_COST = 30
"""Multiply-adds in the time that a number of a request or an answer takes to be converted."""

_BYTES_AT_ONCE = 2**23
"""Most bytes of predictions stored together: the store takes some ten milliseconds for them."""

_NUMBERS_AT_ONCE = 4_000_000
"""Most probabilities computed together, which bounds the memory of a batch where labels are many: 32 MB an array."""

_COST_AT_ONCE = 2_000_000_000
"""Multiply-adds, about two seconds, of predictions made together: then others of the model have a turn."""

PUBLISH_EVERY = 5.0
"""Seconds from one published statistics of a model to the next."""


class PredictionRequest(NamedTuple):
    """One prediction asked for."""

    context: GivenContext
    id: str | None  # the client's, without the model's name
    include_distribution: bool


class _Batch(NamedTuple):
    """Predictions asked for together, and the blocks that they are to be kept in."""

    requests: list[PredictionRequest]
    contexts: Contexts
    bounds: list[int]  # where each block begins, and the end
    names: list[str]  # of the blocks
    tokens: IntArray  # of the predictions
    fingerprints: list[bytes]  # of the blocks


class _Drawn(NamedTuple):
    """A batch of predictions, drawn and not yet stored."""

    predictions: NewPredictions
    distributions: FloatArray  # (n, K)


class ModelSession:
    """One worker's place for one model."""

    def __init__(self, model: Model, environment: Environment) -> None:
        self.model = model
        self.replica = Replica(model, environment.store, environment.compute)
        self._decider = Decider(self.replica, environment.compute)
        self._environment = environment
        self._features = model.definition.features
        self._uniforms = uniforms_per_answer(model.learner)
        cost = model.learner.decide_cost(min(self._features.size, TYPICAL_NONZEROS))
        numbers = len(model.definition.labels)
        size = _BYTES_AT_ONCE // model.format.round_bytes
        most = max(1, min(_ITEMS_AT_ONCE, _NUMBERS_AT_ONCE // numbers, _COST_AT_ONCE // cost, size))
        self._predictions: Batcher[PredictionRequest, PredictAnswer] = Batcher(self._predict_each, most)
        self._feedback: Batcher[Feedback, FeedbackResult] = Batcher(self._join, _ITEMS_AT_ONCE)
        self._newest_round = 0  # that this worker has heard of
        self._upkeep: asyncio.Task[None] | None = None
        self._snapshots = SnapshotPolicy(self.replica, environment.now)
        self._publish_due = -math.inf  # the time
        self._published_rounds = 0
        self._predicted = False  # since the last statistics was published

    def predict(self, request: PredictionRequest) -> asyncio.Future[PredictAnswer]:
        """Brings the answer once it is stored; the future may raise what the store does.

        Raises:
            ContextLengthError: if the context is of another kind, or has not as many numbers as it should.
            ContextIndexError: if an index is out of range, or there twice.
            NormExceededError: if it is beyond the bound, and the model rejects such.
            NoDistributionError: if a distribution is asked for, and the answers are too many.
        """
        return self._predictions.submit(self._checked(request))

    async def predict_all(self, requests: Sequence[PredictionRequest]) -> list[PredictAnswer | Exception]:
        """As `predict` for each; what would be raised stands among the answers."""
        return await apply_to_valid(self._predictions.submit_all, attempt_each(self._checked, requests))

    def give_feedback(self, feedback: Feedback) -> asyncio.Future[FeedbackResult]:
        """Brings what became of the feedback; the future may raise what the store does."""
        return self._feedback.submit(feedback)

    async def give_all(self, feedback: Sequence[Feedback]) -> list[FeedbackResult | Exception]:
        """What became of each feedback; what the store raises stands among the results."""
        return await self._feedback.submit_all(feedback)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way here."""
        return self._predictions.idle and self._feedback.idle and (self._upkeep is None or self._upkeep.done())

    async def maintain(self) -> None:
        """Folds what this worker has recorded, and writes a snapshot where one is due."""
        replica = self.replica
        if self._newest_round > replica.round_count:
            async with replica.lock:
                await replica.catch_up()
        if self._snapshots.is_due:
            self._snapshots.begin()
            await replica.snapshot()
        if self._predicted or replica.round_count > self._published_rounds:
            await self._publish()

    async def _publish(self) -> None:
        """Gives the statistics to those who watch, every few seconds."""
        now, replica = self._environment.now(), self.replica
        if now < self._publish_due or replica.state is None:
            return
        self._publish_due, self._predicted = now + PUBLISH_EVERY, False
        rounds, counts = replica.round_count, replica.statistics.counts()
        slot = int(now // counts.slot_seconds)
        published = PublishedStatistics(rounds, counts.encode(), slot, slot - SLOTS)
        self._published_rounds = await self._environment.store.publish_statistics(self.model.key, published)

    def _checked(self, request: PredictionRequest) -> PredictionRequest:
        """Refuses what does not fit the model, as `predict` says."""
        if request.include_distribution and not self.model.answers.has_distribution:
            detail = "the rankings are too many to list: leave include_distribution out"
            raise NoDistributionError(detail, "include_distribution")
        self.model.norm.check(request.context, self.model.contexts.check(request.context))
        return request

    async def _predict_each(self, requests: list[PredictionRequest]) -> list[PredictAnswer | Exception]:
        return await each_alone(self._predict, requests, self.model.name)

    async def _predict(self, requests: list[PredictionRequest]) -> list[PredictAnswer | Exception]:
        batch, replica = await self._costly(self._size(requests), self._batch, requests), self.replica
        async with replica.lock:
            if replica.state is None:
                await replica.catch_up()
            drawn, there = await self._draw_and_keep(batch, replica.seen)
            for _ in range(_ATTEMPTS - 1):
                if not isinstance(there, Tail):
                    break
                await replica.catch_up(there)  # feedback came meanwhile: learn from it first, then answer
                drawn, there = await self._draw_and_keep(batch, replica.seen._replace(newer=True))
        if isinstance(there, Tail):
            raise StoreUnavailableError("the store lost rounds again and again while this was asked")
        self._predicted = True
        self._keep_up()
        listed = sum([request.include_distribution for request in requests]) * len(self.model.definition.labels)
        return await self._costly(listed, self._answers, batch, drawn, there)

    async def _costly(self, numbers: int, function: Callable[..., _T], *args: Any) -> _T:
        """Run a conversion of numbers, in a thread if they are many."""
        return await self._environment.compute.run_costly(numbers * _NUMBER_COST, self.model.name, function, *args)

    def _size(self, requests: list[PredictionRequest]) -> int:
        """How many numbers the contexts have."""
        return sum([self.model.contexts.size(request.context) for request in requests])

    def _batch(self, requests: list[PredictionRequest]) -> _Batch:
        """What was asked for together, in blocks; what has an id of the client's is in a block of its own."""
        contexts = self.model.contexts.gather([request.context for request in requests])
        contexts = within_bound_unchecked(contexts, self._features.norm, self._features.norm_bound)
        given = any([request.id is not None for request in requests])  # noqa: C419  a list is faster
        bounds = list(range(len(requests) + 1)) if given else self.model.format.bounds(contexts)
        first = [requests[start] for start in bounds[:-1]]
        names = [request.id or OWN + self._environment.new_id() for request in first]
        tokens = tokens_of(bounds, self._environment.new_id())
        return _Batch(requests, contexts, bounds, names, tokens, [self._fingerprint(request) for request in first])

    async def _draw_and_keep(self, batch: _Batch, seen: Seen) -> tuple[_Drawn, list[bytes | None] | Tail]:
        drawn = await self._draw(batch)
        return drawn, await self._keep(batch, drawn, seen)

    async def _draw(self, batch: _Batch) -> _Drawn:
        """Decides and draws at the present state."""
        n, model = len(batch.requests), self.model
        uniforms = self._environment.rng.random((n, self._uniforms))
        (distributions, evidence), (labels, propensities, residual_uniforms) = await self._decider.decide(
            batch.contexts, uniforms
        )
        now, outputs = self._environment.now(), model.answers.form.rows(labels)
        expires_at = now + model.definition.window_seconds
        predictions = NewPredictions(
            outputs,
            propensities,
            residual_uniforms,
            evidence,
            batch.contexts,
            now,
            expires_at,
            self.replica.round_count,
        )
        if not (sound := model.format.sound(predictions)).all():
            raise ImpossibleDecisionsError(sound)
        return _Drawn(predictions, distributions)

    async def _keep(self, batch: _Batch, drawn: _Drawn, seen: Seen) -> list[bytes | None] | Tail:
        """Stores the predictions, unless there are rounds they should have seen."""
        numbers, encode = drawn.predictions.contexts.values.size, self.model.format.encode_blocks
        records = await self._costly(numbers, encode, drawn.predictions, batch.bounds, batch.tokens, batch.fingerprints)
        blocks = list(map(Block, batch.names, records))
        return await self._environment.store.add_predictions(self.model.key, blocks, self.model.keep_seconds, seen)

    def _fingerprint(self, request: PredictionRequest) -> bytes:
        """16 bytes that tell whether two asks with the same id are one; zeros where the id is ours."""
        if request.id is None:
            return bytes(16)
        return hashlib.blake2b(self.model.contexts.fingerprinted(request.context), digest_size=16).digest()

    def _answers(self, batch: _Batch, drawn: _Drawn, there: list[bytes | None]) -> list[PredictAnswer | Exception]:
        predictions, tokens, spans = drawn.predictions, batch.tokens.tolist(), pairwise(batch.bounds)
        blocks = zip(batch.names, spans, strict=True)
        ids = [f"{self.model.name}:{id_}" for name, (start, stop) in blocks for id_ in ids_in(name, tokens[start:stop])]
        probabilities = [
            drawn.distributions[i] if request.include_distribution else None for i, request in enumerate(batch.requests)
        ]
        answers: list[PredictAnswer | Exception] = []
        answers += to_answers(self.model, ids, predictions, probabilities)
        for i, record in enumerate(there):
            if record is not None:
                answers[batch.bounds[i]] = stored_answer(self.model, batch.names[i], batch.fingerprints[i], record)
        return answers

    async def _join(self, feedback: list[Feedback]) -> list[FeedbackResult]:
        model = self.model
        results = await self._environment.store.add_feedback(
            model.key, feedback, model.feedback_rules, self._environment.now()
        )
        for result in results:
            if result.status is FeedbackStatus.RECORDED and result.outcome is not None:
                self._newest_round = max(self._newest_round, result.outcome.round)
        self._keep_up()
        return results

    def _keep_up(self) -> None:
        """Starts upkeep in the background where a stretch of rounds or a snapshot is waiting for it."""
        behind = self._newest_round - self.replica.round_count
        if (behind >= FOLD_EVERY or self._snapshots.has_many_rounds) and (self._upkeep is None or self._upkeep.done()):
            self._upkeep = asyncio.create_task(self._maintain_quietly())

    async def _maintain_quietly(self) -> None:
        try:
            await self.maintain()
        except WagerError as error:  # nobody waits for this; the next request will meet the same error
            _log.warning("upkeep of model %s: %s", self.model.name, error.detail)
