"""Completes the features of a new model with what its learner needs."""

from typing import Any

from service.contexts.registry import Features
from service.input_errors import HyperparameterError, InterceptError
from service.wording.values import shown


def with_defaults(features: Features, learner: type[Any]) -> Features:
    """Return the features of a new model; the learner's norm policy and intercept fill in missing ones.

    Raises:
        HyperparameterError: if the bound exceeds what the learner allows.
        InterceptError: if the learner allows no intercept.
    """
    if learner.context_norm == "maximum" and features.norm_bound > 1.0:
        detail = (
            f"got {shown(features.norm_bound)}; must be at most 1, as the experts of {learner.algorithm} answer "
            "numbers between -1 and 1: divide the contexts instead"
        )
        raise HyperparameterError(detail, "features.norm_bound")
    if features.intercept and not learner.intercept:
        detail = f"got true; must be false, as a constant would be one more expert of {learner.algorithm}"
        raise InterceptError(detail, "features.intercept")
    defaults = {"norm": learner.norm_policy, "intercept": learner.intercept}
    missing = {name: value for name, value in defaults.items() if name not in features.model_fields_set}
    return features.model_copy(update=missing)
