"""Computes a learner's distributions within limits, replaces some with another policy's, and draws the answers.

For a learner with compiled kernels, this is one compiled call, because passing arguments from Python to compiled code
costs more than the arithmetic of a decision. If compilation is switched off, the steps run one by one in Python.
"""

from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from learners.answers import draw_answers_unchecked
from learners.base import AnyLearner, BoolArray, Contexts, Decisions, Draws, FloatArray, IntArray, Prices, State
from learners.kernels import compiled, decide_by_state, locate_by_state
from learners.learner import CompiledLearner
from learners.mathematics.exploration import draw_into
from learners.mathematics.limits import Limits, obey
from learners.mathematics.preparation import Preparer, Rule, prepared_by_rule


class Instead(NamedTuple):
    """The distributions of another policy, for some of n contexts."""

    answered: BoolArray  # (n,), whether the other policy answers each context; (0,) for none
    distributions: FloatArray  # (n, K), or (0, 0) for none; rows of the other contexts are ignored


NOBODY = Instead(np.empty(0, np.bool_), np.empty((0, 0)))  # the learner answers all contexts


class Choices(NamedTuple):
    """The answers to n contexts, and the distributions from which they were drawn."""

    distributions: FloatArray  # (n, K), or (n, 0) for rankings
    evidence: FloatArray  # (n, E)
    draws: Draws
    sound: BoolArray  # (n,), whether propensity and evidence are finite


def choose_unchecked(
    learner: AnyLearner,
    state: State,
    contexts: Contexts,
    preparer: Preparer,
    eligible: BoolArray,
    prices: Prices,
    limits: Limits,
    instead: Instead,
    uniforms: FloatArray,
) -> Choices:
    """Choose answers for n contexts. Arrays are not checked: invalid ones may crash the interpreter.

    `preparer` applies the norm policy and intercept. `eligible` is (n, K), with at least one label per row, or (n, 0)
    if all are eligible. Learners that weigh costs decide by the `prices`. The distributions obey the `limits` of the K
    labels, and `instead` replaces some of them. `uniforms` is (n, U), for U = `uniforms_per_answer`.
    """
    if isinstance(learner, CompiledLearner) and not isinstance(_choose, FunctionType):
        made = _room(learner, len(uniforms))
        # Arrays are passed one by one where possible: numba looks up tuple types more slowly.
        given = learner.verbs.parameters, state, preparer.rule, contexts, eligible, *prices, *limits, *instead, uniforms
        _choose(*given, made.distributions, made.evidence, *made.draws, made.sound)
        return made
    distributions, evidence = learner.decide_unchecked(state, preparer(contexts), eligible, prices)
    for among, distribution in zip(eligible, distributions, strict=True):
        obey(limits, among, distribution)
    if len(instead.answered):
        distributions = np.where(instead.answered[:, np.newaxis], instead.distributions, distributions)
    draws = draw_answers_unchecked(learner, Decisions(distributions, evidence), uniforms)
    return Choices(distributions, evidence, draws, np.isfinite(draws.propensities) & np.isfinite(evidence).all(axis=1))


def _room(learner: AnyLearner, n: int) -> Choices:
    draws = Draws(np.empty(n, np.int64), np.empty(n), np.empty(n))
    distributions, evidence = np.empty((n, learner.problem.n_labels)), np.empty((n, learner.evidence_size))
    return Choices(distributions, evidence, draws, np.empty(n, np.bool_))


@compiled
def _choose(
    parameters: Any,
    state: State,
    rule: Rule,
    contexts: Contexts,
    eligible: BoolArray,
    weights: FloatArray,
    costs: FloatArray,
    low: FloatArray,
    high: FloatArray,
    each: FloatArray,
    groups: IntArray,
    group_low: FloatArray,
    group_high: FloatArray,
    answered: BoolArray,
    instead: FloatArray,
    uniforms: FloatArray,
    distributions: FloatArray,
    evidence: FloatArray,
    labels: IntArray,
    propensities: FloatArray,
    residual_uniforms: FloatArray,
    sound: BoolArray,
) -> None:
    prepared = locate_by_state(parameters, state, prepared_by_rule(rule, contexts))
    decide_by_state(parameters, state, prepared, eligible, Prices(weights, costs), distributions, evidence)
    for i in range(len(distributions)):
        obey(Limits(low, high, each, groups, group_low, group_high), eligible[i], distributions[i])
    for i in range(len(answered)):
        if answered[i]:
            distributions[i] = instead[i]
    draw_into(distributions, uniforms[:, 0], labels, propensities, residual_uniforms)
    for i in range(len(sound)):
        sound[i] = np.isfinite(propensities[i]) and np.isfinite(evidence[i]).all()
