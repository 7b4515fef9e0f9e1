"""The choice between the two updates that late feedback may lead to.

The gradient of a round is taken at the scores of its prediction, which are then part of the evidence, or at those of
the state that the feedback meets. The propensity is that of the prediction in either case.
"""

from typing import Annotated, Literal, TypeAlias

import pydantic

DelayedUpdate: TypeAlias = Annotated[
    Literal["as_of_prediction", "recompute"],
    pydantic.Field(
        description="Whether a late update goes by what was computed for the prediction, or computes it anew from the "
        "present state. The propensity is the stored one either way."
    ),
]
