"""Defaults of new models, also of those with actions."""

from service.actions.definition import check_actions, complete
from service.actions.errors import LabelsOrActionsError
from service.actions.vectors import ActionVectors
from service.contexts.registry import context_kind
from service.models.action_learners import action_learner_class
from service.models.feature_defaults import with_defaults
from service.models.learner_choice import class_of
from service.schemas.models import ModelDefinition


def completed_definition(definition: ModelDefinition) -> ModelDefinition:
    """Return a new model's definition with features as its learner needs them, after checks of these.

    Raises:
        InvalidInputError: if they contradict each other or the learner.
    """
    if definition.actions is not None:
        return _completed_actions(definition)
    features = with_defaults(definition.features, class_of(definition.learner))
    context_kind(features).check_new()
    return definition.model_copy(update={"features": features})


def _completed_actions(definition: ModelDefinition) -> ModelDefinition:
    """Return the definition of a new model with actions, with the defaults of its learner."""
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
    """Return the advice on how to make the features of a model smaller."""
    features = definition.features if definition.actions is None else definition.actions.features
    advice = context_kind(features).smaller
    return advice if definition.actions is None else advice.replace("features.size", "actions.features.size")
