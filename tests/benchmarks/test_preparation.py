"""The README's advice on preparing a context: scaling helps, and a constant helps more."""

from benchmarks.preparation import PREPARATIONS, accuracy


def test_each_step_of_the_advice_improves_the_accuracy() -> None:
    """Scaling adds at least 0.15, and a constant another 0.05."""
    raw, scaled, with_constant = (
        accuracy(PREPARATIONS[name], seed=0) for name in ("raw", "scaled", "scaled, constant")
    )
    assert raw + 0.15 < scaled
    assert scaled + 0.05 < with_constant
