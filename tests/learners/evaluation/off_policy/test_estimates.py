"""Off-policy estimates against enumeration, in every split, and against the frequency with which intervals cover."""

from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from benchmarks.coverage import CONSERVATIVE, VALUE, coverage, simulated
from learners.base import NO_LABEL, AnyLearner, BoolArray, Contexts, InvalidArrayError, Problem, Rounds, every_label
from learners.evaluation.off_policy.estimates import UNBIASED, Evaluation, difference, evaluation_of
from learners.evaluation.off_policy.learner_replay import replay
from learners.evaluation.off_policy.logged import LoggedRounds, check_logged
from learners.evaluation.off_policy.policies import ConstantLabel, GivenDistributions, Policy, Served, UniformChoice
from learners.evaluation.off_policy.reward_model import (
    NO_REWARD_SUMS,
    RewardModel,
    RewardProblem,
    RewardSums,
    reward_sums,
)
from learners.evaluation.off_policy.sums import Settings, Sums, bootstrap_weights, merge_all, uniforms
from learners.evaluation.off_policy.terms import Evaluated, sums_of, terms_of
from learners.mathematics.preparation import one_by_one
from learners.registry import LEARNERS

SETTINGS = Settings(3, 50, 4.0)
PROBLEM = RewardProblem(3, 1)


def _value(evaluation: Evaluation, name: str) -> float | None:
    return {each.estimator: each.value for each in evaluation.estimates}[name]


def _evaluated(log: LoggedRounds, policy: Policy, settings: Settings = SETTINGS) -> Evaluation:
    return evaluation_of(sums_of(log, [Evaluated(policy)], settings)[0], settings)


def test_the_mean_of_every_unbiased_term_is_the_value_by_enumeration() -> None:
    p, q, reward = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7]), np.array([0.9, 0.4, 0.3])
    labels, bits = np.repeat(np.arange(3), 2), np.tile([0.0, 1.0], 3)
    chance = p[labels] * np.where(bits == 1.0, reward[labels], 1.0 - reward[labels])
    numbers, truths, nobody = np.arange(1, 7), np.full(6, NO_LABEL), np.zeros(6, np.bool_)
    contexts = Contexts.dense(np.ones((6, 1)))
    log = LoggedRounds(numbers, labels, p[labels], bits, every_label(6), np.full(6, 3), nobody, truths, contexts)
    predictions = np.tile([0.8, 0.1, 0.5], (6, 1))
    policies: list[tuple[Policy, float]] = [
        (GivenDistributions(np.tile(q, (6, 1))), float(q @ reward)),
        (UniformChoice(), float(reward.mean())),
        (ConstantLabel(2), float(reward[2])),
        (Served(), float(p @ reward)),
    ]
    for policy, value in policies:
        (terms,) = terms_of(log, [Evaluated(policy)])
        assert chance @ (terms.weights * bits) == pytest.approx(value)
        robust = policy.expected(log, predictions)
        robust = robust + terms.weights * (bits - predictions[np.arange(6), labels])
        assert chance @ robust == pytest.approx(value)


def test_the_estimates_are_their_formulas() -> None:
    log, target = simulated(300, 5)
    weights = target[np.arange(300), log.labels] / log.propensities
    settings = Settings(3, 20, 1.5)
    model = RewardModel(reward_sums(log, PROBLEM), PROBLEM)
    (sums,) = sums_of(log, [Evaluated(GivenDistributions(target))], settings, model)
    found = evaluation_of(sums, settings)
    predictions, modelled = model.predict(log)
    direct, own = (target * predictions).sum(axis=1), predictions[np.arange(300), log.labels]
    kept = uniforms(3, 1, log.numbers) < weights / 2.0 ** np.ceil(np.log2(weights.max()))
    assert _value(found, "ips") == pytest.approx((weights * log.rewards).mean())
    assert _value(found, "clipped_ips") == pytest.approx((np.minimum(weights, 1.5) * log.rewards).mean())
    assert _value(found, "snips") == pytest.approx((weights * log.rewards).sum() / weights.sum())
    assert _value(found, "direct") == pytest.approx(direct[modelled == 1.0].mean())
    assert _value(found, "doubly_robust") == pytest.approx((direct + weights * (log.rewards - own)).mean())
    assert _value(found, "replay") == pytest.approx(log.rewards[kept].mean())
    assert (found.replayed_rounds, found.largest_weight) == (kept.sum(), weights.max())
    assert found.effective_rounds == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert found.clipped_share == (weights > 1.5).mean()


@pytest.mark.parametrize("bounds", [[0, 1, 900], [0, 256, 257, 900], [0, 450, 900], list(range(0, 901, 100))])
def test_sums_are_equal_in_every_split(bounds: list[int]) -> None:
    log, target = simulated(900, 1)
    parts = [slice(*pair) for pair in pairwise(bounds)]
    whole = RewardModel(reward_sums(log, PROBLEM), PROBLEM)
    merged = NO_REWARD_SUMS
    for part in parts:
        merged = merged.merge(reward_sums(log.rows(part.start, part.stop), PROBLEM))
    model = RewardModel(merged, PROBLEM)
    (expected,) = sums_of(log, [Evaluated(GivenDistributions(target))], SETTINGS, whole)
    found = [
        sums_of(log.rows(part.start, part.stop), [Evaluated(GivenDistributions(target[part]))], SETTINGS, model)[0]
        for part in parts
    ]
    for ordered in (found, found[::-1]):
        columns: list[tuple[str, Any, Any]] = list(zip(Sums._fields, merge_all(ordered), expected, strict=True))
        for name, one, other in columns:
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12, err_msg=name)


def test_the_reward_model_of_a_block_does_not_depend_on_later_rounds() -> None:
    log, _ = simulated(900, 2)
    predictions, modelled = RewardModel(reward_sums(log, PROBLEM), PROBLEM).predict(log)
    changed = log._replace(rewards=np.where(log.numbers > 512, 1.0 - log.rewards, log.rewards))
    others, _ = RewardModel(reward_sums(changed, PROBLEM), PROBLEM).predict(log)
    assert np.array_equal(predictions[:512], others[:512])
    assert np.array_equal(modelled, (log.numbers > 256).astype(np.float64))


def test_only_features_that_occur_count() -> None:
    """A hashed context is the same regression as a dense one, in every split; too many features leave it out."""
    log, _ = simulated(900, 6)
    dense = log.contexts.values.reshape(900, -1)
    apart = np.array([7, 70_000, 130_000, 2**18 - 1])
    hashed = log._replace(contexts=Contexts.sparse([4] * 900, np.tile(apart, 900), dense.ravel()))
    sums = reward_sums(hashed, PROBLEM)
    expected, _ = RewardModel(reward_sums(log, PROBLEM), PROBLEM).predict(log)
    assert sums.columns is not None
    assert sums.columns.tolist() == apart.tolist()
    np.testing.assert_allclose(RewardModel(sums, PROBLEM).predict(hashed)[0], expected, rtol=1e-9, atol=1e-12)
    some = hashed.contexts.values * (
        np.arange(3600) % 4 != np.repeat(np.arange(900) // 300, 4)
    )  # one is absent at first
    thin = hashed._replace(contexts=_without_zeros(hashed.contexts._replace(values=some)))
    merged = NO_REWARD_SUMS
    for start in (600, 0, 300):
        merged = merged.merge(reward_sums(thin.rows(start, start + 300), PROBLEM))
    found, _ = RewardModel(merged, PROBLEM).predict(thin)
    np.testing.assert_allclose(found, RewardModel(reward_sums(thin, PROBLEM), PROBLEM).predict(thin)[0], atol=1e-12)
    many = log._replace(contexts=Contexts.sparse([1] * 900, np.arange(900), np.ones(900)))
    whole, parts = reward_sums(many, PROBLEM), [reward_sums(many.rows(i, i + 100), PROBLEM) for i in range(0, 900, 100)]
    for sums in (whole, reduce(RewardSums.merge, parts), reduce(RewardSums.merge, parts[::-1])):
        model = RewardModel(sums, PROBLEM)
        assert (model.uses_contexts, model.leaves_contexts_out) == (False, True)
        np.testing.assert_allclose(sums.blocks[1].squares, whole.blocks[1].squares)


def _without_zeros(contexts: Contexts) -> Contexts:
    present = contexts.values != 0.0
    lengths = np.add.reduceat(present.astype(np.int64), contexts.starts[:-1])
    return Contexts.sparse(lengths, contexts.indices[present], contexts.values[present])


def test_bootstrap_weights_are_poisson_and_depend_on_seed_and_round_only() -> None:
    weights = np.empty((2000, 201))
    bootstrap_weights(7, np.arange(2000), weights)
    drawn = weights[:, 1:]
    assert (weights[:, 0] == 1.0).all()
    assert (drawn.mean(), drawn.var()) == (pytest.approx(1.0, abs=0.01), pytest.approx(1.0, abs=0.02))
    assert np.abs(np.corrcoef(drawn.T) - np.eye(200)).max() < 0.12
    some = np.empty((2, 201))
    bootstrap_weights(7, np.array([42, 7]), some)
    assert np.array_equal(some, weights[[42, 7]])


def test_a_policy_beyond_the_log_is_warned_of_and_stays_in_the_conservative_interval() -> None:
    log, _ = simulated(500, 3)
    log = log._replace(labels=np.where(log.labels == 2, 1, log.labels))
    found = _evaluated(log, ConstantLabel(2))
    assert (_value(found, "ips"), found.conservative) == (0.0, (0.0, 1.0))
    assert any("never gives" in warning for warning in found.warnings)
    assert {each.doubt for each in found.estimates if each.value is not None} == {"the mean weight is 0.00, not 1"}
    (warning,) = [each for each in found.warnings if "mean weight" in each]
    assert warning.endswith("Only the conservative interval counts.")


def test_the_conservative_interval_is_not_recommended_for_wrong_propensities() -> None:
    log, target = simulated(500, 3)
    found = _evaluated(log._replace(propensities=log.propensities / 3.0), GivenDistributions(target))
    assert found.mean_weight > 2.0
    assert not any("conservative" in warning for warning in found.warnings)
    assert any(warning.endswith("wrong. No estimate can be trusted.") for warning in found.warnings)


def test_few_heavy_and_certain_rounds_are_warned_of() -> None:
    log, target = simulated(2000, 4)
    assert _evaluated(log, GivenDistributions(target)).warnings == []
    rare = log._replace(propensities=np.where(log.numbers == 1, 1e-4, log.propensities))
    text = " ".join(_evaluated(rare, GivenDistributions(target)).warnings)
    assert "only" in text
    assert "One round has" in text
    assert "clip" in text
    assert {each.estimator for each in _evaluated(log, GivenDistributions(target)).estimates if each.doubt} == {
        "direct"
    }
    found = _evaluated(rare, GivenDistributions(target)).estimates
    assert all(str(each.doubt).startswith("worth only ") for each in found if each.value is not None)
    certain = log._replace(propensities=np.ones(2000))
    assert "certain" in " ".join(_evaluated(certain, UniformChoice()).warnings)


def test_a_difference_is_more_exact_than_its_parts() -> None:
    log, target = simulated(1000, 8)
    near = 0.9 * target + 0.1 / 3.0
    one, other = sums_of(log, [Evaluated(GivenDistributions(each)) for each in (target, near)], SETTINGS)
    found, alone = difference(one, other, "ips"), evaluation_of(one, SETTINGS).estimates[2]
    assert found.interval is not None
    assert alone.interval is not None
    assert found.interval.high - found.interval.low < (alone.interval.high - alone.interval.low) / 3.0
    with pytest.raises(ValueError, match="estimator must be one of"):
        difference(one, other, "unknown")


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("propensities", 0.0, "row 13: propensity"),
        ("propensities", 1.5, "row 13: propensity"),
        ("propensities", np.nan, "row 13: propensity"),
        ("rewards", 1.1, "row 13: reward"),
        ("labels", 3, "row 13: label"),
        ("numbers", 3, "row 13: round"),
    ],
)
def test_what_is_no_log_is_refused(column: str, value: float, said: str) -> None:
    log, _ = simulated(10, 9)
    wrong = getattr(log, column).copy()
    wrong[3] = value
    with pytest.raises(InvalidArrayError, match=said):
        check_logged(log._replace(**{column: wrong}), 3, 10)


def test_intervals_cover_on_a_few_logs() -> None:
    found = coverage(150, 500, 200)
    for name in UNBIASED:
        assert 0.89 <= found[name].share <= 0.99, name
        assert found[name].mean == pytest.approx(VALUE, abs=0.02), name
    assert found[CONSERVATIVE].share >= 0.97


@pytest.mark.slow
def test_intervals_cover_on_a_thousand_logs() -> None:
    found = coverage(1000, 2000, 1000)
    for name in UNBIASED:
        assert 0.93 <= found[name].share <= 0.97, name
        assert found[name].mean == pytest.approx(VALUE, abs=0.005), name
    assert found[CONSERVATIVE].share >= 0.95


def _learner(algorithm: str) -> AnyLearner:
    learner: AnyLearner = LEARNERS[algorithm](problem=Problem(3, 4, 1.0))
    return learner


def _log(n: int) -> LoggedRounds:
    log, _ = simulated(n, 11)
    return log._replace(holdout=log.numbers % 7 == 0)


def _some_eligible(log: LoggedRounds) -> BoolArray:
    eligible = np.random.default_rng(2).random((log.n, 3)) < 0.5
    eligible[np.arange(log.n), log.labels] = True
    return np.asarray(eligible)


def test_each_round_is_decided_before_it_is_folded() -> None:
    learner, log = _learner("banditron"), _log(200)
    state = learner.init()
    residuals = uniforms(5, 3, log.numbers)
    found = replay(learner, log, seed=5, in_python=True)
    for t, context in enumerate(one_by_one(log.contexts)):
        distribution, evidence = learner.decide(state, context)
        assert np.array_equal(found.distributions[t], distribution[0])
        if not log.holdout[t]:
            one = log.rows(t, t + 1)
            taken = (one.labels, one.propensities, one.rewards == 1.0, np.full(1, NO_LABEL), evidence)
            rounds = Rounds(context, *taken, residuals[t : t + 1], one.rewards, every_label(1))
            state = learner.fold(state, rounds)


def test_a_log_in_parts_is_the_whole_log() -> None:
    log = _log(300)
    learner, log = _learner("banditron"), log._replace(eligible=_some_eligible(log))
    whole, state, parts = replay(learner, log, in_python=True), None, []
    for start in (0, 1, 150):
        end = {0: 1, 1: 150, 150: 300}[start]
        found = replay(learner, log.rows(start, end), state, in_python=True)
        state = found.state
        parts.append(found.distributions)
    assert np.array_equal(np.concatenate(parts), whole.distributions)
    assert (whole.distributions[~log.eligible] == 0.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["uniform", "banditron", "fastcb", "epsilon-greedy-ridge"])
def test_compiled_replay_is_python_replay(algorithm: str) -> None:
    log = _log(400)
    for some in (log, log._replace(eligible=_some_eligible(log))):
        compiled, python = (replay(_learner(algorithm), some, in_python=way) for way in (False, True))
        assert np.array_equal(compiled.distributions, python.distributions)


def test_rounds_that_a_learner_cannot_learn_from_are_refused() -> None:
    log = _log(20)
    with pytest.raises(InvalidArrayError, match="row 0: fenchel-young needs the true label"):
        replay(_learner("fenchel-young"), log)
    with pytest.raises(InvalidArrayError, match="learns only from 0 and 1"):
        replay(_learner("banditron"), log._replace(rewards=np.full(20, 0.5)))
