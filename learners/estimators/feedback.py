"""Reads feedback from outside and turns it into rounds."""

from typing import Any

import numpy as np

from learners.base import NO_LABEL, AnyLearner, Contexts, FloatArray, IntArray, Rounds, every_label
from learners.estimators.inputs import as_array
from learners.mathematics.norms import one_by_one


def read_column(name: str, given: Any, n: int) -> FloatArray:
    """Return n finite numbers as float64.

    Raises:
        ValueError: if they are anything else; the message begins with the name.
    """
    array = as_array(name, given)
    if array.dtype == object and array.ndim == 1:
        array = np.array([value if isinstance(value, bool | int | float | np.generic) else np.nan for value in array])
    if array.shape != (n,) or array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: must be {n} numbers, one for each row, not {array.dtype} of shape {array.shape}")
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name}: every number must be finite")
    return numbers


def read_rewards(name: str, given: Any, n: int) -> FloatArray:
    """Return n rewards from 0 to 1; booleans count as 1 and 0.

    Raises:
        ValueError: if they are anything else.
    """
    rewards = read_column(name, given, n)
    wrong = rewards[~((rewards >= 0.0) & (rewards <= 1.0))]
    if wrong.size:
        raise ValueError(f"{name}: got {wrong[0]:g}; must be from 0 to 1")
    return rewards


def read_bits(name: str, given: Any, n: int) -> FloatArray:
    """Return n numbers that are 0 or 1, from booleans or from such numbers.

    Raises:
        ValueError: if they are anything else.
    """
    bits = read_column(name, given, n)
    wrong = bits[(bits != 0.0) & (bits != 1.0)]
    if wrong.size:
        raise ValueError(f"{name}: got {wrong[0]:g}; must be True or False, or 1 or 0; `rewards` takes fractions")
    return bits


def read_propensities(given: Any, n: int) -> FloatArray:
    """Return n propensities above 0 and at most 1.

    Raises:
        ValueError: if they are anything else.
    """
    propensities = read_column("propensities", given, n)
    wrong = propensities[~((propensities > 0.0) & (propensities <= 1.0))]
    if wrong.size:
        raise ValueError(f"propensities: got {wrong[0]:g}; must be above 0 and at most 1")
    return propensities


def check_feedback(learner: AnyLearner, rewards: FloatArray, truths: IntArray | None) -> None:
    """Refuse feedback that the learner cannot use.

    Raises:
        ValueError: if it needs true labels and has none, or has fractions of rewards that it does not accept.
    """
    if learner.needs_true_label and truths is None:
        raise ValueError(f"true_labels: missing; {learner.algorithm} with these hyperparameters learns from them")
    if not learner.accepts_rewards and ((rewards != 0.0) & (rewards != 1.0)).any():
        raise ValueError(f"rewards: {learner.algorithm} learns from right or wrong; must be 0 or 1")


def rounds_of(
    contexts: Contexts,
    labels: IntArray,
    propensities: FloatArray,
    rewards: FloatArray,
    truths: IntArray | None,
    evidence: FloatArray,
    residual_uniforms: FloatArray,
) -> Rounds:
    """Return rounds in which every label was eligible; arguments as the fields of `Rounds`."""
    n = len(labels)
    known = np.full(n, NO_LABEL) if truths is None else truths
    columns = (labels, propensities, rewards == 1.0, known, evidence, residual_uniforms, rewards)
    return Rounds(contexts, *columns, every_label(n))


def fold_logged(learner: AnyLearner, state: Any, rounds: Rounds) -> Any:
    """Return the state after rounds of another policy, with the evidence of a decision just before each update.

    Args:
        learner: the learner.
        state: its state; may be changed in place.
        rounds: the rounds, without evidence (n, 0).
    """
    if learner.evidence_size == 0:
        return learner.fold(state, rounds)
    for t, context in enumerate(one_by_one(rounds.contexts)):
        evidence = learner.decide(state, context).evidence
        state = learner.fold(state, rounds.rows(t, t + 1)._replace(contexts=context, evidence=evidence))
    return state
