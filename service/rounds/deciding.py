"""Decides and draws many answers with the current state, off the event loop if that takes long."""

import logging
from typing import NamedTuple

import numpy as np

from learners.answers import draw_answers_unchecked, uniforms_per_answer
from learners.base import Contexts, Decisions, Draws, FloatArray
from service.compute import FIRST_CALL, slices
from service.environment import Environment
from service.replicas.replica import Replica
from service.rounds.isolation import ImpossibleDecisionsError
from service.store.records.records import NewPredictions

_log = logging.getLogger(__name__)


class Drawn(NamedTuple):
    """n predictions that are drawn but not yet stored."""

    predictions: NewPredictions
    distributions: FloatArray  # (n, K)


class Decider:
    """Decides for one replica.

    Args:
        replica: the replica whose state decides.
        environment: provides random numbers, the clock, and worker threads for long computations.
    """

    def __init__(self, replica: Replica, environment: Environment) -> None:
        self._replica = replica
        self._environment = environment
        self._model = replica.model
        self._learner = replica.model.learner
        self._uniforms = uniforms_per_answer(self._learner)
        self._called = False  # the first call may compile kernels

    async def draw(self, contexts: Contexts) -> Drawn:
        """Decide and draw for each of n contexts. Call with the replica's lock held.

        Raises:
            ImpossibleDecisionsError: if the learner fails, or its decisions cannot be stored.
        """
        uniforms = self._environment.rng.random((contexts.n, self._uniforms))
        (distributions, evidence), (labels, propensities, residual_uniforms) = await self._decide(contexts, uniforms)
        now, model = self._environment.now(), self._model
        predictions = NewPredictions(
            model.answers.form.rows(labels),
            propensities,
            residual_uniforms,
            evidence,
            contexts,
            now,
            now + model.definition.window_seconds,
            self._replica.round_count,
            self._replica.change_count,
        )
        if not (sound := model.format.sound(predictions)).all():
            raise ImpossibleDecisionsError(sound)
        return Drawn(predictions, distributions)

    async def _decide(self, contexts: Contexts, uniforms: FloatArray) -> tuple[Decisions, Draws]:
        """Decide in slices, so that other models get a turn between slices."""
        n, each = len(uniforms), self._learner.decide_cost(contexts.mean_nonzeros)
        bounds = slices(n, each)
        if len(bounds) == 1:
            return await self._run(n * each, contexts, uniforms)
        parts = []
        for start, stop in bounds:
            part = await self._run((stop - start) * each, contexts.rows(start, stop), uniforms[start:stop])
            parts.append(part)
        decisions, draws = zip(*parts, strict=True)
        return Decisions(*map(np.concatenate, zip(*decisions, strict=True))), Draws(
            *map(np.concatenate, zip(*draws, strict=True))
        )

    async def _run(self, cost: int, contexts: Contexts, uniforms: FloatArray) -> tuple[Decisions, Draws]:
        cost, owner = cost if self._called else FIRST_CALL, self._model.name
        answered = await self._environment.compute.run_costly(cost, owner, self._decide_slice, contexts, uniforms)
        self._called = True
        return answered

    def _decide_slice(self, contexts: Contexts, uniforms: FloatArray) -> tuple[Decisions, Draws]:
        try:
            decisions = self._learner.decide_unchecked(self._replica.state, contexts)
            return decisions, draw_answers_unchecked(self._learner, decisions, uniforms)
        except Exception as error:
            _log.exception("the learner failed")
            raise ImpossibleDecisionsError(None) from error
