"""Sentences that the guarantees of several learners share."""

import math

from learners.hyperparameters import rounded_up

AT_ONCE = "Assumes ‖x‖ ≤ X, and that each round is folded before the next prediction."

LATE = (
    "If feedback is late by at most τ rounds, a step of at most 1/(1 + 2τ) times the theorem's preserves a bound of "
    "‖U‖²/(2η)."
)
"""For gradients g_t as of prediction, at weights W_t: Σ ⟨g_t, W_t - U⟩ ≤ ‖U‖²/(2η) + (η/2) Σ ‖g_t‖² (1 + 2τ)."""

ANY_SEQUENCE = "any sequence of rounds"

NO_LOGARITHM_OF_T = "times a logarithm of X‖U‖, independent of T (constants not given)"
"""For losses S_t: Σ S_t - Σ S_t(U) ≤ c‖U‖ √(A ln(1 + ‖U‖²A)), A = b Σ S_t, which the surrogate gap a Σ S_t offsets."""

ROUNDING = 1.0 + 1e-12
"""Tolerance for rounding: a step that exceeds the largest proved step by at most this factor counts as equal to it."""


def counted(bound: float) -> str:
    """Return a bound as text, rounded up: with separators, or from 1e12 on with four digits."""
    return f"{math.ceil(bound):,}" if bound < 1e12 else rounded_up(bound)


def uncovered(reason: str, covered: str) -> str:
    """Return a sentence which states that no theorem applies, why, and to which settings one applies."""
    return f"No theorem covers these settings: {reason}. Covered: {covered}."


def strong_margin(where: str, assumed: str) -> str:
    """Return the guarantee of one perceptron per label on separable data, with the given source and assumption."""
    return (
        "If K weight vectors whose squared norms sum to 1 separate the data with strong margin γ/2, there are at most "
        f"⌊4(R/γ)²⌋ updates, and expected mistakes are at most K - 1 times that{where}. Assumes {assumed}, and that "
        "each round is folded before the next prediction; if feedback is late by at most τ rounds, expected mistakes "
        "are at most 1 + τ times as many."
    )


def no_recovery(reason: str, condition: str = "") -> str:
    """Return a sentence which states that a learner does not recover if the labels of contexts change, and why."""
    return f"After a change of the labels it does not recover: {condition}{reason}."


def within(radius: float | None) -> str:
    """Return the phrase for the comparators U of a bound, given the radius of a ball or None."""
    return "any U" if radius is None else "any U with ‖U‖ ≤ D"
