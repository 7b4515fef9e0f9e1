"""Decides among the candidates of many requests, and draws one of each."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from learners.actions.base import Candidates
from learners.base import Contexts, Draws, FloatArray, IntArray
from learners.mathematics.exploration import draw_unchecked
from service.actions.logged import encode
from service.candidates.requests import CandidateSet
from service.models.action_learners import probabilities
from service.models.model import Model
from service.slots.remaining import contexts_in_rows, in_rows, renormalized
from service.store.records.parts import Parts

_ENTRY_COST = 10
"""Cost of making one entry of a vector, in multiply-adds, on top of its score."""

_CANDIDATE_COST = 1_000
"""Cost of joining one candidate's features with the others', in multiply-adds, on top of its entries."""

_NONE = np.empty(0, np.bool_)


class Choices(NamedTuple):
    """The answers to n requests, drawn but not yet stored."""

    contexts: Contexts  # n, the vectors of the chosen candidates before preparation
    draws: Draws  # labels are the positions of the chosen candidates
    evidence: FloatArray  # (n, 1), the numbers of candidates
    distributions: list[FloatArray]  # n, the probabilities of the candidates
    parts: Parts


def choosing_cost(model: Model, sets: Sequence[CandidateSet]) -> int:
    """Return the cost of `choose`, in multiply-adds."""
    entries, candidates = sum([each.entries for each in sets]), sum([len(each.actions) for each in sets])
    return entries * _ENTRY_COST + candidates * (
        _CANDIDATE_COST + model.learner.decide_cost(entries // max(candidates, 1) + 1)
    )


def choose(
    model: Model,
    state: Any,
    sets: Sequence[CandidateSet],
    uniforms: FloatArray,
    arms: Sequence[FloatArray | None] | None = None,
) -> Choices:
    """Decide and draw m slots for each of n requests, each slot among the candidates that are left.

    Args:
        model: the model.
        state: its learner's state.
        sets: the candidates of each request, at least m.
        uniforms: (m, n), in [0, 1).
        arms: the distribution of another policy for each request, or None; None if the learner answers all. It is
            renormalized for the later slots.

    Returns:
        The n * m choices in the order of `service.slots.remaining`; the distributions are those of the first slot.
    """
    made = [_choose_one(model, state, sets, uniforms[0], arms)]
    for row in uniforms[1:]:
        chosen = made[-1].draws.labels.tolist()
        sets = [each.without(k) for each, k in zip(sets, chosen, strict=True)]
        if arms is not None:
            arms = [None if arm is None else _arm_without(arm, k) for arm, k in zip(arms, chosen, strict=True)]
        made.append(_choose_one(model, state, sets, row, arms))
    return _in_rows(made)


def _choose_one(
    model: Model,
    state: Any,
    sets: Sequence[CandidateSet],
    uniforms: FloatArray,
    arms: Sequence[FloatArray | None] | None,
) -> Choices:
    vectors, candidates = candidates_of(model, sets)
    starts, flat = candidates.starts, probabilities(model.learner, state, candidates)
    distributions = [flat[start:stop] for start, stop in pairwise(starts.tolist())]
    if arms is not None:
        distributions = [p if arm is None else arm for p, arm in zip(distributions, arms, strict=True)]
    drawn = [draw_unchecked(p[np.newaxis], uniforms[i : i + 1]) for i, p in enumerate(distributions)]
    draws = Draws(*map(np.concatenate, zip(*drawn, strict=True)))
    chosen = _rows(vectors, starts[:-1] + draws.labels)
    counts = np.diff(starts).astype(np.float64)[:, np.newaxis]
    return Choices(chosen, draws, counts, distributions, _parts(model, sets, draws.labels, distributions))


def _in_rows(slots: Sequence[Choices]) -> Choices:
    """Return the choices of all slots as one."""
    contexts, draws, evidence, distributions, parts = zip(*slots, strict=True)
    sent, actions = (
        [each for row in zip(*column, strict=True) for each in row]
        for column in ([part.sent for part in parts], [part.actions for part in parts])
    )
    return Choices(
        contexts_in_rows(contexts),
        Draws(*[in_rows(column) for column in zip(*draws, strict=True)]),
        in_rows(evidence),
        distributions[0],
        Parts(np.ones((len(sent), 0), np.bool_), sent, actions),
    )


def _arm_without(arm: FloatArray, chosen: int) -> FloatArray:
    """Return a distribution over the candidates that are left."""
    left = np.ones((1, len(arm) - 1), np.bool_)
    remaining: FloatArray = renormalized(np.delete(arm, chosen)[np.newaxis], left)[0]
    return remaining


def candidates_of(model: Model, sets: Sequence[CandidateSet]) -> tuple[Contexts, Candidates]:
    """Return the vectors of the candidates of n requests before preparation, and the candidates as learners see them.

    Raises:
        TypeError: if the model has labels.
    """
    if model.vectors is None:
        raise TypeError(f"model {model.name!r} has no actions")
    starts = np.zeros(len(sets) + 1, np.int64)
    np.cumsum([len(each.actions) for each in sets], out=starts[1:])
    factors = [each for one in sets for each in one.factors]
    vectors = model.vectors.join([each.context for each in sets], factors, starts)
    return vectors, Candidates(model.prepared(vectors), starts, _NONE)


def vectors_of(model: Model, sets: Sequence[CandidateSet], chosen: IntArray) -> tuple[Contexts, Parts]:
    """Return the vectors of n chosen candidates before preparation, and what is stored beside them.

    Args:
        model: the model.
        sets: the candidates of each of n requests.
        chosen: (n,), the position of the chosen one; the probabilities of the others are unknown.
    """
    vectors, candidates = candidates_of(model, sets)
    logs_all = model.definition.actions is not None and model.definition.actions.log_actions == "all"
    unknown = [[None] * len(each.actions) if logs_all else None for each in sets]
    actions = [encode(one.actions, k, p) for one, k, p in zip(sets, chosen.tolist(), unknown, strict=True)]
    parts = Parts(np.ones((len(sets), 0), np.bool_), [each.sent for each in sets], actions)
    return _rows(vectors, candidates.starts[:-1] + chosen), parts


def _rows(vectors: Contexts, rows: IntArray) -> Contexts:
    """Return some of the vectors, in new arrays."""
    spans = [slice(vectors.starts[i], vectors.starts[i + 1]) for i in rows.tolist()]
    starts = np.zeros(len(spans) + 1, np.int64)
    np.cumsum([span.stop - span.start for span in spans], out=starts[1:])
    indices, values = (np.concatenate([column[span] for span in spans]) for column in (vectors.indices, vectors.values))
    return Contexts(starts, indices, values, False)


def _parts(model: Model, sets: Sequence[CandidateSet], chosen: IntArray, distributions: Sequence[FloatArray]) -> Parts:
    """Return what is stored beside the vectors."""
    logs_all = model.definition.actions is not None and model.definition.actions.log_actions == "all"
    kept = [p.tolist() if logs_all else None for p in distributions]
    actions = [encode(one.actions, k, p) for one, k, p in zip(sets, chosen.tolist(), kept, strict=True)]
    return Parts(np.ones((len(sets), 0), np.bool_), [each.sent for each in sets], actions)
