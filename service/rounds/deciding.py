"""Deciding and drawing many answers at the present state, off the event loop where it takes long."""

import numpy as np

from learners.answers import draw_answers_unchecked
from learners.base import Contexts, Decisions, Draws, FloatArray
from service.compute import FIRST_CALL, Compute, slices
from service.replicas.replica import Replica
from service.rounds.isolation import isolating


class Decider:
    """Decides for one replica.

    Args:
        replica: whose state decides.
        compute: runs what takes long.
    """

    def __init__(self, replica: Replica, compute: Compute) -> None:
        self._replica = replica
        self._compute = compute
        self._learner = replica.model.learner
        self._called = False  # once at least

    async def decide(self, contexts: Contexts, uniforms: FloatArray) -> tuple[Decisions, Draws]:
        """Decide and draw for each of n contexts. Call with the replica's lock held.

        Args:
            contexts: n of them.
            uniforms: (n, uniforms per answer), each in [0, 1).
        """
        each = self._learner.decide_cost(contexts.mean_nonzeros)
        bounds = slices(contexts.n, each)
        if len(bounds) == 1:
            return await self._run(contexts.n * each, contexts, uniforms)
        parts = []
        for start, stop in bounds:  # between two slices other models get their turn
            part = await self._run((stop - start) * each, contexts.rows(start, stop), uniforms[start:stop])
            parts.append(part)
        decisions, draws = zip(*parts, strict=True)
        return Decisions(*map(np.concatenate, zip(*decisions, strict=True))), Draws(
            *map(np.concatenate, zip(*draws, strict=True))
        )

    async def _run(self, cost: int, contexts: Contexts, uniforms: FloatArray) -> tuple[Decisions, Draws]:
        cost = cost if self._called else FIRST_CALL
        answered = await self._compute.run_costly(cost, self._replica.model.name, self._decide, contexts, uniforms)
        self._called = True
        return answered

    @isolating
    def _decide(self, contexts: Contexts, uniforms: FloatArray) -> tuple[Decisions, Draws]:
        decisions = self._learner.decide_unchecked(self._replica.state, contexts)
        return decisions, draw_answers_unchecked(self._learner, decisions, uniforms)
