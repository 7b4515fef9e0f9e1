"""Where one worker plays the rounds of one model: predictions and feedback, coalesced."""

import asyncio
import hashlib
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from learners.answers import uniforms_per_answer
from learners.base import Contexts, FloatArray, IntArray
from learners.mathematics.norms import within_bound_unchecked
from service.compute import Compute
from service.errors import (
    NoDistributionError,
    StoreUnavailableError,
    WagerError,
)
from service.models.model import Model
from service.per_item import attempt_each, together
from service.replicas.replica import TYPICAL_NONZEROS, Replica
from service.replicas.snapshot_policy import SnapshotPolicy
from service.replicas.statistics import SLOTS
from service.rounds.batching import Batcher
from service.rounds.deciding import Decider
from service.rounds.isolation import ImpossibleDecisionsError, each_alone
from service.rounds.responses import told, told_again
from service.schemas.features import GivenContext
from service.schemas.rounds import PredictAnswer
from service.store.base import Block, Feedback, FeedbackResult, FeedbackStatus, Published, Seen, Store, Tail
from service.store.prediction_ids import OWN, ids_in, tokens_of
from service.store.records.records import Made

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
"""Seconds from one published tally of a model to the next."""


@dataclass(frozen=True)
class Outside:
    """What a desk takes from the world around it."""

    store: Store
    compute: Compute
    now: Callable[[], float]  # seconds since the epoch
    rng: np.random.Generator
    new_id: Callable[[], str]


class Ask(NamedTuple):
    """One prediction asked for."""

    context: GivenContext
    id: str | None  # the client's, without the model's name
    include_distribution: bool


class _Batch(NamedTuple):
    """Predictions asked for together, and the blocks that they are to be kept in."""

    asks: list[Ask]
    contexts: Contexts
    bounds: list[int]  # where each block begins, and the end
    names: list[str]  # of the blocks
    tokens: IntArray  # of the predictions
    fingerprints: list[bytes]  # of the blocks


class _Drawn(NamedTuple):
    """A batch of predictions, drawn and not yet stored."""

    made: Made
    distributions: FloatArray  # (n, K)


class Desk:
    """One worker's place for one model."""

    def __init__(self, model: Model, outside: Outside) -> None:
        self.model = model
        self.replica = Replica(model, outside.store, outside.compute)
        self._decider = Decider(self.replica, outside.compute)
        self._outside = outside
        self._features = model.definition.features
        self._uniforms = uniforms_per_answer(model.learner)
        cost = model.learner.decide_cost(min(self._features.size, TYPICAL_NONZEROS))
        numbers = len(model.definition.labels)
        size = _BYTES_AT_ONCE // model.format.round_bytes
        most = max(1, min(_ITEMS_AT_ONCE, _NUMBERS_AT_ONCE // numbers, _COST_AT_ONCE // cost, size))
        self._predictions: Batcher[Ask, PredictAnswer] = Batcher(self._predict_each, most)
        self._feedback: Batcher[Feedback, FeedbackResult] = Batcher(self._join, _ITEMS_AT_ONCE)
        self._newest_round = 0  # that this worker has heard of
        self._upkeep: asyncio.Task[None] | None = None
        self._snapshots = SnapshotPolicy(self.replica, outside.now)
        self._publish_due = -math.inf  # the time
        self._published_rounds = 0
        self._predicted = False  # since the last tally was published

    def predict(self, ask: Ask) -> asyncio.Future[PredictAnswer]:
        """Brings the answer once it is stored; the future may raise what the store does.

        Raises:
            ContextLengthError: if the context is of another kind, or has not as many numbers as it should.
            ContextIndexError: if an index is out of range, or there twice.
            NormExceededError: if it is beyond the bound, and the model rejects such.
            NoDistributionError: if a distribution is asked for, and the answers are too many.
        """
        return self._predictions.submit(self._checked(ask))

    async def predict_all(self, asks: Sequence[Ask]) -> list[PredictAnswer | Exception]:
        """As `predict` for each; what would be raised stands among the answers."""
        return await together(self._predictions.submit_all, attempt_each(self._checked, asks))

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
        if self._newest_round > replica.rounds:
            async with replica.lock:
                await replica.catch_up()
        if self._snapshots.is_due:
            self._snapshots.begin()
            await replica.snapshot()
        if self._predicted or replica.rounds > self._published_rounds:
            await self._publish()

    async def _publish(self) -> None:
        """Gives the tally to those who watch, every few seconds."""
        now, replica = self._outside.now(), self.replica
        if now < self._publish_due or replica.state is None:
            return
        self._publish_due, self._predicted = now + PUBLISH_EVERY, False
        rounds, counts = replica.rounds, replica.tally.counts()
        slot = int(now // counts.slot_seconds)
        published = Published(rounds, counts.encode(), slot, slot - SLOTS)
        self._published_rounds = await self._outside.store.publish_tally(self.model.key, published)

    def _checked(self, ask: Ask) -> Ask:
        """Refuses what does not fit the model, as `predict` says."""
        if ask.include_distribution and not self.model.answers.has_distribution:
            detail = "the rankings are too many to list: leave include_distribution out"
            raise NoDistributionError(detail, "include_distribution")
        self.model.norm.check(ask.context, self.model.contexts.check(ask.context))
        return ask

    async def _predict_each(self, asks: list[Ask]) -> list[PredictAnswer | Exception]:
        return await each_alone(self._predict, asks, self.model.name)

    async def _predict(self, asks: list[Ask]) -> list[PredictAnswer | Exception]:
        batch, replica = await self._costly(self._size(asks), self._batch, asks), self.replica
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
        listed = sum([ask.include_distribution for ask in asks]) * len(self.model.definition.labels)
        return await self._costly(listed, self._answers, batch, drawn, there)

    async def _costly(self, numbers: int, function: Callable[..., _T], *args: Any) -> _T:
        """Run a conversion of numbers, in a thread if they are many."""
        return await self._outside.compute.run_costly(numbers * _NUMBER_COST, self.model.name, function, *args)

    def _size(self, asks: list[Ask]) -> int:
        """How many numbers the contexts have."""
        return sum([self.model.contexts.size(ask.context) for ask in asks])

    def _batch(self, asks: list[Ask]) -> _Batch:
        """What was asked for together, in blocks; what has an id of the client's is in a block of its own."""
        contexts = self.model.contexts.gather([ask.context for ask in asks])
        contexts = within_bound_unchecked(contexts, self._features.norm, self._features.norm_bound)
        given = any([ask.id is not None for ask in asks])  # noqa: C419  a list is faster
        bounds = list(range(len(asks) + 1)) if given else self.model.format.bounds(contexts)
        first = [asks[start] for start in bounds[:-1]]
        names = [ask.id or OWN + self._outside.new_id() for ask in first]
        tokens = tokens_of(bounds, self._outside.new_id())
        return _Batch(asks, contexts, bounds, names, tokens, [self._fingerprint(ask) for ask in first])

    async def _draw_and_keep(self, batch: _Batch, seen: Seen) -> tuple[_Drawn, list[bytes | None] | Tail]:
        drawn = await self._draw(batch)
        return drawn, await self._keep(batch, drawn, seen)

    async def _draw(self, batch: _Batch) -> _Drawn:
        """Decides and draws at the present state."""
        n, model = len(batch.asks), self.model
        uniforms = self._outside.rng.random((n, self._uniforms))
        (distributions, evidence), (labels, propensities, leftovers) = await self._decider.decide(
            batch.contexts, uniforms
        )
        now, outputs = self._outside.now(), model.answers.form.rows(labels)
        expires_at = now + model.definition.window_seconds
        made = Made(outputs, propensities, leftovers, evidence, batch.contexts, now, expires_at, self.replica.rounds)
        if not (sound := model.format.sound(made)).all():
            raise ImpossibleDecisionsError(sound)
        return _Drawn(made, distributions)

    async def _keep(self, batch: _Batch, drawn: _Drawn, seen: Seen) -> list[bytes | None] | Tail:
        """Stores the predictions, unless there are rounds they should have seen."""
        numbers, encode = drawn.made.contexts.values.size, self.model.format.encode_blocks
        records = await self._costly(numbers, encode, drawn.made, batch.bounds, batch.tokens, batch.fingerprints)
        blocks = list(map(Block, batch.names, records))
        return await self._outside.store.add_predictions(self.model.key, blocks, self.model.keep_seconds, seen)

    def _fingerprint(self, ask: Ask) -> bytes:
        """16 bytes that tell whether two asks with the same id are one; zeros where the id is ours."""
        if ask.id is None:
            return bytes(16)
        return hashlib.blake2b(self.model.contexts.fingerprinted(ask.context), digest_size=16).digest()

    def _answers(self, batch: _Batch, drawn: _Drawn, there: list[bytes | None]) -> list[PredictAnswer | Exception]:
        made, tokens, spans = drawn.made, batch.tokens.tolist(), pairwise(batch.bounds)
        blocks = zip(batch.names, spans, strict=True)
        ids = [f"{self.model.name}:{id_}" for name, (start, stop) in blocks for id_ in ids_in(name, tokens[start:stop])]
        chances = [drawn.distributions[i] if ask.include_distribution else None for i, ask in enumerate(batch.asks)]
        answers: list[PredictAnswer | Exception] = []
        answers += told(self.model, ids, made, chances)
        for i, record in enumerate(there):
            if record is not None:
                answers[batch.bounds[i]] = told_again(self.model, batch.names[i], batch.fingerprints[i], record)
        return answers

    async def _join(self, feedback: list[Feedback]) -> list[FeedbackResult]:
        model = self.model
        results = await self._outside.store.add_feedback(model.key, feedback, model.feedback_rules, self._outside.now())
        for result in results:
            if result.status is FeedbackStatus.RECORDED and result.outcome is not None:
                self._newest_round = max(self._newest_round, result.outcome.round)
        self._keep_up()
        return results

    def _keep_up(self) -> None:
        """Starts upkeep in the background where a stretch of rounds or a snapshot is waiting for it."""
        behind = self._newest_round - self.replica.rounds
        if (behind >= FOLD_EVERY or self._snapshots.has_many_rounds) and (self._upkeep is None or self._upkeep.done()):
            self._upkeep = asyncio.create_task(self._maintain_quietly())

    async def _maintain_quietly(self) -> None:
        try:
            await self.maintain()
        except WagerError as error:  # nobody waits for this; the next request will meet the same error
            _log.warning("upkeep of model %s: %s", self.model.name, error.detail)
