"""The laws of the comparison with the holdout: intervals cover, odds are exact, and a broken experiment is noticed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from learners.base import FloatArray, Problem
from learners.registry import ALL_LEARNERS
from service.analytics.estimates import Subject, metric_of
from service.analytics.uplift import (
    ALARM,
    LEAST_ROUNDS,
    Arm,
    arm_of,
    chance_better,
    design_effect,
    difference_of,
    ratio_of,
    sample_ratio_p,
    uplift_of,
)
from service.analytics.verdicts import verdict_of
from service.replicas.statistics import RoundStatistics, StatisticsAccumulator
from service.replicas.uplift_sums import ArmRows, ArmSums, UpliftSums
from service.schemas.models import RewardMeaning
from service.store.records.codecs import label_codec
from service.store.records.layout import EXPIRED, FEEDBACK, FOREIGN, HOLDOUT
from service.store.records.optional_fields import OptionalFields
from service.store.records.round_table import Table, row_dtype

REPEATS = 1_500
KINDS: dict[str, tuple[Callable[[Any, float, int], FloatArray], float]] = {
    "clicks": (lambda rng, p, n: (rng.random(n) < p) * 1.0, 1.0),
    "rare purchases": (lambda rng, p, n: (rng.random(n) < p) * rng.random(n), 0.5),
    "ratings": (lambda rng, p, n: rng.beta(5.0 * p, 5.0 * (1.0 - p), n), 1.0),
}
SIZES = [(900, 100, 0.05, 0.05), (900, 100, 0.02, 0.01), (20_000, 1_000, 0.05, 0.045), (100, 100, 0.5, 0.5)]


def subject(reward: RewardMeaning = "accuracy", since: int | None = 0, **policies: Any) -> Subject:
    learner = ALL_LEARNERS["fastcb"](problem=Problem(2, 2))
    return Subject(learner, ("a", "b"), False, True, reward=reward, holdout_since=since, **policies)


def sums_of(rewards: FloatArray) -> ArmSums:
    return ArmSums(len(rewards), len(rewards), float(rewards.sum()), float((rewards * rewards).sum()))


def bits(rounds: int, right: int) -> ArmSums:
    return ArmSums(rounds, rounds, float(right), float(right))


def uplift(served: ArmSums, holdout: ArmSums, share: float = 0.5, meaning: RewardMeaning = "clicks") -> Any:
    right, sums = int(served.squares + holdout.squares), UpliftSums(0, 1, share, served, holdout)
    counts = RoundStatistics(correct=right, reward=served.reward + holdout.reward, uplift=sums)
    answer = uplift_of(subject(meaning), counts)
    assert answer is not None
    return answer


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_cover_the_truth(kind: str, size: tuple[int, int, float, float]) -> None:
    """Of the 95 % intervals for clicks, at least 94 % cover the truth. A ratio needs a holdout that earned a reward.

    For values that are mostly 0, a hundred rounds may miss the large ones, so at least 91 % do.
    """
    (draw, scale), (n, held, p, q), rng = KINDS[kind], size, np.random.default_rng(7)
    covered = unknown = of_ratio = 0
    for _ in range(REPEATS):
        served, holdout = arm_of(sums_of(draw(rng, p, n))), arm_of(sums_of(draw(rng, q, held)))
        low, high = difference_of(served, holdout)
        covered += low <= scale * (p - q) <= high
        if not holdout.mean:
            unknown += 1
            continue
        least, most = ratio_of(served, holdout)
        of_ratio += least <= p / q <= most
        assert ((least > 1.0), (most < 1.0)) == ((low > 0.0), (high < 0.0))
    least_share = 0.94 if kind == "clicks" else 0.91
    assert covered >= least_share * REPEATS
    assert of_ratio + unknown >= least_share * REPEATS


PAGES: dict[str, Callable[[Any, float, int, int], FloatArray]] = {
    "all or nothing": lambda rng, p, n, m: np.repeat((rng.random((n, 1)) < p) * 1.0, m, axis=1),
    "moods": lambda rng, p, n, m: (rng.random((n, m)) < rng.beta(3 * p, 3 * (1 - p), (n, 1))) * 1.0,
    "independent": lambda rng, p, n, m: (rng.random((n, m)) < p) * 1.0,
    "at most one": lambda rng, p, n, m: (
        1.0 * (rng.random((n, 1)) < p * m) * (np.arange(m) == rng.integers(0, m, (n, 1)))
    ),
    "purchases": lambda rng, p, n, m: np.repeat((rng.random((n, 1)) < p) * rng.random((n, 1)), m, axis=1),
}


def arm_with(pages: FloatArray, rng: Any, batch: int = 1) -> ArmSums:
    """Return the sums of n requests with m answers each, (n, m), whose rounds come in any order."""
    (n, m), order = pages.shape, rng.permutation(pages.size)
    tokens = np.tile(np.arange(m), n) if m > 1 else np.full(n, -1)
    at = np.repeat(1.7e9 + 0.37 * (np.arange(n) // batch), m)
    none = np.zeros(n * m, np.bool_)
    rows = ArmRows(tokens * 0, tokens[order], none, none, pages.reshape(-1)[order], none, at[order])
    return ArmSums().plus(rows, ~none)


@pytest.mark.parametrize("slots", [3, 10])
@pytest.mark.parametrize("kind", PAGES)
def test_intervals_cover_the_truth_if_requests_have_several_slots(kind: str, slots: int) -> None:
    """Of 95 % intervals, at least 92 % cover, although the answers to a request depend on each other in any way.

    If the answers are independent, the interval is hardly wider than that of independent rounds.
    """
    draw, rng, n, held = PAGES[kind], np.random.default_rng(7), 6_000 // slots, 1_500 // slots
    covered, of_mean, odds, effects, worth = 0, 0, 0, list[float](), 0.04 if kind == "purchases" else 0.08
    for _ in range(400):
        served, holdout = (arm_with(draw(rng, 0.08, size, slots), rng) for size in (n, held))
        low, high = difference_of(arm_of(served), arm_of(holdout))
        covered += low <= 0.0 <= high
        answer = uplift(served, holdout, held / (n + held))
        of_mean += answer.holdout.low <= worth <= answer.holdout.high
        odds += not 0.025 <= (answer.chance_better or 0.5) <= 0.975
        effects.append(design_effect(served))
    assert min(covered, of_mean) >= 0.92 * 400
    assert odds <= 0.08 * 400
    if kind in {"independent", "at most one"}:
        assert np.mean(effects) < 1.15


@pytest.mark.parametrize("kind", KINDS)
def test_one_answer_to_each_request_is_one_independent_round(kind: str) -> None:
    """Wherever the groups are: the numbers are exactly those of as many rounds."""
    rng = np.random.default_rng(2)
    rewards = KINDS[kind][0](rng, 0.2, 3_000)
    found, plain = arm_with(rewards[:, None], rng, batch=7), sums_of(rewards)
    assert design_effect(found) == 1.0
    assert arm_of(found._replace(reward=plain.reward, squares=plain.squares)) == arm_of(plain)
    noisy = np.full(3_000, (5 << 16) + 3)  # the fourth request of a batch, which is alone in its answer
    none = np.zeros(3_000, np.bool_)
    assert design_effect(ArmSums().plus(ArmRows(noisy, noisy, none, none, rewards, none, rewards), ~none)) == 1.0


def test_few_groups_are_as_if_all_answers_to_a_request_were_equal() -> None:
    """The design effect is at most the number of slots: in one batch, and while all rewards are equal."""
    rng = np.random.default_rng(3)
    assert design_effect(arm_with(PAGES["independent"](rng, 0.1, 500, 5), rng, batch=500)) == 5.0
    assert design_effect(arm_with(np.zeros((500, 5)), rng)) == 5.0
    for n in (2, 3, 5, 300):
        assert 1.0 <= design_effect(arm_with(PAGES["moods"](rng, 0.3, n, 5), rng)) <= 5.0


def test_the_interval_of_a_difference_is_newcombes() -> None:
    """The example of the paper: 56 of 70, and 48 of 80."""
    low, high = difference_of(Arm(56 / 70, 70), Arm(48 / 80, 80))
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)


@pytest.mark.parametrize("held", [100, 1_000])
@pytest.mark.parametrize("p", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_odds_favour_neither_arm(kind: str, p: float, held: int) -> None:
    """If both arms earn the same, the odds of the served one are 1/2 on average, however small its holdout is."""
    (draw, _), rng, odds = KINDS[kind], np.random.default_rng(11), []
    for _ in range(800):
        found = chance_better(sums_of(draw(rng, p, 1_000)), sums_of(draw(rng, p, held)))
        odds += [] if found is None else [found]
    assert np.mean(odds) == pytest.approx(0.5, abs=0.08)


def test_a_model_that_is_twice_as_good_has_the_better_odds() -> None:
    """Also if rewards are small values, such as shares of the largest revenue."""
    rng = np.random.default_rng(5)
    served, holdout = sums_of(0.006 * rng.random(500)), sums_of(0.003 * rng.random(500))
    low, _ = difference_of(arm_of(served), arm_of(holdout))
    assert low > 0.0
    assert (chance_better(served, holdout) or 0.0) > 0.999


@pytest.mark.parametrize("reward", [0, 1])
def test_equal_rewards_have_no_odds(reward: int) -> None:
    answer = uplift(bits(2_700, 2_700 * reward), bits(300, 300 * reward), 0.1)
    assert answer.chance_better is None
    assert answer.sentence == "The model and the holdout earn the same: all counted rounds have the same reward."


def test_odds_are_never_certain() -> None:
    most = uplift(bits(10**7, 10**6), bits(10**7, 10**5)).chance_better
    least = uplift(bits(10**7, 10**5), bits(10**7, 10**6)).chance_better
    assert (most, least) == (0.9999, pytest.approx(0.0001))


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_a_fair_draw_seldom_alarms_at_any_look(share: float) -> None:
    rng, alarms = np.random.default_rng(3), 0
    for _ in range(300):
        held = np.cumsum(rng.random(5_000) < share)
        alarms += min(sample_ratio_p(int(held[n - 1]), n, share) for n in range(50, 5_001, 50)) < ALARM
    assert alarms <= 2


def test_lost_feedback_of_one_arm_alarms() -> None:
    """A tenth of the holdout's rounds is lost: nothing else shows that the comparison is wrong."""
    answer = uplift(bits(90_000, 9_000), bits(9_000, 900), 0.1)
    assert (answer.sample_ratio.ok, answer.sample_ratio.expected) == (False, 0.1)
    assert answer.sample_ratio.observed == pytest.approx(1 / 11)
    assert "no round" in answer.sample_ratio.note
    assert answer.sentence.startswith("The comparison cannot be trusted: the holdout has 9.1 %")
    whole = uplift(bits(90_000, 9_000), bits(10_000, 1_000), 0.1)
    assert (whole.sample_ratio.ok, whole.sample_ratio.note) == (True, None)


def test_a_holdout_without_any_round_alarms() -> None:
    answer = uplift(bits(1_000, 100), ArmSums(), 0.1)
    assert (answer.sample_ratio.ok, answer.difference, answer.relative, answer.chance_better) == (
        False,
        None,
        None,
        None,
    )


SENTENCES: dict[str, tuple[tuple[ArmSums, ArmSums, RewardMeaning], str]] = {
    "better": (
        (bits(10_000, 1_200), bits(10_000, 1_000), "clicks"),
        "The click rate is 20.0 % higher than the holdout's (95 % interval 10.9 % to 29.9 %); "
        "the chance that it is better is more than 99.9 %.",
    ),
    "worse": (
        (bits(10_000, 5_000), bits(10_000, 5_500), "accuracy"),
        "The accuracy is 9.1 % lower than the holdout's (95 % interval -11.5 % to -6.7 %); "
        "the chance that it is better is less than 0.1 %.",
    ),
    "undecided": (
        (bits(1_000, 103), bits(1_000, 100), "clicks"),
        "The click rate may be higher or lower than the holdout's (95 % interval -20.6 % to 33.6 %); "
        "the chance that it is better is 58.8 %.",
    ),
    "no click in the holdout": (
        (bits(1_000, 30), bits(1_000, 0), "clicks"),
        "The click rate is 3 percentage points higher than the holdout's (95 % interval 2.03 to 4.25 percentage "
        "points); the chance that it is better is more than 99.9 %.",
    ),
    "values": (
        (ArmSums(500, 500, 100.0, 30.0), ArmSums(500, 500, 50.0, 10.0), "clicks"),
        "The mean reward is 100.0 % higher than the holdout's (95 % interval 79.2 % to 123.1 %); "
        "the chance that it is better is more than 99.9 %.",
    ),
    "early": (
        (bits(120, 10), bits(LEAST_ROUNDS - 1, 5), "clicks"),
        "It is too early to tell: the holdout has 99 rounds here, and a comparison needs 100.",
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_the_sentence_says_what_is_known(case: str) -> None:
    (served, holdout, meaning), expected = SENTENCES[case]
    assert uplift(served, holdout, meaning=meaning).sentence == expected


WORDS: dict[RewardMeaning, str] = {"accuracy": "accuracy", "clicks": "click rate", "value": "mean reward"}


@pytest.mark.parametrize("meaning", WORDS)
def test_verdicts_call_the_reward_by_its_meaning(meaning: RewardMeaning) -> None:
    """A reward that is neither 0 nor 1 is a value, whatever the definition says."""
    rows, rng = np.zeros(2_000, row_dtype(label_codec(2), 0)), np.random.default_rng(1)
    rows["kind"], rows["propensity"], rows["truth"] = FEEDBACK, 0.8, -1
    rows["reward"] = rng.random(2_000) < np.where(np.arange(2_000) < 1_000, 0.8, 0.4)
    for reward, expected in ((rows["reward"], meaning), (rows["reward"] / 2, "value")):
        changed = rows.copy()
        changed["reward"] = reward
        counts = counted(changed, 0.0)
        assert metric_of(subject(meaning), counts) == expected
        assert WORDS[expected] in verdict_of(subject(meaning), counts).reason


def story(n: int, share: float, worth: float, seen: int, seed: int) -> Table:
    """Return rounds in which both arms have the same worth, and whose predictions had seen `seen` changes."""
    rows, rng = np.zeros(n, row_dtype(label_codec(2), 0)), np.random.default_rng(seed)
    rows["kind"], rows["propensity"], rows["changes_seen"], rows["token"] = FEEDBACK, 0.5, seen, -1
    rows["flags"] = np.where(rng.random(n) < share, HOLDOUT, 0)
    rows["reward"] = rng.random(n) < worth
    return rows


def counted(rows: Table, share: float, then: Table | None = None, later: float = 0.0) -> RoundStatistics:
    """Count rows with a holdout of this share; then others, with the share that change 1 has set."""
    counting = StatisticsAccumulator(2, 3_600.0)
    counting.use(2, share=share)
    counting.take(rows, OptionalFields(np.empty((len(rows), 0), np.bool_)))
    if then is not None:
        counting.use(2, share=later, since_change=1)
        counting.take(then, OptionalFields(np.empty((len(then), 0), np.bool_)))
    return counting.counts()


def test_a_drift_of_the_world_is_no_uplift_when_the_share_changes() -> None:
    """Half is held out in good times and a tenth in bad times: over all rounds, the holdout looks much better.

    Late feedback belongs to the share with which its request was drawn.
    """
    bad, late = story(8_000, 0.1, 0.2, 1, 2), story(500, 0.5, 0.8, 0, 3)
    counts = counted(story(8_000, 0.5, 0.8, 0, 1), 0.5, np.concatenate([late, bad]), 0.1)
    pooled = counts.holdout_reward / counts.holdout_rounds - sum(counts.curve.rewards) / sum(counts.curve.rounds)
    assert pooled > 0.2
    answer = uplift_of(subject("clicks", since=1), counts)
    assert answer is not None
    assert (answer.since_round, answer.served.rounds + answer.holdout.rounds) == (8_001, len(bad))
    assert answer.difference is not None
    assert answer.difference.low < 0.0 < (answer.difference.high or 0.0)
    assert answer.sample_ratio.ok


def test_the_answers_to_one_request_are_one_draw() -> None:
    """With ten slots each, the rounds of the holdout come in tens: as single draws, they would be no fair sample."""
    held = np.repeat(np.random.default_rng(5).random(2_000) < 0.1, 10)
    rows = story(20_000, 0.0, 0.5, 0, 1)
    rows["flags"], rows["token"] = np.where(held, HOLDOUT, 0), np.tile(np.arange(10), 2_000)
    sums = counted(rows, 0.1).uplift
    assert (sums.holdout.rounds, sums.holdout.requests) == (held.sum(), held.sum() // 10)
    noisy = story(3, 0.0, 0.5, 0, 1)
    noisy["token"] = [-1, 5 << 16, (7 << 16) + 1]  # alone in its block; in a block with other requests
    assert counted(noisy, 0.1).uplift.served.requests == 3


def test_without_a_holdout_there_is_no_comparison() -> None:
    assert uplift_of(subject(), counted(story(100, 0.5, 0.5, 0, 1), 0.0)) is None
    after = counted(story(100, 0.5, 0.5, 0, 1), 0.5, story(100, 0.0, 0.5, 1, 1), 0.0)
    assert uplift_of(subject(since=None), after) is None


def test_a_changed_holdout_begins_anew_at_once() -> None:
    """Until a round after the change is counted, there is no comparison, and not that with the holdout before."""
    counts = counted(story(1_000, 0.5, 0.5, 0, 1), 0.5)
    assert uplift_of(subject(since=0), counts) is not None
    assert uplift_of(subject(since=1), counts) is None
    assert uplift_of(subject(since=None), counts) is None


def test_answers_of_other_policies_do_not_count() -> None:
    """No draw decided between the holdout and an answer that was imported or chosen in the mode `logging`."""
    own, foreign = story(2_000, 0.1, 0.3, 0, 1), story(2_000, 0.0, 1.0, 0, 2)
    foreign["flags"] |= FOREIGN
    assert counted(np.concatenate([own, foreign]), 0.1).uplift == counted(own, 0.1).uplift


def test_nothing_is_claimed_before_silence_counts() -> None:
    """With clicks that count on arrival, every round before the end of the first window is a click.

    Rounds that expired before the comparison, or in one arm only, do not end this time.
    """
    silent = story(1_000, 0.5, 0.0, 0, 2)
    silent["kind"] = EXPIRED
    clicks, quiet = story(1_000, 0.5, 1.0, 1, 1), silent.copy()
    quiet["changes_seen"] = 1
    one_arm = quiet[(quiet["flags"] & HOLDOUT) == 0]
    for rows in (clicks, np.concatenate([clicks, one_arm])):
        answer = uplift_of(subject("clicks", since=1, silence="on_arrival"), counted(silent, 0.5, rows, 0.5))
        assert answer is not None
        assert (answer.difference, answer.relative, answer.chance_better) == (None, None, None)
        assert answer.sentence.startswith("It is too early to tell: silence counts only when its window closes")
    counts = counted(silent, 0.5, np.concatenate([clicks, quiet]), 0.5)
    answer = uplift_of(subject("clicks", since=1, silence="on_arrival"), counts)
    assert answer is not None
    assert answer.difference is not None
    assert answer.sentence.endswith("both means are too high until most windows have closed.")
