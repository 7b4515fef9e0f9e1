"""The generated rounds with candidates."""

import numpy as np
import pytest

pytest.importorskip("joblib", reason="needs the dependency group `bench`")

from benchmarks.papers.action_stream import ActionStream, closed_share
from benchmarks.papers.actions import GENERATED, ROUNDS, play
from learners.base import FloatArray, IntArray


def numbers(stream: ActionStream, rounds: int) -> list[FloatArray | IntArray]:
    """Return the numbers of the first rounds: entries, values, rewards and expected rewards of all candidates."""
    rows = stream.candidates.vectors.rows(0, int(stream.candidates.starts[rounds]))
    return [rows.indices, rows.values, *(part[: rows.n] for part in (stream.rewards, stream.expected))]


@pytest.mark.parametrize("name", GENERATED)
def test_a_stream_depends_on_its_seed_alone(name: str) -> None:
    """The rounds of a seed do not depend on their number, fit the problem, and differ from those of other seeds."""
    few, many, other = (GENERATED[name](n, seed) for n, seed in ((50, 1), (1200, 1), (50, 2)))
    for one, two in zip(numbers(few, 50), numbers(many, 50), strict=True):
        np.testing.assert_array_equal(one, two)
    assert 0 <= many.candidates.vectors.indices.min() <= many.candidates.vectors.indices.max() < many.n_features
    assert all((part >= 0.0).all() and (part <= 1.0).all() for part in (many.rewards, many.expected))
    assert not np.array_equal(few.expected, other.expected)
    assert not np.array_equal(few.candidates.vectors.values, other.candidates.vectors.values)


@pytest.mark.parametrize("name", GENERATED)
def test_expected_rewards_are_the_means_of_rewards(name: str) -> None:
    stream = GENERATED[name](1500, 0)
    differences = stream.rewards - stream.expected
    for group in np.array_split(np.argsort(stream.expected), 4):
        error = differences[group].std() / np.sqrt(len(group))
        assert abs(differences[group].mean()) <= 4.0 * error


@pytest.mark.parametrize("name", GENERATED)
def test_the_oracle_closes_the_gap_and_uniform_choices_do_not(name: str) -> None:
    stream = GENERATED[name](1500, 0)
    table = stream.expected.reshape(1500, -1)
    uniform = np.random.default_rng(0).integers(0, table.shape[1], 1500)
    choices = np.stack([table.argmax(axis=1), table.argmin(axis=1), uniform])
    losses = np.array([stream.loss(one) for one in choices])
    best, worst, chance = closed_share(losses, np.full(3, stream.uniform_loss), np.full(3, stream.oracle_loss))
    assert best == pytest.approx(1.0)
    assert worst < -0.5
    assert abs(chance) < 0.1


def test_a_tenth_of_the_rates_changes_every_500_rounds() -> None:
    """The chance of a user and an item, whose numbers and id never change, follows the item's rate."""
    stream = GENERATED["catalogue-changing"](1500, 0)
    _, _, _, tastes, items = stream.candidates.vectors.indices.reshape(-1, 5).T
    rounds = np.repeat(np.arange(1500), 10)
    changed = [_changed(tastes, items, stream.expected, rounds, epoch) for epoch in (1, 2)]
    assert all(0.0 < share < 0.3 for share in changed)
    assert _changed(tastes, items, stream.expected, rounds * 2, 1) == 0.0  # both halves of the first 500 rounds


def _changed(tastes: IntArray, items: IntArray, expected: FloatArray, rounds: IntArray, epoch: int) -> float:
    """Return the share of items whose chances differ between an epoch of 500 rounds and the one before."""
    before, after = (
        dict(zip(zip(tastes[mine].tolist(), items[mine].tolist(), strict=True), expected[mine].tolist(), strict=True))
        for mine in (rounds // 500 == epoch - 1, rounds // 500 == epoch)
    )
    differs = {item: before[taste, item] != after[taste, item] for taste, item in before.keys() & after.keys()}
    assert len(differs) == 40
    return float(np.mean(list(differs.values())))


@pytest.mark.parametrize(("name", "least"), [("prices-clicks", 0.5), ("catalogue-no-ids", 0.4)])
def test_the_default_learner_closes_part_of_the_gap(name: str, least: float) -> None:
    losses = play(name, 1500, 0, peers=[])
    parts = (np.array([losses[player]]) for player in ("fastcb", "uniform", "oracle"))
    assert least < closed_share(*parts)[0] < 1.0


def test_every_stream_has_its_number_of_rounds() -> None:
    assert GENERATED.keys() <= ROUNDS.keys()
