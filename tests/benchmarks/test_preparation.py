"""What preparing a context changes: with an intercept, raw numbers are as good as scaled ones."""

from benchmarks.preparation import SCALINGS, accuracy


def test_an_intercept_replaces_preparation() -> None:
    """With the intercept, raw numbers lose at most 2 points to scaled ones; without it, scaled ones lose 5 or more."""
    raw, scaled = (accuracy(SCALINGS[name], True, seed=0) for name in ("raw", "scaled"))
    assert raw >= scaled - 0.02
    assert accuracy(SCALINGS["scaled"], False, seed=0) <= scaled - 0.05
