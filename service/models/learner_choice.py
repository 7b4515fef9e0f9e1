"""Builds the learner that a definition chooses."""

import dataclasses
from typing import Any, cast

import pydantic

from learners.actions.base import ActionProblem
from learners.algorithms.improper.bandit_reduction import BASES, BanditReduction
from learners.base import AnyLearner, Problem
from learners.registry import ACTION_LEARNERS, ALL_LEARNERS, RECOMMENDED
from service import errors
from service.actions.definition import ActionsDefinition
from service.actions.encoder import ActionVectors
from service.contexts.registry import Features
from service.error_messages.json_schemas import root_of
from service.error_messages.validation import explain
from service.error_messages.values import choices, joined, quoted, shown
from service.json_values import JsonMapping, JsonObject
from service.schemas.models import LearnerChoice, ModelDefinition


def action_learner_class(algorithm: str | None) -> type[Any]:
    """Return the learner class of an algorithm for models with actions, by default the recommended one."""
    name = RECOMMENDED.algorithm if algorithm is None else algorithm
    if name not in ACTION_LEARNERS:
        known = joined(map(quoted, ACTION_LEARNERS), "or")
        detail = f"got {quoted(name)}; a model with actions needs {known}"
        raise errors.ActionLearnerError(detail, "learner.algorithm")
    return ACTION_LEARNERS[name]


def build_learner(definition: ModelDefinition) -> AnyLearner:
    """Build a definition's learner; raise `InvalidInputError` for an unknown algorithm or an invalid hyperparameter."""
    if definition.actions is None and not definition.labels:
        raise errors.LabelsOrActionsError("missing; send labels, or actions", "labels")
    return choose_learner(definition.learner, len(definition.labels), definition.features, definition.actions)


def choose_learner(
    choice: LearnerChoice | None, n_labels: int, features: Features, actions: ActionsDefinition | None = None
) -> AnyLearner:
    """Build a learner of labels or actions, by default the recommended one, without a check of its size."""
    choice = LearnerChoice(algorithm=RECOMMENDED.algorithm) if choice is None else choice
    if actions is not None:
        joint, size = actions.features, ActionVectors(actions, features).size
        problem = ActionProblem(size + joint.intercept, joint.norm_bound)
        return _validated(choice.model_extra or {}, problem, action_learner_class(choice.algorithm))
    chosen = class_of(choice)
    if features.n_features + features.intercept == 0:
        raise errors.FeaturesError(f"missing; {choice.algorithm} needs features", "features")
    of_labels = Problem(n_labels, features.n_features + features.intercept, features.norm_bound)
    return _validated(choice.model_extra or {}, of_labels, chosen)


def class_of(choice: LearnerChoice | None) -> type[Any]:
    """Return the class of the chosen learner, by default the recommended one."""
    if choice is None:
        return RECOMMENDED
    if choice.algorithm not in ALL_LEARNERS:
        known = tuple(sorted(ALL_LEARNERS))
        detail = f"got {shown(choice.algorithm)}; {choices(choice.algorithm, known, 'known algorithms')}"
        raise errors.UnknownAlgorithmError(detail, "learner.algorithm")
    return ALL_LEARNERS[choice.algorithm]


def listed_sets(choice: LearnerChoice | None) -> int:
    """Return the length of the hyperparameter `sets` of a choice, whether or not it is valid; 0 if it is not a list."""
    sets = None if choice is None else (choice.model_extra or {}).get("sets")
    return len(sets) if isinstance(sets, list) else 0


def _validated(
    given: JsonMapping, problem: Problem | ActionProblem, chosen: type[Any], where: str = "learner"
) -> AnyLearner:
    """Build a learner from hyperparameters; raise `HyperparameterError` with a field below `where`."""
    known = tuple(sorted({field.name for field in dataclasses.fields(chosen)} - {"problem"}))
    if unknown := sorted(set(given) - set(known)):
        listed = choices(unknown[0], known, "its hyperparameters") if known else "it has none"
        detail = f"{chosen.algorithm} does not have this hyperparameter; {listed}"
        raise errors.UnknownHyperparameterError(detail, f"{where}.{unknown[0]}")
    try:
        learner: AnyLearner = chosen(problem=problem, **given)
    except pydantic.ValidationError as error:
        of_base, name = given.get("base_settings"), given.get("base", BanditReduction.base)
        if isinstance(of_base, dict) and isinstance(name, str) and name in BASES:  # may raise the base's own error
            _validated(of_base, problem, BASES[cast(Any, name)].learner, f"{where}.base_settings")
        raise as_hyperparameter_error(error, chosen, given, where) from error
    return learner


def as_hyperparameter_error(
    error: pydantic.ValidationError, chosen: type, given: JsonMapping, where: str = "learner"
) -> errors.HyperparameterError:
    """Return the error that names the first invalid hyperparameter, below the field `where`."""
    first = error.errors(include_url=False)[0]
    # `loc` is the hyperparameter, perhaps an index in its list, then members of a union, which are not in the request.
    loc = first["loc"]
    is_in_list = len(loc) > 1 and isinstance(loc[1], int)
    wrong = explain({**first, "loc": loc[: 1 + is_in_list]}, root_of(chosen))
    if wrong.field is None:
        return errors.HyperparameterError(wrong.reason, where)
    if wrong.type == "value_error" and wrong.field in given:
        return errors.HyperparameterError(f"got {shown(given[wrong.field])}; {wrong.reason}", f"{where}.{wrong.field}")
    return errors.HyperparameterError(wrong.reason, f"{where}.{wrong.field}")


def hyperparameters(learner: AnyLearner) -> JsonObject:
    """Return the algorithm and all hyperparameters of a learner as JSON values."""
    fields = pydantic.TypeAdapter(type(learner)).dump_python(learner, mode="json")
    return {"algorithm": learner.algorithm} | {name: fields[name] for name in fields if name != "problem"}
