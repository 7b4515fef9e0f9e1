"""Decides and draws many answers with the current state, off the event loop if that takes long."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from learners.answers import draw_answers_unchecked, uniforms_per_answer
from learners.base import BoolArray, Contexts, Decisions, Draws, FloatArray
from service.candidates.choosing import Choices, choose, choosing_cost
from service.candidates.requests import CandidateSet
from service.compute import FIRST_CALL, slices
from service.environment import Environment
from service.models.model import Model
from service.replicas.replica import Replica
from service.rounds.isolation import ImpossibleDecisionsError
from service.rounds.options import Arms, action_arms, arms_of
from service.rounds.prediction_requests import PredictionBatch
from service.slots.remaining import contexts_in_rows, in_rows, without
from service.store.records.new_predictions import NewPredictions
from service.store.records.parts import Parts

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Drawn(NamedTuple):
    """n predictions that are drawn but not yet stored."""

    predictions: NewPredictions
    distributions: FloatArray | Sequence[FloatArray]  # (n, K), or n of different lengths for candidates


class _Work(NamedTuple):
    """n requests to decide."""

    contexts: Contexts
    eligible: BoolArray  # (n, K) or (n, 0)
    arms: Arms
    uniforms: FloatArray  # (n, U); (n, slots, U) for answers with slots

    def rows(self, start: int, stop: int) -> "_Work":
        """Return requests start … stop - 1, as views."""
        arms = self.arms.part(start, stop)
        return _Work(self.contexts.rows(start, stop), self.eligible[start:stop], arms, self.uniforms[start:stop])


class _Made(NamedTuple):
    """Answers that are drawn, one for each prediction."""

    contexts: Contexts
    draws: Draws
    evidence: FloatArray
    parts: Parts


class Decider:
    """Decides for one replica.

    Args:
        replica: the replica whose state decides.
        environment: provides random numbers, the clock, and worker threads for long computations.
    """

    def __init__(self, replica: Replica, environment: Environment) -> None:
        self._replica = replica
        self._environment = environment
        self._called = False  # the first call may compile kernels

    async def draw(self, batch: PredictionBatch) -> Drawn:
        """Decide and draw for each request of a batch. Call with the replica's lock held.

        Args:
            batch: n requests.

        Raises:
            ImpossibleDecisionsError: if the learner fails, or its decisions cannot be stored.
        """
        work, contexts, parts = self._work(batch), batch.contexts, batch.parts
        if batch.top is None:
            (distributions, evidence), draws = await self._decide(work)
        else:
            (distributions, evidence), draws, eligible = await self._decide_slots(work, batch.top)
            contexts = contexts_in_rows([contexts] * batch.top)
            parts = Parts(eligible, [each for each in parts.sent for _ in range(batch.top)])
        predictions = self._new(batch, _Made(contexts, draws, evidence, parts), work.arms.holdout)
        return Drawn(predictions, distributions)

    async def choose(self, batch: PredictionBatch) -> Drawn:
        """Decide and draw among the candidates of each request of a batch; as `draw`."""
        replica, sets, holdout = self._replica, batch.candidates, self._held_out(len(batch.requests))
        model, random = replica.model, self._environment.rng.random
        ids = [[action.id for action in each.actions] for each in sets] if holdout.any() or _is_logging(model) else []
        arms = action_arms(model, [request.options for request in batch.requests], ids, holdout) if ids else None
        slots = batch.top or 1
        cost, uniforms = choosing_cost(model, sets) * slots, random((slots, len(sets)))
        made = await self._run(cost, self._choose_now, sets, uniforms, arms)
        answers = _Made(made.contexts, made.draws, made.evidence, made.parts)
        return Drawn(self._new(batch, answers, holdout), made.distributions)

    def _new(self, batch: PredictionBatch, made: "_Made", holdout: BoolArray) -> NewPredictions:
        """Return answers as new predictions; `holdout` and the batch's `inactive` have a row for each request."""
        replica, slots, inactive = self._replica, batch.top or 1, batch.inactive
        model, now = replica.model, self._environment.now()
        predictions = NewPredictions(
            model.answers.form.rows(made.draws.labels),
            made.draws.propensities,
            made.draws.residual_uniforms,
            made.evidence,
            made.contexts,
            now,
            now + model.definition.window_seconds,
            replica.round_count,
            replica.change_count,
            made.parts,
            np.repeat(holdout, slots) if holdout.any() else None,
            None if inactive is None else np.repeat(inactive, slots),
        )
        if not (sound := model.format.sound(predictions)).all():
            each: BoolArray = np.logical_and.reduce(sound.reshape(-1, slots), axis=1)
            raise ImpossibleDecisionsError(each)
        return predictions

    def _choose_now(
        self, sets: Sequence[CandidateSet], uniforms: FloatArray, arms: Sequence[FloatArray | None] | None
    ) -> Choices:
        try:
            return choose(self._replica.model, self._replica.state, sets, uniforms, arms)
        except Exception as error:
            _log.exception("the learner failed")
            raise ImpossibleDecisionsError(None) from error

    def _held_out(self, n: int) -> BoolArray:
        """Choose which of n requests the holdout answers."""
        holdout = self._replica.model.definition.holdout
        return np.zeros(n, np.bool_) if holdout is None else self._environment.rng.random(n) < holdout.fraction

    def _work(self, batch: PredictionBatch) -> _Work:
        """Draw the random numbers of a batch, and choose who answers each request."""
        model, random, n = self._replica.model, self._environment.rng.random, batch.contexts.n
        each = uniforms_per_answer(model.learner)
        uniforms, held_out = random((n, each) if batch.top is None else (n, batch.top, each)), self._held_out(n)
        arms = arms_of(model, [request.options for request in batch.requests], batch.eligible, held_out)
        return _Work(batch.contexts, batch.eligible, arms, uniforms)

    async def _decide_slots(self, work: _Work, slots: int) -> tuple[Decisions, Draws, BoolArray]:
        """Decide slot after slot, each among the labels that the slots before it left.

        Returns:
            The decisions, the draws and the labels that were left, for each slot of each request.
        """
        left = work.eligible
        if not left.shape[1]:
            left = np.ones((work.contexts.n, len(self._replica.model.definition.labels)), np.bool_)
        made, arms = list[tuple[Decisions, Draws, BoolArray]](), work.arms
        for slot in range(slots):
            if slot:
                left = without(left, made[-1][1].labels)
                arms = arms.among(left)
            uniforms = np.ascontiguousarray(work.uniforms[:, slot])
            made.append((*await self._decide(_Work(work.contexts, left, arms, uniforms)), left))
        decided, drawn, masks = zip(*made, strict=True)
        columns = ([in_rows(column) for column in zip(*each, strict=True)] for each in (decided, drawn))
        return Decisions(*next(columns)), Draws(*next(columns)), in_rows(masks)

    async def _decide(self, work: _Work) -> tuple[Decisions, Draws]:
        """Decide in slices, so that other models get a turn between slices."""
        n, each = work.contexts.n, self._replica.model.learner.decide_cost(work.contexts.mean_nonzeros + 1)
        bounds = slices(n, each)
        if len(bounds) == 1:
            return await self._run(n * each, self._decide_slice, work)
        parts = [
            await self._run((stop - start) * each, self._decide_slice, work.rows(start, stop)) for start, stop in bounds
        ]
        decisions, draws = zip(*parts, strict=True)
        return Decisions(*map(np.concatenate, zip(*decisions, strict=True))), Draws(
            *map(np.concatenate, zip(*draws, strict=True))
        )

    async def _run(self, cost: int, function: Callable[..., _T], *args: Any) -> _T:
        cost, owner = cost if self._called else FIRST_CALL, self._replica.model.name
        answered = await self._environment.compute.run_costly(cost, owner, function, *args)
        self._called = True
        return answered

    def _decide_slice(self, work: _Work) -> tuple[Decisions, Draws]:
        """Decide with the learner, which gives the evidence; draw from its distributions, or from those of the arms."""
        model, state = self._replica.model, self._replica.state
        try:
            decisions = model.learner.decide_unchecked(state, model.prepared(work.contexts), work.eligible)
            if work.arms.rows.any():
                decisions = decisions._replace(distributions=work.arms.put_into(decisions.distributions))
            return decisions, draw_answers_unchecked(model.learner, decisions, work.uniforms)
        except Exception as error:
            _log.exception("the learner failed")
            raise ImpossibleDecisionsError(None) from error


def _is_logging(model: Model) -> bool:
    return model.definition.mode == "logging"
