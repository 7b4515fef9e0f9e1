"""Checks of a learner's hyperparameters, size and cost when it is chosen; stored models load without them."""

from learners.base import AnyLearner, StateTooLargeError, StepTooCostlyError
from learners.layouts import state_bytes


def check_new(learner: AnyLearner) -> None:
    """Raise `pydantic.ValidationError` for a learner that new models may not have: see `Learner.check_new`."""
    learner.check_new()


def check_state_size(learner: AnyLearner, max_bytes: int) -> None:
    """Raise `StateTooLargeError`, with the size and an alternative, if the learner's state would be too large."""
    needed = state_bytes(learner)
    if needed > max_bytes:
        raise StateTooLargeError(
            f"{learner.algorithm} with {learner.problem.dimensions} needs a state of {needed:,} bytes, more than the "
            f"{max_bytes:,} allowed; use {learner.smaller} instead"
        )


def check_step_cost(learner: AnyLearner, max_multiply_adds: int, most_nonzeros: int | None = None) -> None:
    """Raise `StepTooCostlyError` if a step is too costly for contexts with `most_nonzeros` features, or d if None."""
    nonzeros = learner.problem.n_features if most_nonzeros is None else most_nonzeros
    costs = {"decision": learner.decide_cost(nonzeros), "update": learner.fold_cost(nonzeros) + learner.fold_overhead}
    step = max(costs, key=costs.__getitem__)
    if costs[step] > max_multiply_adds:
        raise StepTooCostlyError(
            f"one {step} of {learner.algorithm} with {learner.problem.dimensions} takes about {costs[step]:,} "
            f"multiply-adds, more than the {max_multiply_adds:,} allowed; use {learner.smaller} instead"
        )


def check_evidence_size(learner: AnyLearner, max_bytes: int) -> None:
    """Raise `StateTooLargeError` if the learner's evidence for each open prediction would be too large."""
    needed = 8 * learner.evidence_size
    if needed > max_bytes:
        recomputes = hasattr(learner, "delayed_update") and learner.answer in {"label", "level"}
        instead = "delayed_update: recompute" if recomputes else "fewer labels"
        raise StateTooLargeError(
            f"{learner.algorithm} with {learner.problem.n_labels} labels keeps {needed:,} bytes for each prediction, "
            f"more than the {max_bytes:,} allowed; use {instead} instead"
        )
