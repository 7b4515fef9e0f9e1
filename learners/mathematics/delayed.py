"""The two ways to update on delayed feedback.

The gradient of a round is taken either at the scores of its prediction, which are then part of the evidence, or at
the scores of the current state when the feedback arrives. The propensity is that of the prediction in either case.
"""

from typing import Annotated, Literal, TypeAlias

import pydantic

from learners.base import Problem

DelayedUpdate: TypeAlias = Annotated[
    Literal["as_of_prediction", "recompute"],
    pydantic.Field(
        description="What a late update uses: `as_of_prediction`, the values computed for the prediction, or "
        "`recompute`, values recomputed from the current state. The propensity is the stored one either way."
    ),
]


class Delayed:
    """A learner with this choice as a hyperparameter; its evidence is the K scores of the prediction."""

    problem: Problem
    delayed_update: DelayedUpdate

    @property
    def as_of_prediction(self) -> bool:
        """Whether a late update uses the evidence."""
        return self.delayed_update == "as_of_prediction"

    @property
    def evidence_size(self) -> int:
        """K, or 0 if the scores are recomputed."""
        return self.problem.n_labels if self.as_of_prediction else 0
