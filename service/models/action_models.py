"""Defaults of new models, and the checks of those with actions."""

from learners.actions.base import ActionProblem
from learners.base import AnyLearner, StateTooLargeError, StepTooCostlyError
from learners.layouts import state_bytes
from learners.new_models import check_state_size, check_step_cost
from service.actions.definition import check_actions, complete
from service.actions.errors import LabelsOrActionsError
from service.actions.vectors import ActionVectors
from service.contexts.named import MOST_FEATURES
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


def check_state(learner: AnyLearner, most: int) -> None:
    """Refuse a learner whose state needs more than `most` bytes.

    Raises:
        StateTooLargeError: if it does.
    """
    needed = state_bytes(learner) if isinstance(learner.problem, ActionProblem) else 0
    if needed > most:
        raise StateTooLargeError(
            f"{learner.algorithm} with {learner.problem.n_features} features needs a state of {needed:,} bytes, more "
            f"than the {most:,} allowed; use {learner.smaller} instead"
        )
    check_state_size(learner, most)


def check_step(learner: AnyLearner, most: int) -> None:
    """Refuse a learner whose single decision or update takes more than `most` multiply-adds.

    Raises:
        StepTooCostlyError: if it does.
    """
    if not isinstance(learner.problem, ActionProblem):
        check_step_cost(learner, most)
        return
    entries = min(learner.problem.n_features, MOST_FEATURES)
    cost = learner.fold_cost(entries)
    if cost > most:
        raise StepTooCostlyError(
            f"one update of {learner.algorithm} with {learner.problem.n_features} features takes about {cost:,} "
            f"multiply-adds, more than the {most:,} allowed; use {learner.smaller} instead"
        )
