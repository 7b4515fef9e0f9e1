"""The laws of estimates and verdicts: each verdict for a log whose story is known."""

import re
from typing import Any

import numpy as np
import pytest

from learners.base import BoolArray, Contexts, Problem
from learners.evaluation.simulation import simulate
from learners.registry import ALL_LEARNERS
from service.analytics.estimates import UNKNOWN, Subject, label_value, observed, uniform_value
from service.analytics.verdicts import LEAST_ROUNDS, Bound, bound_of, verdict_of
from service.replicas.statistics import RoundStatistics, StatisticsAccumulator
from service.schemas.rules import Rules
from service.store.records.codecs import label_codec
from service.store.records.layout import FEEDBACK
from service.store.records.optional_fields import OptionalFields
from service.store.records.round_table import Table, row_dtype

LABELS = ("a", "b", "c")


def subject(*, has_contexts: bool = True, full: bool = False) -> Subject:
    settings = {"information": "full"} if full else {}
    learner = ALL_LEARNERS["gaptron"](problem=Problem(3, 2), **settings)
    return Subject(learner, LABELS, has_actions=False, has_contexts=has_contexts)


def story(distributions: np.ndarray, worth: np.ndarray, seed: int = 1) -> Table:
    rng, (n, labels_known) = np.random.default_rng(seed), distributions.shape
    rows = np.zeros(n, row_dtype(label_codec(labels_known), 0))
    labels = (rng.random((n, 1)) > distributions.cumsum(axis=1)[:, :-1]).sum(axis=1)
    rows["kind"], rows["output"] = FEEDBACK, labels
    rows["propensity"] = distributions[np.arange(n), labels]
    rows["reward"] = rng.random(n) < worth[np.arange(n), labels]
    rows["predicted_at"] = rows["feedback_at"] = 1.8e9
    return rows


def counted(
    *parts: Table, retired: tuple[int, ...] = (), eligible: BoolArray | None = None, labels: int = 3
) -> RoundStatistics:
    counting = StatisticsAccumulator(labels, 3200.0)
    for rows in parts:
        counting.take(rows, OptionalFields(np.empty((len(rows), 0), np.bool_) if eligible is None else eligible))
    counting.use(labels, np.array([k not in retired for k in range(labels)]))
    return counting.counts()


def rows(distribution: list[float], worth: list[float], n: int = 3000, seed: int = 1) -> Table:
    return story(np.tile(distribution, (n, 1)), np.tile(worth, (n, 1)), seed)


UNIFORM = [1 / 3, 1 / 3, 1 / 3]
SURE = [0.998, 0.001, 0.001]
FIXED = [0.9998, 0.0001, 0.0001]
TRIES = [0.97, 0.015, 0.015]
FAIR = [0.98, 0.01, 0.01]
TIED, BETTER = [0.4, 0.4, 0.1], [0.2, 0.6, 0.2]
PLAIN = [0.6, 0.2, 0.2]
VERDICTS = {
    "few rounds": ("exploring", counted(rows(FIXED, PLAIN, LEAST_ROUNDS - 1))),
    "uniform draws": ("exploring", counted(rows(UNIFORM, PLAIN))),
    "a preference": ("leaning", counted(rows([0.8, 0.1, 0.1], PLAIN))),
    "one label, by evidence": ("converged", counted(rows(UNIFORM, PLAIN, 6000), rows(SURE, PLAIN))),
    "one label, by evidence, at last without exploration": (
        "converged",
        counted(rows(UNIFORM, PLAIN), rows(FIXED, PLAIN)),
    ),
    "one label, worse than another": ("collapsed", counted(rows(UNIFORM, BETTER), rows(TRIES, BETTER))),
    "one label, as good as another, still explored": (
        "leaning",
        counted(rows(UNIFORM, [0.4, 0.4, 0.1]), rows(SURE, [0.4, 0.4, 0.1])),
    ),
    "one label, never tried another": ("collapsed", counted(rows(FIXED, PLAIN))),
}


@pytest.mark.parametrize("case", VERDICTS)
@pytest.mark.parametrize("has_contexts", [True, False])
def test_each_story_has_its_verdict(case: str, has_contexts: bool) -> None:
    expected, statistics = VERDICTS[case]
    verdict = verdict_of(subject(has_contexts=has_contexts), statistics)
    assert verdict.verdict == expected, verdict.reason
    assert verdict.reason.endswith(".")


def test_too_little_to_judge_says_what_is_missing() -> None:
    few, unweighable = rows(FIXED, PLAIN, LEAST_ROUNDS - 1), rows(FIXED, PLAIN, LEAST_ROUNDS)
    unweighable["propensity"] = 5e-324  # its inverse is infinite
    assert [verdict_of(subject(), counted(each)).reason for each in (few, unweighable)] == [
        f"There are {LEAST_ROUNDS - 1} recent rounds; a verdict needs {LEAST_ROUNDS}.",
        "No recent round has a propensity with a finite weight.",
    ]


def played(worth: np.ndarray, contexts: np.ndarray, seed: int = 1, algorithm: str = "fastcb") -> Table:
    """Return the rounds of a learner, where each label of each round has a chance to be right."""
    rng, n, labels = np.random.default_rng(seed), len(worth), worth.shape[1]
    learner = ALL_LEARNERS[algorithm](problem=Problem(labels, contexts.shape[1]))
    rewards = (rng.random(worth.shape) < worth).astype(np.float64)
    found = simulate(learner, Contexts.dense(contexts), np.zeros(n, np.int64), rng.random(n), rewards=rewards)
    rows = np.zeros(n, row_dtype(label_codec(labels), 0))
    rows["kind"], rows["output"], rows["propensity"] = FEEDBACK, found.labels, found.propensities
    rows["reward"], rows["predicted_at"], rows["feedback_at"] = rewards[np.arange(n), found.labels], 1.8e9, 1.8e9
    return rows


def world(n: int, high: float = 0.9, low: float = 0.1, turn: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the chances of 3 labels (n, 3), of which the context names the best one, and the contexts."""
    kind = np.random.default_rng(9).integers(0, 3, n)
    return np.where(np.arange(3) == (kind[:, None] + turn) % 3, high, low), np.eye(3)[kind]


def joined_worlds(*worlds: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    worth, contexts = zip(*worlds, strict=True)
    return np.concatenate(worth), np.concatenate(contexts)


CALM, CHANCE = world(6000), world(6000, 0.3, 0.3)
HISTORIES = {
    "healthy": ("converged", CALM),
    "healthy with much noise": ("converged", world(9000, 0.55, 0.25)),
    "healthy with few clicks": ("converged", world(6000, 0.27, 0.05)),
    "at chance": ("at_chance", CHANCE),
    "dropped": ("dropped", joined_worlds(world(6000, 0.27, 0.05), world(3000, 0.05, 0.05))),
    "drifting and recovering": ("converged", joined_worlds(CALM, world(6000, turn=1))),
    "too young to tell": ("exploring", world(80)),
    "too young to tell from chance": ("exploring", world(300, 0.3, 0.3)),
    "all on one label": ("converged", (np.tile([0.8, 0.1, 0.1], (6000, 1)), np.ones((6000, 1)))),
}


@pytest.mark.parametrize("history", HISTORIES)
def test_health_chance_and_a_drop_are_different_words(history: str) -> None:
    expected, (worth, contexts) = HISTORIES[history]
    found = verdict_of(subject(), counted(played(worth, contexts)))
    assert found.verdict == expected, found.reason


def test_a_drift_is_a_drop_until_the_model_has_recovered() -> None:
    log = played(*joined_worlds(CALM, world(6000, turn=1)))
    words = [verdict_of(subject(), counted(log[:n])).verdict for n in (6000, 6500, 6800, 12_000)]
    assert words == ["converged", "dropped", "dropped", "converged"]


def test_a_drop_is_seen_in_a_long_log_and_a_small_one_is_none() -> None:
    def reward(n: int, worth: float) -> Table:
        return rows(SURE, [worth, 0.0, 0.0], n)

    before = rows(UNIFORM, PLAIN, 1000), reward(149_000, 0.27)
    assert verdict_of(subject(), counted(*before)).verdict == "converged"
    fallen = verdict_of(subject(), counted(*before, reward(2000, 0.05)))
    assert (fallen.verdict, "the last 2,000 rounds is 0.0" in fallen.reason) == ("dropped", True)
    assert verdict_of(subject(), counted(*before, reward(2000, 0.25))).verdict == "converged"


def test_noise_is_rarely_called_a_drop() -> None:
    words = [verdict_of(subject(), counted(rows(TRIES, TIED, 2000, seed))).verdict for seed in range(100)]
    assert words.count("dropped") <= 1


def test_one_draw_with_a_tiny_propensity_does_not_hide_health() -> None:
    """99 % right after 2,500 rounds is above chance, although one weight exceeds all others together."""
    log = played(*world(2500, 0.99, 0.01))
    log["propensity"][2000], log["reward"][2000] = 1e-5, 1.0
    found = verdict_of(subject(), counted(log))
    assert found.verdict == "converged", found.reason


def sloped(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the chances of 3 labels (n, 3), which depend smoothly on the contexts, and the contexts."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(-0.5, 0.5, (n, 4))
    return 1.0 / (1.0 + np.exp(-8.0 * contexts @ rng.normal(size=(4, 3)) - rng.normal(size=3))), contexts


def test_what_a_verdict_says_of_uniform_draws_is_true() -> None:
    claims = []
    for seed in range(40):
        worth, contexts = sloped(3000, seed)
        found = re.search("at most (.*)[.]$", verdict_of(subject(), counted(played(worth, contexts, seed))).reason)
        claims += [worth.mean() <= float(found[1])] if found else []
    assert len(claims) > 20
    assert claims.count(False) <= 4  # of 40 claims at 95 %, more are false with a probability of 5 %


def test_what_was_never_tried_is_not_called_chance() -> None:
    """Without draws of other labels, the log does not tell what uniform draws would get."""
    certain = contextual([0.9, 0.9, 0.9], 4000)
    certain["propensity"] = 0.995
    found = verdict_of(subject(), counted(certain))
    assert found.verdict == "leaning", found.reason


@pytest.mark.parametrize(("high", "low"), [(0.9, 0.7), (0.95, 0.8), (0.6, 0.4)])
def test_a_healthy_model_that_explores_little_is_not_called_chance(high: float, low: float) -> None:
    """The few draws that explore leave the reward of uniform draws unknown."""
    logs = [played(*world(2500, high, low), seed) for seed in range(12)]
    better = [rows for rows in logs if rows["reward"][-1000:].mean() > (high + 2 * low) / 3 + 0.05]
    words = [verdict_of(subject(), counted(rows)).verdict for rows in better]
    assert "at_chance" not in words
    assert len(words) > 6


@pytest.mark.parametrize("bound", [{"rules": Rules(floor={"a": 0.9})}, {"cost_weight": 0.5}], ids=str)
def test_a_model_that_rules_or_costs_bind_is_not_called_chance(bound: dict[str, Any]) -> None:
    """A floor, or a price of the others, keeps the reward of the worst label near that of uniform draws, or below."""
    counts = counted(rows([0.8, 0.1, 0.1], [0.2, 0.8, 0.5], 3000))
    assert verdict_of(subject(), counts).verdict == "at_chance"
    assert verdict_of(subject()._replace(**bound), counts).verdict != "at_chance"


def contextual(best: list[float], n: int = 4000) -> Table:
    half = np.arange(n)[:, None] % 2 == 0
    distribution = np.where(half, [0.99, 0.005, 0.005], [0.005, 0.99, 0.005])
    return story(distribution, np.where(half, best, best[::-1]))


def test_a_contextual_model_may_use_many_labels() -> None:
    good = counted(rows(UNIFORM, [0.45, 0.45, 0.1]), contextual([0.8, 0.1, 0.1]))
    assert verdict_of(subject(), good).verdict == "converged"


def test_certain_decisions_that_a_constant_label_beats_have_collapsed() -> None:
    worth = [0.2, 0.2, 0.8]
    bad = counted(rows(UNIFORM, worth), contextual([0.2, 0.2, 0.8]))
    found = verdict_of(subject(), bad)
    assert (found.verdict, "always 'c'" in found.reason) == ("collapsed", True)


def test_full_information_needs_no_exploration() -> None:
    statistics = counted(rows(FIXED, PLAIN))
    judged = verdict_of(subject(full=True), statistics)
    assert (judged.verdict, "tried" in judged.reason) == ("leaning", False)
    assert verdict_of(subject(full=False), statistics).verdict == "collapsed"


def test_a_retired_label_is_no_rival() -> None:
    parts = rows(UNIFORM, [0.5, 0.9, 0.1]), rows(SURE, [0.5, 0.9, 0.1])
    assert verdict_of(subject(), counted(*parts)).verdict == "collapsed"
    assert verdict_of(subject(), counted(*parts, retired=(1,))).verdict == "converged"


def test_values_are_those_of_the_policies() -> None:
    worth = np.array([0.5, 0.3, 0.1])
    hits, runs = 0, 60
    for seed in range(runs):
        counts = counted(rows([0.8, 0.15, 0.05], worth.tolist(), 1000, seed))
        found = [label_value(subject(), counts, k) for k in range(3)] + [uniform_value(counts)]
        hits += sum(each.low <= true <= each.high for each, true in zip(found, [*worth, worth.mean()], strict=True))
    assert hits / (4 * runs) > 0.93


@pytest.mark.parametrize("algorithm", ["fastcb", "squarecb", "bandit-perceptrons"])
def test_intervals_of_what_learners_drew_contain_the_truth(algorithm: str) -> None:
    """Also of young learners, which rarely draw most labels, and of one that never explores."""
    published, misses = 0, 0
    for seed in range(20):
        worth, contexts = sloped(300, seed)
        counts = counted(played(worth, contexts, seed, algorithm))
        pairs = [(label_value(subject(), counts, k), worth[:, k].mean()) for k in range(3)]
        known = [pair for pair in [*pairs, (uniform_value(counts), worth.mean())] if pair[0].mean is not None]
        published += len(known)
        misses += sum(not value.low <= truth <= value.high for value, truth in known)
    assert misses <= 0.05 * published + 1.0


def missing_share(tried: float, untried: float, seed: int) -> tuple[RoundStatistics, np.ndarray]:
    """Return rounds with rare draws of two labels in 60 % of them, and none elsewhere; and the worths of all labels."""
    tries = np.random.default_rng(1000 + seed).random((3000, 1)) < 0.6
    worth = np.where(tries, tried, [tried, untried, untried])
    return counted(story(np.where(tries, [0.96, 0.02, 0.02], [1.0, 0.0, 0.0]), worth, seed)), worth.mean(axis=0)


@pytest.mark.parametrize(("tried", "untried"), [(0.0, 1.0), (1.0, 0.0), (0.1, 0.9), (0.5, 0.5)])
def test_intervals_allow_for_the_error_of_the_missing_share(tried: float, untried: float) -> None:
    missed = []
    for seed in range(100):
        counts, worth = missing_share(tried, untried, seed)
        found = [label_value(subject(), counts, k) for k in range(3)] + [uniform_value(counts)]
        pairs = zip(found, [*worth, worth.mean()], strict=True)
        missed += [not each.low <= true <= each.high for each, true in pairs if each.mean is not None]
        assert all(each.low <= each.mean <= each.high for each in found if each.mean is not None)
    assert len(missed) > 300
    assert np.mean(missed) <= 0.05


def test_without_weights_the_interval_is_that_of_plain_rewards() -> None:
    log = rows([1.0, 0.0, 0.0], [0.3, 0.0, 0.0], 500)
    found = uniform_value(counted(log, eligible=np.tile([True, False, False], (500, 1))))
    assert found == pytest.approx(observed(500, log["reward"].sum(), log["reward"].sum()))


TURNS = np.arange(4000) % 3
THIRDS = np.array([[0.8, 0.0, 0.2], [0.0, 0.8, 0.2], [0.0, 0.0, 1.0]])[TURNS]
WORTH_BY_TURN = np.array([[0.9, 0.1, 0.7], [0.1, 0.9, 0.7], [0.1, 0.1, 0.7]])[TURNS]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("n", [60, 4000])
def test_labels_that_a_learner_never_draws_have_no_estimate(full: bool, n: int) -> None:
    """Each of two labels has no probability in two thirds of the rounds, where the learner believes it to be wrong."""
    counts, found = counted(story(THIRDS[:n], WORTH_BY_TURN[:n])), subject(full=full)
    assert [label_value(found, counts, k) == UNKNOWN for k in range(3)] == [True, True, False]
    assert n == 60 or label_value(found, counts, 2).mean == pytest.approx(0.7, abs=0.05)
    assert verdict_of(found, counts).verdict not in ("at_chance", "collapsed")


def test_a_label_has_the_value_of_the_rounds_where_it_is_eligible() -> None:
    counts = counted(story(THIRDS, WORTH_BY_TURN), eligible=THIRDS > 0.0)
    found = [label_value(subject(), counts, k).mean for k in range(3)] + [uniform_value(counts).mean]
    assert found == pytest.approx([0.9, 0.9, 0.7, 2.3 / 3.0], abs=0.05)


def test_uniform_draws_are_among_the_eligible_labels_of_each_round() -> None:
    """Half of the rounds have one eligible label, which is right, and the others three, which are wrong."""
    alone = np.arange(4000)[:, None] % 2 == 0
    eligible = ~alone | (np.arange(3) == 0)
    counts = counted(story(eligible / eligible.sum(axis=1, keepdims=True), 1.0 * (alone & eligible)), eligible=eligible)
    assert uniform_value(counts).mean == pytest.approx(0.5)
    assert verdict_of(subject(), counts).verdict == "exploring"


def test_uniform_draws_among_labels_that_are_not_retired_are_spread() -> None:
    kept = np.arange(10) < 2
    before, after = np.full((2500, 10), 0.1), np.tile(kept / 2.0, (2500, 1))
    eligible = np.concatenate((before > 0.0, after > 0.0))
    log = story(np.concatenate((before, after)), np.where(kept, 0.6, 0.1) * np.ones((5000, 1)))
    found = verdict_of(subject(), counted(log, eligible=eligible, retired=tuple(range(2, 10)), labels=10))
    assert found.verdict == "exploring", found.reason


def test_one_eligible_label_is_no_choice_and_no_alarm() -> None:
    eligible = np.arange(3) == TURNS[:, None]  # one in each round
    counts = counted(story(1.0 * eligible, 0.5 * eligible), eligible=eligible)
    assert uniform_value(counts).mean == pytest.approx(0.5, abs=0.05)
    found = verdict_of(subject(), counts)
    assert (found.verdict, "only one label was eligible" in found.reason) == ("exploring", True)


def test_rounds_without_a_choice_do_not_hide_exploration() -> None:
    eligible = (np.arange(4000)[:, None] % 1000 == 0) | (np.arange(3) == TURNS[:, None])
    counts = counted(story(eligible / eligible.sum(axis=1, keepdims=True), 0.5 * eligible), eligible=eligible)
    found = verdict_of(subject(), counts)
    assert found.verdict == "exploring", found.reason


def test_a_reward_is_compared_with_the_answers_that_were_tried() -> None:
    counts = counted(rows([0.9, 0.1, 0.0], [0.6, 0.1, 0.95]))
    assert uniform_value(counts).low < 0.55 < uniform_value(counts).high  # its mean is that of the answers tried
    assert "among the answers that were tried" in verdict_of(subject(), counts).reason


@pytest.mark.parametrize("share", [0.55, 0.75, 0.9, 0.97])
def test_intervals_allow_every_reward_where_a_label_is_never_drawn(share: float) -> None:
    """The label is certain in a share of the rounds, where it is nearly always wrong, and right in the others."""
    sure = np.arange(4000) % 100 >= 100 * (1.0 - share)
    counts = counted(story(np.where(sure[:, None], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]), np.tile(~sure[:, None], 3)))
    value = label_value(subject(), counts, 0)
    assert value.mean == pytest.approx(0.0)
    assert value.low <= 1.0 - share <= value.high < 1.1 - share
    assert uniform_value(counts) == UNKNOWN  # uniform draws answer the label in a third of the rounds only


def test_labels_that_a_learner_seldom_draws_have_an_estimate() -> None:
    """About ten draws a label represent the other rounds; the interval is wide."""
    found = [label_value(subject(), counted(rows(FAIR, PLAIN, 1000, seed)), 2) for seed in range(60)]
    assert sum(each == UNKNOWN for each in found) <= 6
    assert min(each.high - each.low for each in found if each != UNKNOWN) > 0.2


def test_intervals_of_rewards() -> None:
    assert observed(0, 0.0, 0.0) == UNKNOWN
    bits, graded = observed(100, 30.0, 30.0), observed(100, 30.0, 12.0)
    assert (bits.low, bits.high) == pytest.approx((0.2189, 0.3958), abs=1e-4)
    assert graded.mean == bits.mean
    assert graded.high - graded.low > bits.high - bits.low


@pytest.mark.parametrize(
    ("settings", "mistakes"),
    [
        ({"exploration": 0.0}, 4.0 * (1.0 + np.exp(-np.sqrt(2.0))) / np.exp(-np.sqrt(2.0)) / np.log(2.0)),
        ({"exploration": 0.25}, 4.0 / 0.25 / np.log(2.0) + 0.25 * 100 / 2),
        ({"information": "full"}, 2.0 / np.log(2.0)),
    ],
    ids=str,
)
def test_the_bound_of_gaptron_is_that_of_its_theorem(settings: dict[str, Any], mistakes: float) -> None:
    """D²/(2η) + ((K - 1)/K) Σ γ_t; without exploration, η is that of Theorem 4 for the least gap."""
    given = {"loss": "logistic", "learning_rate": "theorem", "radius": 1.0, **settings}

    def bound(moved: float = 0.0, **more: Any) -> Bound:
        learner = ALL_LEARNERS["gaptron"](problem=Problem(2, 2), **given, **more)
        return bound_of(Subject(learner, LABELS, has_actions=False, has_contexts=True, moved=moved), 100)

    found = bound()
    assert found.mistakes == pytest.approx(mistakes, rel=1e-12)
    assert found.reward(100) == pytest.approx(max(0.0, 1.0 - mistakes / 100), rel=1e-12)
    assert bound(eta_scale=2.0).mistakes is None
    assert bound(moved=0.1).mistakes is None
