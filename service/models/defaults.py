"""Completes new definitions with the defaults that depend on their learner."""

from typing import Any

from service.actions.definition import check_actions, complete
from service.actions.encoder import ActionVectors
from service.contexts.registry import Features, context_kind
from service.error_messages.values import shown
from service.errors import HyperparameterError, InterceptError, LabelsOrActionsError
from service.models.learner_choice import action_learner_class, class_of
from service.schemas.models import ModelDefinition


def with_defaults(features: Features, learner: type[Any]) -> Features:
    """Return features with the learner's norm policy and intercept where the client gave none.

    Raises `InvalidInputError` if the learner does not support the features.
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


def completed_definition(definition: ModelDefinition) -> ModelDefinition:
    """Check a new model's features; return its definition with the learner's defaults."""
    if definition.actions is not None:
        return _completed_actions(definition)
    features = with_defaults(definition.features, class_of(definition.learner))
    context_kind(features).check_new()
    return definition.model_copy(update={"features": features})


def _completed_actions(definition: ModelDefinition) -> ModelDefinition:
    actions = definition.actions
    if actions is None or definition.labels:
        raise LabelsOrActionsError("got labels as well; send labels or actions, not both", "actions")
    learner = action_learner_class(None if definition.learner is None else definition.learner.algorithm)
    check_actions(actions, definition.features)
    context_kind(definition.features).check_new()
    ActionVectors(actions, definition.features).check_new()
    actions = complete(actions, {"norm": learner.norm_policy, "intercept": learner.intercept})
    features = definition.features.model_copy(update={"norm": "none", "intercept": False})
    return definition.model_copy(update={"actions": actions, "features": features})


def smaller_of(definition: ModelDefinition) -> str:
    """Return advice on how to reduce the size of a model's features; empty if there is none."""
    features = definition.features if definition.actions is None else definition.actions.features
    advice = context_kind(features).smaller
    return advice if definition.actions is None else advice.replace("features.size", "actions.features.size")
