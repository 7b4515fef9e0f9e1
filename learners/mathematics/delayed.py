"""The choice between the two updates that late feedback may lead to.

The gradient of a round is taken at the scores of its prediction, which are then part of the evidence, or at those of
the state that the feedback meets. The propensity is that of the prediction in either case.
"""

from typing import Annotated, Literal, TypeAlias

import pydantic

from learners.base import Problem

DelayedUpdate: TypeAlias = Annotated[
    Literal["as_of_prediction", "recompute"],
    pydantic.Field(
        description="Whether a late update goes by what was computed for the prediction, or computes it anew from the "
        "present state. The propensity is the stored one either way."
    ),
]


class Delayed:
    """A learner that has the choice as a hyperparameter; the evidence is the K scores of the prediction."""

    problem: Problem
    delayed_update: DelayedUpdate

    @property
    def as_of_prediction(self) -> bool:
        """Whether a late update goes by the evidence."""
        return self.delayed_update == "as_of_prediction"

    @property
    def evidence_size(self) -> int:
        """K, or nothing where the scores are computed anew."""
        return self.problem.n_labels if self.as_of_prediction else 0
