"""Choosing in one call is preparing, deciding and drawing in turn, to the bit."""

import numpy as np
import pytest

from learners.answers import draw_answers_unchecked, is_structured, uniforms_per_answer
from learners.base import Contexts, Decisions, NormPolicy, every_label
from learners.choosing import NOBODY, Instead, choose_unchecked
from learners.mathematics.preparation import Preparation, Preparer
from tests.learners.arrays import bits
from tests.learners.contract.lives import Life, N, only_for
from tests.learners.contract.subsets import some_subsets


def preparer_of(life: Life, policy: NormPolicy) -> Preparer:
    """Return a preparation whose results fit the learner of a life."""
    return Preparer(Preparation(policy, 1.0, False, life.learner.problem.n_features))


def sent(life: Life, scale: float) -> Contexts:
    """Return contexts that a norm policy changes."""
    contexts = life.rounds.contexts
    return contexts._replace(values=contexts.values * scale)


@pytest.mark.parametrize("policy", ["none", "scale", "unit", "reject"])
def test_one_call_gives_the_bits_of_its_steps(life: Life, policy: NormPolicy) -> None:
    """Every policy, with all labels eligible; `reject` changes nothing."""
    learner, contexts, prepare = life.learner, sent(life, 1.0 if policy == "reject" else 3.0), preparer_of(life, policy)
    uniforms = np.random.default_rng(1).random((N, uniforms_per_answer(learner)))
    before = bits(life.state)
    chosen = choose_unchecked(learner, life.state, contexts, prepare, every_label(N), NOBODY, uniforms)
    decisions = learner.decide(life.state, prepare(contexts))
    assert bits(chosen[:2]) == bits(decisions)
    assert bits(chosen.draws) == bits(draw_answers_unchecked(learner, decisions, uniforms))
    assert chosen.sound.all()
    assert bits(life.state) == before


@only_for(lambda learner: not is_structured(learner))
def test_another_policy_answers_some_contexts_among_the_eligible(life: Life) -> None:
    """Where it answers, labels are drawn from its distributions, not from the learner's; the evidence stays."""
    rng, learner, prepare = np.random.default_rng(2), life.learner, preparer_of(life, "scale")
    eligible, contexts = some_subsets(rng, N, learner.problem.n_labels), life.rounds.contexts
    instead = Instead(rng.random(N) < 0.5, eligible / eligible.sum(axis=1, keepdims=True))
    uniforms = rng.random((N, 1))
    chosen = choose_unchecked(learner, life.state, contexts, prepare, eligible, instead, uniforms)
    distributions, evidence = learner.decide(life.state, prepare(contexts), eligible)
    expected = np.where(instead.answered[:, np.newaxis], instead.distributions, distributions)
    assert bits(chosen[:2]) == bits((expected, evidence))
    assert bits(chosen.draws) == bits(draw_answers_unchecked(learner, Decisions(expected, evidence), uniforms))


@only_for(lambda learner: not is_structured(learner))
def test_an_impossible_decision_is_not_sound(life: Life) -> None:
    """A policy without numbers makes its context unsound, and no other."""
    n_labels, prepare = life.learner.problem.n_labels, preparer_of(life, "scale")
    answered = np.arange(N) == 1
    instead, uniforms = Instead(answered, np.full((N, n_labels), np.nan)), np.full((N, 1), 0.5)
    chosen = choose_unchecked(
        life.learner, life.state, life.rounds.contexts, prepare, every_label(N), instead, uniforms
    )
    assert chosen.sound.tolist() == (~answered).tolist()
