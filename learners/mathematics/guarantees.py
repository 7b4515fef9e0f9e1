"""The sentences that the learners' guarantees share."""

AT_ONCE = "Assumes ‖x‖ ≤ X, and that each round is learned from before the next prediction."

LATE = (
    "Where feedback is late by at most τ rounds, a step of at most 1/(1 + 2τ) of the theorem's keeps a bound of "
    "‖U‖²/(2η)."
)
"""Of gradient descent with gradients as of prediction: Σ ⟨g_t, W_t - U⟩ ≤ ‖U‖²/(2η) + (η/2) Σ ‖g_t‖² (1 + 2τ)."""

ROUNDING = 1.0 + 1e-12
"""A step this much above the largest that is proved is that step, rounded."""


def uncovered(reason: str, covered: str) -> str:
    """Say that nothing is proved, why, and which settings have a theorem."""
    return f"No theorem covers these settings: {reason}. Covered: {covered}."


def strong_margin(where: str, assumed: str) -> str:
    """Say what perceptrons of one label each do on separable data, where that is proved, and what of the contexts."""
    return (
        "On data that K weight vectors separate with strong margin γ/2, their squared norms summing to 1, updates are "
        f"at most ⌊4(R/γ)²⌋ and expected mistakes at most K - 1 times that{where}. Assumes {assumed}, and that each "
        "round is learned from before the next prediction; with feedback late by at most τ rounds, expected mistakes "
        "are at most 1 + τ times as many."
    )


def within(radius: float | None) -> str:
    """Say which comparators U a bound is for, with a ball of this radius or none."""
    return "any U" if radius is None else "any U with ‖U‖ ≤ D"
