"""The change test against one written out plainly, and its false alarms."""

import math

import numpy as np
import pytest

from learners.algorithms.regression.change_test import Past, detect_change, note_round


class PlainTest:
    """The change test, written out plainly."""

    def __init__(self, n_labels: int) -> None:
        self.K, self.t, self.mistakes, self.recent = n_labels, 0, 0.0, 0.0
        self.sum, self.excess = 0.0, 0.0

    def changed(self, loss: float, threshold: float) -> bool:
        """Test one round, then count it."""
        uniform = 1 - 1 / self.K
        share, restart = max(0.1, (self.mistakes + 2 * uniform) / (self.t + 2)), False
        if self.t > 0 and share < uniform:
            if self.sum == 0:
                self.excess = -max(10 * self.K, self.mistakes - self.t * self.recent) / 3
            rate = (share + uniform) / 2
            likelihood = loss * math.log(rate / share) + (1 - loss) * math.log((1 - rate) / (1 - share))
            self.sum = max(0.0, self.sum + likelihood)
            self.excess += loss - share
            restart = self.sum > threshold and self.excess > 0
        self.t, self.mistakes = self.t + 1, self.mistakes + loss
        self.recent += (loss - self.recent) * min(1.0, 4 / (self.t + 3))
        return restart


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("n_labels", [2, 10])
def test_change_test_matches_the_plain_one(n_labels: int, parts: int) -> None:
    """The sum, the recent share and each decision match, through stretches of few and of many mistakes or parts of one.

    A loss is a mean of `parts` bits.
    """
    rng, threshold, restarts = np.random.default_rng(6), 9.0, 0
    for _ in range(20):
        test, past, plain = np.zeros(3), Past(0, 0.0), PlainTest(n_labels)
        rates = np.repeat(rng.uniform(0, 1, 8) ** 2, 150)
        for loss in (rng.random((len(rates), parts)) < rates[:, None]).mean(axis=1).tolist():
            decided = detect_change(test, past, loss, threshold, n_labels)
            past = Past(past.rounds + 1, past.mistakes + loss)
            note_round(test, past.rounds, loss)
            assert decided == plain.changed(loss, threshold)
            assert [max(0.0, test[0]), test[1]] == pytest.approx([plain.sum, plain.recent], abs=1e-9)
            restarts += decided
    assert restarts > 10


@pytest.mark.parametrize("error", [0.05, 0.3, 0.6])
def test_false_alarms_are_as_rare_as_promised(error: float) -> None:
    """If mistakes are at most as probable as the share so far, the sum rarely exceeds -ln α."""
    rng, threshold, alarms, n, alpha = np.random.default_rng(4), -math.log(1e-3), 0, 1000, 1e-3
    for _ in range(n):
        test, past = np.zeros(3), Past(0, 0.0)
        for uniform in rng.random(100):
            share = (past.mistakes + 1.8) / (past.rounds + 2)
            wrong = float(uniform < min(error, share))
            detect_change(test, past, wrong, threshold, 10)
            past = Past(past.rounds + 1, past.mistakes + wrong)
            note_round(test, past.rounds, wrong)
            if test[0] > threshold:
                alarms += 1
                break
    assert alarms <= n * 100 * alpha
