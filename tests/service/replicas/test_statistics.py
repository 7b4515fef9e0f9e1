"""The laws of statistics: a fold over the log that counts correctly, with the same bits for any division of the log."""

import json
from typing import Any

import numpy as np
import pytest

from service.errors import NewerVersionError
from service.replicas.statistics import (
    DELAY_BOUNDS,
    PROPENSITY_BOUNDS,
    SLOTS,
    STATISTICS_VERSION,
    RoundStatistics,
    StatisticsAccumulator,
    counted_rounds,
    decode_statistics,
)
from service.replicas.sums import EPOCH, EVERY_DRAW, MOST_BUCKETS, MOST_LABELS, joined
from service.store.records.codecs import label_codec
from service.store.records.layout import EXPIRED, FEEDBACK, HOLDOUT
from service.store.records.optional_fields import OptionalFields
from service.store.records.round_table import Table, row_dtype

K, WINDOW, START = 300, 3200.0, 1_800_000_000.0


def table(n: int, seed: int = 1) -> Table:
    """Return n random rounds, some expired, some of a holdout, some with rewards between 0 and 1."""
    rng = np.random.default_rng(seed)
    rows = np.zeros(n, row_dtype(label_codec(K), 0))
    rows["kind"] = np.where(rng.random(n) < 0.1, EXPIRED, FEEDBACK)
    rows["reward"] = np.where(rng.random(n) < 0.5, rng.integers(0, 2, n), rng.random(n))
    rows["output"] = rng.integers(0, K, n)
    rows["truth"] = np.where(rng.random(n) < 0.5, 0, -1)
    rows["propensity"] = rng.choice([1.0, 0.25, 1e-9, 0.5], n) * rng.uniform(1e-3, 1.0, n)
    rows["propensity"][rng.random(n) < 0.01] = 1e-200  # whose weight would overflow
    rows["flags"] = np.where(rng.random(n) < 0.2, HOLDOUT, 0)
    rows["predicted_at"] = START + 10.0 * np.arange(n)
    rows["feedback_at"] = rows["predicted_at"] + rng.choice([0.0, 1.0, 5000.0], n) * rng.random(n)
    rows["changes_seen"], rows["token"] = rng.integers(0, 2, n), rng.choice([-1, 0, 1, 3 << 16], n)
    return rows


ROWS = table(5_000)
ELIGIBLE = np.random.default_rng(2).random((len(ROWS), K)) < 0.5
OURS = (ROWS["flags"] & HOLDOUT) == 0
KNOWN = ROWS["propensity"] > 1e-150


def statistics(labels: int | None = K) -> StatisticsAccumulator:
    return StatisticsAccumulator(labels, WINDOW)


def counted(rows: Table, labels: int | None = K) -> Any:
    counting = statistics(labels)
    take(counting, rows)
    return counting.counts()


def take(counting: StatisticsAccumulator, rows: Table) -> None:
    counting.take(rows, OptionalFields(np.empty((len(rows), 0), np.bool_)))


def test_counts_match_a_plain_loop() -> None:
    counts, given = counted(ROWS), ROWS[ROWS["kind"] == FEEDBACK]
    delays, p = given["feedback_at"] - given["predicted_at"], ROWS["propensity"][KNOWN]
    assert (counts.rounds, counts.expired, sum(counts.delays)) == (5000, 5000 - len(given), len(given))
    assert counts.correct == (ROWS["reward"] == 1.0).sum()
    assert counts.reward == pytest.approx(ROWS["reward"].sum())
    assert counts.delay_seconds == pytest.approx(delays.sum())
    assert list(np.cumsum(counts.delays)[:-1]) == [(delays <= bound).sum() for bound in DELAY_BOUNDS]
    assert list(np.cumsum(counts.propensities)[:-1]) == [(p <= bound).sum() for bound in PROPENSITY_BOUNDS]
    assert counts.surprisal_micronats == pytest.approx(1e6 * -np.log(p).sum(), rel=1e-6)
    assert (counts.labels, counts.weighed) == (K, len(p))


@pytest.mark.parametrize("restricted", [False, True])
def test_weights_are_those_of_uniform_draws(restricted: bool) -> None:
    counting = statistics()
    counting.take(ROWS, OptionalFields(ELIGIBLE if restricted else np.empty((len(ROWS), 0), np.bool_)))
    chance, ours = counting.counts().chance, OURS & KNOWN
    w = 1.0 / ROWS["propensity"][ours] / (ELIGIBLE.sum(axis=1)[ours] if restricted else K)
    reward = ROWS["reward"][ours]
    assert sum(chance.weights[EVERY_DRAW]) == pytest.approx(w.sum())
    assert sum(chance.squared_weights[EVERY_DRAW]) == pytest.approx((w**2).sum())
    assert sum(chance.reward_weights[EVERY_DRAW]) == pytest.approx((reward * w).sum())


def test_eligible_rounds_are_those_with_a_weight_outside_the_holdout() -> None:
    counting = statistics()
    counting.take(ROWS, OptionalFields(ELIGIBLE))
    take(counting, ROWS)
    weighed, n = ELIGIBLE[OURS & KNOWN].sum(axis=0), (OURS & KNOWN).sum()
    found, answered = counting.counts().eligible, ROWS["output"]
    assert list(found.all) == (weighed[:MOST_LABELS] + n).tolist()
    last = [np.flatnonzero((OURS & KNOWN) & (answered == k))[-1] + 1 for k in range(MOST_LABELS)]
    until = [weighed[k] + (OURS & KNOWN)[: last[k]].sum() for k in range(MOST_LABELS)]
    assert list(found.until_answered) == until


def test_rewards_between_0_and_1_with_a_truth_are_abstentions() -> None:
    reward = ROWS["reward"]
    abstained = (reward > 0.0) & (reward < 1.0) & (ROWS["truth"] == 0)
    counts, answered = counted(ROWS), reward[OURS & ~abstained]
    assert 0 < counts.abstained == abstained.sum()
    assert (counts.answered, counts.answered_reward) == (len(answered), pytest.approx(answered.sum()))
    assert counts.answered_squares == pytest.approx((answered**2).sum())
    assert counted(ROWS, None).abstained == 0


def test_sums_by_label_match_a_plain_loop() -> None:
    """Labels from number 256 on are counted together."""
    sums, ours = counted(ROWS).by_label, ROWS[OURS]
    assert len(sums.rounds) == MOST_LABELS + 1
    for k in (0, 17, MOST_LABELS):
        rows = ours[ours["output"] == k] if k < MOST_LABELS else ours[ours["output"] >= MOST_LABELS]
        r, known = rows["reward"], rows["propensity"] > 1e-150
        w, v = 1.0 / rows["propensity"][known], rows["reward"][known]
        expected = [len(r), r.sum(), (r**2).sum(), known.sum(), w.sum(), (v * w).sum()]
        expected += [(w**2).sum(), (v * w**2).sum(), ((v * w) ** 2).sum()]
        assert [column[k] for column in sums] == pytest.approx(expected)
    assert not counted(ROWS, None).by_label


@pytest.mark.parametrize("n", [1, MOST_BUCKETS, MOST_BUCKETS + 1, 1000, 5000])
def test_the_curve_covers_the_log_in_equal_buckets(n: int) -> None:
    """The width is the least power of two with at most 128 buckets; each bucket has the sums of its rounds."""
    curve = counted(ROWS[:n]).curve
    width = next(2**i for i in range(30) if 2**i * MOST_BUCKETS >= n)
    assert (curve.width, curve.places, len(curve.rounds)) == (width, n, -(-n // width))
    for b in (0, len(curve.rounds) // 2, len(curve.rounds) - 1):
        some = slice(b * width, min(n, (b + 1) * width))
        rows = ROWS[some][OURS[some]]
        assert curve.rounds[b] == len(rows)
        assert curve.rewards[b] == pytest.approx(rows["reward"].sum())
        assert curve.squares[b] == pytest.approx((rows["reward"] ** 2).sum())
        assert curve.moments[b] == ROWS["feedback_at"][: some.stop].max()
    assert list(curve.moments) == sorted(curve.moments)


@pytest.mark.parametrize("n", [1, EPOCH, EPOCH + 1, 2 * EPOCH, 4_321])
def test_the_latest_rounds_are_those_of_two_epochs(n: int) -> None:
    """They are the last full epoch and the current one, without the holdout."""
    latest, some = joined(counted(ROWS[:n]).latest), slice(max(0, (n - 1) // EPOCH - 1) * EPOCH, n)
    rows = ROWS[some][OURS[some]]
    known = rows["propensity"][rows["propensity"] > 1e-150]
    assert (latest.rounds, latest.weighed) == (len(rows), len(known))
    sums = latest.reward, latest.propensity, latest.uniform
    assert sums == pytest.approx((rows["reward"].sum(), known.sum(), len(known) / K))
    assert list(latest.labels[:5]) == [int((rows["output"] == k).sum()) for k in range(5)][: len(latest.labels)]


def test_the_holdout_is_counted_apart() -> None:
    counts, held = counted(ROWS), ROWS[~OURS]
    assert counts.holdout_rounds == len(held)
    assert counts.holdout_reward == pytest.approx(held["reward"].sum())
    assert counts.holdout_rounds + sum(counts.curve.rounds) == counts.rounds == len(ROWS)
    assert sum(counts.by_label.rounds) == sum(counts.curve.rounds)


def test_both_arms_count_what_has_seen_the_holdout() -> None:
    """A change of the holdout begins again, at the place of the log where it was made, whatever is queued."""
    counting = statistics()
    counting.use(K, share=0.1)
    take(counting, ROWS[:1000])
    before = counting.counts().uplift
    assert (before.since_round, before.served.rounds + before.holdout.rounds) == (1, 1000)
    take(counting, ROWS[1000:1300])
    counting.use(K, share=0.2, since_change=1)
    take(counting, ROWS[1300:])
    found = counting.counts().uplift
    assert (found.since_change, found.since_round, found.share) == (1, 1301, 0.2)
    for arm, mask in ((found.served, OURS), (found.holdout, ~OURS)):
        rows = ROWS[1300:][(mask & (ROWS["changes_seen"] == 1))[1300:]]
        assert (arm.rounds, arm.requests) == (len(rows), (rows["token"] != 1).sum())
        assert [arm.reward, arm.squares] == pytest.approx([rows["reward"].sum(), (rows["reward"] ** 2).sum()])


@pytest.mark.parametrize(("step", "n"), [(1, 400), (37, 3000), (999, 3000)])
def test_details_do_not_depend_on_the_division_of_the_log(step: int, n: int) -> None:
    """Every bit is the same, however the log is divided, and after passes through the store; no sum decreases.

    Prometheus reads a decreasing counter as a restart.
    """
    once, cut, before = statistics(), statistics(), [0.0] * 3
    for each in (once, cut):
        each.use(K, share=0.2, since_change=1)
    once.take(ROWS[:n], OptionalFields(ELIGIBLE[:n]))
    whole = once.counts()
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        cut.take(ROWS[part], OptionalFields(ELIGIBLE[part]))
        counts = cut.counts()
        chance = counts.chance
        sums = [counts.delay_seconds, *(sum(each[EVERY_DRAW]) for each in (chance.weights, chance.reward_weights))]
        assert all(new >= old for new, old in zip(sums, before, strict=True))
        before = sums
        if start % 7 == 0:
            cut = statistics()
            cut.restart(counts.encode(), start + step)
            cut.use(K, share=0.2, since_change=1)
    assert cut.counts() == whole == decode_statistics(whole.encode())


def test_only_slots_of_the_window_are_kept() -> None:
    recent, newest = dict(counted(ROWS).recent), int(ROWS["predicted_at"][-1] // (WINDOW / SLOTS))
    assert set(recent) == set(range(newest - SLOTS, newest + 1))
    assert recent[newest - 1] == 10


@pytest.mark.parametrize("n", [10, 100_000])
def test_statistics_stay_small(n: int) -> None:
    counting = statistics()
    for _ in range(max(1, n // len(ROWS))):
        take(counting, ROWS)
    encoded = counting.counts().encode()
    assert len(encoded) < 65_536
    assert decode_statistics(encoded) == counting.counts()


JSON = [b"", b"[]", b"{", b'{"rounds":', b'{"unheard":1}', b'{"delays":[1]}', b'{"version":"x"}', b'{"rounds":1}']


@pytest.mark.parametrize("broken", [*JSON, b"\xff", b"[" * 9999], ids=range(10))
def test_damaged_statistics_restart_from_zero(broken: bytes) -> None:
    """With damaged statistics the model is served; new statistics start, with the number of uncounted rounds."""
    counting = statistics()
    counting.restart(broken, 5)
    take(counting, ROWS[:3])
    assert (counting.counts().rounds, counting.counts().uncounted, counting.known) == (3, 5, True)
    assert decode_statistics(counting.counts().encode()).uncounted == 5


def test_statistics_of_a_newer_version_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not replaced until counting restarts from readable ones."""
    with monkeypatch.context() as later:
        later.setattr("service.replicas.statistics.STATISTICS_VERSION", STATISTICS_VERSION + 1)
        written = statistics().counts().encode()
    for newer in (written, json.dumps({"version": STATISTICS_VERSION + 1, "rounds": 5, "unheard": 1}).encode()):
        counting = statistics()
        counting.restart(newer, 5)
        assert not counting.known
        with pytest.raises(NewerVersionError):
            decode_statistics(newer)
        assert counted_rounds(newer) == 0
        counting.restart(b"", 0)
        assert counting.known


BROKEN: list[dict[str, Any]] = [{"delays": 1}, {"propensities": 0.5}, {"curve": [1, 1]}, {"by_label": 1}]
BROKEN += [{"latest": []}, {"uplift": [0, 1, 0.1, [0] * 4]}, {"uplift": [0, 1, 1.5, [0] * 4, [0] * 4]}]
_GROUPS = [[1] + [0] * 127, [0.0] * 128]
BROKEN += [{"uplift": [0, 1, share, *[[*arm, *groups]] * 2]} for share, arm, groups in (
    (1.5, [1] + [0] * 4 + [1], _GROUPS), (0.1, [1, 0, 0, -1.0, 0, 1], _GROUPS), (0.1, [1] + [0] * 5, _GROUPS),
    (0.1, [2] + [0] * 4 + [1], _GROUPS), (0.1, [1] + [0] * 4 + [1], [[1], [0.0]]), (0.1, [0] * 5 + [1], [0, 0]),
    (0.1, [1] + [0] * 4 + [1], [[], []]),
)]  # fmt: skip
BROKEN += [{"uplift": [0, 1, 0.1, [0] * 3 + [-1.0], [0] * 4]}, {"curve": [1, 1, *[[1]] * 5, [-1.0]]}]
BROKEN += [{"curve": [1, 2, *[[1, 1]] * 5, [2.0, 1.0]]}, {"curve": [1, 1, *[[1]] * 5, [1e300]]}]
BROKEN += [{"curve": [0, 0, *[[]] * 6]}, {"curve": [1, 2, *[[1]] * 6]}, {"by_label": [[1]] * 8}]


@pytest.mark.parametrize("fields", BROKEN, ids=lambda fields: str(fields)[:60])
@pytest.mark.parametrize("counts", [RoundStatistics(), counted(ROWS)], ids=["empty", "full"])
def test_damaged_statistics_have_one_error(counts: RoundStatistics, fields: dict[str, Any]) -> None:
    damaged = json.loads(counts.encode()) | fields
    with pytest.raises(ValueError, match="invalid statistics"):
        decode_statistics(json.dumps(damaged).encode())
