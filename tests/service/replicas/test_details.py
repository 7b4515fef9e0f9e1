"""The laws of the details of statistics: sums by label, the curve, and the latest rounds."""

import json
from typing import Any

import numpy as np
import pytest

from service.replicas.statistics import StatisticsAccumulator, decode_statistics
from service.replicas.sums import EPOCH, MOST_BUCKETS, MOST_LABELS, joined
from service.store.records.codecs import label_codec
from service.store.records.layout import EXPIRED, FEEDBACK, HOLDOUT
from service.store.records.round_table import Table, row_dtype

K = 300


def table(n: int, seed: int = 1, labels: int = K) -> Table:
    """Return n random rounds, some expired, some of a holdout, some with rewards between 0 and 1."""
    rng = np.random.default_rng(seed)
    rows = np.zeros(n, row_dtype(label_codec(labels), 0))
    rows["kind"] = np.where(rng.random(n) < 0.1, EXPIRED, FEEDBACK)
    rows["reward"] = np.where(rng.random(n) < 0.5, rng.integers(0, 2, n), rng.random(n))
    rows["output"] = rng.integers(0, labels, n)
    rows["propensity"] = np.where(rng.random(n) < 0.01, 1e-200, rng.uniform(1e-3, 1.0, n))
    rows["flags"] = np.where(rng.random(n) < 0.2, HOLDOUT, 0)
    rows["predicted_at"] = rows["feedback_at"] = 1.8e9
    return rows


def counted(rows: Table, labels: int | None = K) -> Any:
    """Return the statistics of rounds."""
    counting = StatisticsAccumulator(labels, 3200.0)
    counting.take(rows)
    return counting.counts()


ROWS = table(5_000)


def test_sums_by_label_match_a_plain_loop() -> None:
    """Each sum equals that of a loop over the rounds of the label; labels from number 256 on are counted together."""
    sums, ours = counted(ROWS).by_label, ROWS[(ROWS["flags"] & HOLDOUT) == 0]
    assert len(sums.rounds) == MOST_LABELS + 1
    for k in (0, 17, MOST_LABELS):
        rows = ours[ours["output"] == k] if k < MOST_LABELS else ours[ours["output"] >= MOST_LABELS]
        r, known = rows["reward"], rows["propensity"] > 1e-150
        w, v = 1.0 / rows["propensity"][known], rows["reward"][known]
        expected = [len(r), r.sum(), (r**2).sum(), known.sum(), w.sum(), (v * w).sum()]
        expected += [(w**2).sum(), (v * w**2).sum(), ((v * w) ** 2).sum()]
        assert [column[k] for column in sums] == pytest.approx(expected)


@pytest.mark.parametrize("n", [1, MOST_BUCKETS, MOST_BUCKETS + 1, 1000, 5000])
def test_the_curve_covers_the_log_in_equal_buckets(n: int) -> None:
    """The width is the least power of two with at most 128 buckets; each bucket has the sums of its rounds."""
    curve = counted(ROWS[:n]).curve
    width = next(2**i for i in range(30) if 2**i * MOST_BUCKETS >= n)
    assert (curve.width, curve.places, len(curve.rounds)) == (width, n, -(-n // width))
    ours = (ROWS["flags"] & HOLDOUT) == 0
    for b in (0, len(curve.rounds) // 2, len(curve.rounds) - 1):
        rows = ROWS[:n][b * width : (b + 1) * width][ours[:n][b * width : (b + 1) * width]]
        assert curve.rounds[b] == len(rows)
        assert curve.rewards[b] == pytest.approx(rows["reward"].sum())
        assert curve.squares[b] == pytest.approx((rows["reward"] ** 2).sum())


@pytest.mark.parametrize("n", [1, EPOCH, EPOCH + 1, 2 * EPOCH, 4_321])
def test_the_latest_rounds_are_those_of_two_epochs(n: int) -> None:
    """They are the last full epoch and the current one, without the holdout."""
    latest = joined(counted(ROWS[:n]).latest)
    rows = ROWS[:n][max(0, (n - 1) // EPOCH - 1) * EPOCH :]
    rows = rows[(rows["flags"] & HOLDOUT) == 0]
    known = rows["propensity"][rows["propensity"] > 1e-150]
    assert (latest.rounds, latest.weighed) == (len(rows), len(known))
    assert (latest.reward, latest.propensity) == pytest.approx((rows["reward"].sum(), known.sum()))
    assert list(latest.labels[:5]) == [int((rows["output"] == k).sum()) for k in range(5)][: len(latest.labels)]


def test_the_holdout_is_counted_apart() -> None:
    """Its rounds are in its own sums, and in no other detail."""
    counts, held = counted(ROWS), ROWS[(ROWS["flags"] & HOLDOUT) != 0]
    assert counts.holdout_rounds == len(held)
    assert counts.holdout_reward == pytest.approx(held["reward"].sum())
    assert counts.holdout_rounds + sum(counts.curve.rounds) == counts.rounds == len(ROWS)
    assert sum(counts.by_label.rounds) == sum(counts.curve.rounds)


@pytest.mark.parametrize("step", [1, 37, 999])
def test_details_do_not_depend_on_the_division_of_the_log(step: int) -> None:
    """Every bit is the same, however the log is divided, and after passes through the store."""
    whole, cut = counted(ROWS[:3000]), StatisticsAccumulator(K, 3200.0)
    for start in range(0, 3000, step):
        cut.take(ROWS[start : min(start + step, 3000)])
        if start % 7 == 0:
            kept = cut.counts().encode()
            cut.restart(kept, start + step)
    assert cut.counts() == whole


def test_models_without_labels_have_no_sums_by_label() -> None:
    """Answers that are not one of K labels are not counted individually; the curve is there."""
    counts = counted(ROWS, None)
    assert not counts.by_label
    assert sum(counts.latest.current.labels) == 0
    assert sum(counts.curve.rounds) > 0


@pytest.mark.parametrize("n", [10, 200_000])
def test_statistics_stay_small(n: int) -> None:
    """However long the log, and however many labels, the encoded statistics have at most 64 KB."""
    counting = StatisticsAccumulator(K, 3200.0)
    for _ in range(max(1, n // len(ROWS))):
        counting.take(ROWS)
    encoded = counting.counts().encode()
    assert len(encoded) < 65_536
    assert decode_statistics(encoded) == counting.counts()


@pytest.mark.parametrize(
    "broken",
    [{"curve": [0, 0, [], [], [], [], []]}, {"curve": [1, 2, [1], [1], [1], [1], [1]]}, {"by_label": [[1]] * 8}],
)
def test_details_that_contradict_themselves_are_refused(broken: dict[str, Any]) -> None:
    """They are as damaged as bytes that are no JSON."""
    written = json.loads(counted(ROWS).encode()) | broken
    with pytest.raises(ValueError, match="invalid"):
        decode_statistics(json.dumps(written).encode())
