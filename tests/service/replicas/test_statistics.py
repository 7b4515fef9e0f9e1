"""The laws of statistics: a fold over the log that counts correctly, with the same bits for any division of the log."""

import json
import math
from typing import Any

import numpy as np
import pytest

from learners.base import Contexts
from service.errors import NewerVersionError
from service.prediction_id import SINGLE
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
from service.store.records.codecs import DenseCodec, label_codec
from service.store.records.layout import EXPIRED
from service.store.records.new_predictions import NewPredictions
from service.store.records.records import RecordFormat
from tests.service.store.samples import as_round

K, WINDOW, START = 4, 3200.0, 1_800_000_000.0
FORM = RecordFormat(label_codec(K), 2, DenseCodec(3))


def rounds(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return n random rounds as plain facts."""
    rng = np.random.default_rng(seed)
    return [
        {
            "p": float(rng.choice([1.0, 0.25, 1e-9, rng.uniform(0.001, 1.0)])),
            "correct": bool(rng.random() < 0.3),
            "at": START + 10.0 * i,
            "delay": float(rng.choice([0.0, 1.0, rng.exponential(5_000.0)])),
        }
        for i in range(n)
    ]


def record(fact: dict[str, Any], number: int) -> bytes:
    """Encode a round as `lua/add_feedback.lua` does."""
    outputs, none = label_codec(K).rows(np.array([2])), np.zeros((1, 3))
    made = NewPredictions(
        outputs,
        np.array([fact["p"]]),
        none[0, :1],
        none[:, :2],
        Contexts.dense(none),
        fact["at"],
        fact["at"] + WINDOW,
        0,
    )
    (block,) = FORM.encode_blocks(made, [0, 1], [SINGLE], [bytes(16)])
    truth = outputs.tobytes() if fact["correct"] else None
    return as_round(block, 0, (fact["correct"], fact["at"] + fact["delay"], number), truth)


FACTS = rounds(700)
RECORDS = [record(fact, i + 1) for i, fact in enumerate(FACTS)]


def statistics() -> StatisticsAccumulator:
    """Return an empty accumulator."""
    return StatisticsAccumulator(K, WINDOW)


def test_counts_match_a_plain_loop() -> None:
    """Each number equals the result of a loop over the rounds."""
    counting = statistics()
    counting.take(FORM.table(RECORDS))
    counts = counting.counts()
    delays = [fact["at"] + fact["delay"] - fact["at"] for fact in FACTS]
    assert (counts.rounds, counts.correct) == (700, sum(fact["correct"] for fact in FACTS))
    assert counts.delay_seconds == pytest.approx(sum(delays))
    assert list(np.cumsum(counts.delays)[:-1]) == [sum(d <= bound for d in delays) for bound in DELAY_BOUNDS]
    props = [fact["p"] for fact in FACTS]
    assert list(np.cumsum(counts.propensities)[:-1]) == [sum(p <= bound for p in props) for bound in PROPENSITY_BOUNDS]
    assert counts.surprisal_micronats == pytest.approx(1e6 * -sum(map(math.log, props)), abs=700)
    assert counts.weights == pytest.approx(sum(1 / p for p in props))
    assert counts.squared_weights == pytest.approx(sum(1 / p**2 for p in props))
    assert counts.correct_weights == pytest.approx(sum(1 / f["p"] for f in FACTS if f["correct"]))
    assert (counts.labels, counts.weighed) == (K, 700)


@pytest.mark.parametrize("step", [1, 7, 256, 699])
def test_counts_do_not_depend_on_the_division_of_the_log(step: int) -> None:
    """Rounds may come singly or in groups, with reads and passes through the store between them."""
    whole, cut = statistics(), statistics()
    whole.take(FORM.table(RECORDS))
    for start in range(0, len(RECORDS), step):
        cut.take(FORM.table(RECORDS[start : start + step]))
        if start % 3 == 0:
            kept = cut.counts().encode()
            cut = statistics()
            cut.restart(kept, start + step)
    assert cut.counts() == whole.counts()
    assert decode_statistics(whole.counts().encode()) == whole.counts()


def test_sums_never_decrease() -> None:
    """Prometheus reads a decreasing counter as a restart."""
    counting, before = statistics(), None
    for one in RECORDS:
        counting.take(FORM.table([one]))
        counts = counting.counts()
        sums = (counts.delay_seconds, counts.weights, counts.squared_weights, counts.correct_weights)
        assert before is None or all(new >= old for new, old in zip(sums, before, strict=True))
        before = sums


def test_only_slots_of_the_window_are_kept() -> None:
    """However long the log, the recent slots cover one window."""
    counting = statistics()
    counting.take(FORM.table(RECORDS))
    recent = dict(counting.counts().recent)
    newest = int(FACTS[-1]["at"] // (WINDOW / SLOTS))
    assert set(recent) == set(range(newest - SLOTS, newest + 1))
    assert recent[newest - 1] == 10


BROKEN = [
    b"",
    b"[]",
    b"{",
    b'{"rounds":',
    b'{"unheard":1}',
    b'{"delays":[1]}',
    b'{"version":"x"}',
    b'{"rounds":1}',
    b"\xff",
    b"[" * 9999,
]


@pytest.mark.parametrize("broken", BROKEN)
def test_damaged_statistics_restart_from_zero(broken: bytes) -> None:
    """With damaged statistics the model is served; new statistics start, with the number of uncounted rounds."""
    counting = statistics()
    counting.restart(broken, 5)
    counting.take(FORM.table(RECORDS[:3]))
    assert (counting.counts().rounds, counting.counts().uncounted, counting.known) == (3, 5, True)
    assert decode_statistics(counting.counts().encode()).uncounted == 5


def test_statistics_of_a_newer_version_are_unknown() -> None:
    """Statistics of a newer version are not replaced until counting restarts from readable ones."""
    newer = json.dumps({"version": STATISTICS_VERSION + 1, "rounds": 5, "unheard": 1}).encode()
    counting = statistics()
    counting.restart(newer, 5)
    assert not counting.known
    with pytest.raises(NewerVersionError):
        decode_statistics(newer)
    assert counted_rounds(newer) == 0
    counting.restart(b"", 0)
    assert counting.known


def test_rewards_are_summed_and_expired_rounds_have_no_delay() -> None:
    """The sums weigh each reward; the delays are those of feedback only."""
    table = FORM.table(RECORDS)
    table["reward"], table["kind"][::7] = np.random.default_rng(4).random(len(table)), EXPIRED
    counting = statistics()
    counting.take(table)
    counts = counting.counts()
    assert counts.reward == pytest.approx(table["reward"].sum())
    assert counts.reward_weights == pytest.approx((table["reward"] / table["propensity"]).sum())
    assert (counts.expired, sum(counts.delays)) == (100, 600)


def test_later_statistics_have_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of a later version contain their version number, so this version refuses them."""
    monkeypatch.setattr("service.replicas.statistics.STATISTICS_VERSION", STATISTICS_VERSION + 1)
    newer = statistics().counts().encode()
    monkeypatch.undo()
    with pytest.raises(NewerVersionError):
        decode_statistics(newer)


@pytest.mark.parametrize(
    "fields", [{"delays": 1}, {"propensities": 0.5}, {"curve": [1, 1]}, {"by_label": 1}, {"latest": []}], ids=str
)
def test_damaged_statistics_have_one_error(fields: dict[str, Any]) -> None:
    """Values of other types or sizes make them invalid."""
    damaged = json.loads(RoundStatistics().encode()) | fields
    with pytest.raises(ValueError, match="invalid statistics"):
        decode_statistics(json.dumps(damaged).encode())
