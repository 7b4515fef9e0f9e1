"""A model: its definition, and the learner, labels and record format derived from it."""

import dataclasses
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pydantic

from learners.base import AnyLearner, Problem
from learners.errors import StateTooLargeError, StepTooCostlyError
from learners.new_models import check_evidence_size, check_new, check_state_size, check_step_cost
from learners.registry import ALL_LEARNERS, RECOMMENDED, current_name
from service.contexts.kind import ContextKind
from service.contexts.registry import Features, context_kind
from service.errors import (
    HyperparameterError,
    InvalidInputError,
    ModelTooCostlyError,
    ModelTooLargeError,
    NewerVersionError,
    StoreCorruptError,
    UnknownAlgorithmError,
    UnknownHyperparameterError,
    WagerError,
)
from service.models.answer_kinds import Answers, answers_of
from service.models.norm_policy import ContextCheck
from service.schemas.models import LearnerChoice, ModelDefinition
from service.store.base import FeedbackRules
from service.store.records.records import RecordFormat
from service.store.stored_models import ModelKey, StoredModel
from service.wording.bad_json import syntax_error, unreadable
from service.wording.json_schemas import root_of
from service.wording.validation import explain
from service.wording.values import choices, shown

FORGET_AFTER = 3600.0
"""Seconds that a prediction is kept after its window, to distinguish late feedback from unknown ids."""

_UNKNOWN = {"extra_forbidden", "literal_error", "union_tag_invalid"}
"""Pydantic's error types for unknown fields and choices."""


_COST_PER_CHARACTER = 50  # cost of reading a character, in multiply-adds


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits on the memory and time of new models."""

    state_bytes: int
    step_cost: int  # multiply-adds of one decision or update
    evidence_bytes: int = 65_536  # for each prediction, until its feedback


@dataclasses.dataclass(frozen=True)
class Model:
    """One incarnation of a model: the same in every worker."""

    key: ModelKey
    definition: ModelDefinition
    learner: AnyLearner

    @cached_property
    def name(self) -> str:
        """The model's name."""
        return self.key.name

    @cached_property
    def answers(self) -> Answers:
        """The kind of its answers."""
        return answers_of(self.learner, self.definition.labels)

    @cached_property
    def format(self) -> RecordFormat:
        """The bytes of its predictions and rounds."""
        return RecordFormat(self.answers.form, self.learner.evidence_size, self.contexts.codec)

    @cached_property
    def contexts(self) -> ContextKind[Any]:
        """The kind of its contexts."""
        return context_kind(self.definition.features)

    @cached_property
    def norm(self) -> ContextCheck:
        """The check of its contexts' norms."""
        features = self.definition.features
        return ContextCheck(self.contexts, features.norm, features.norm_bound, self.learner.context_norm)

    @cached_property
    def keep_seconds(self) -> float:
        """How long the store keeps a prediction."""
        return self.definition.window_seconds + FORGET_AFTER

    @cached_property
    def feedback_rules(self) -> FeedbackRules:
        """How the store judges feedback."""
        accepts_late = self.definition.late_feedback == "accept"
        return FeedbackRules(accepts_late, self.learner.needs_true_label, self.format.shape)


def build_learner(definition: ModelDefinition) -> AnyLearner:
    """Return the learner of a definition.

    Raises:
        UnknownAlgorithmError: if the algorithm is unknown.
        HyperparameterError: if a hyperparameter is unknown or invalid.
    """
    return choose_learner(definition.learner, len(definition.labels), definition.features)


def check_limits(learner: AnyLearner, limits: Limits) -> None:
    """Check a new model's memory and time.

    Raises:
        ModelTooLargeError: if its state, or its evidence of a prediction, is too large.
        ModelTooCostlyError: if one decision or update takes too long.
    """
    try:
        check_state_size(learner, limits.state_bytes)
        check_evidence_size(learner, limits.evidence_bytes)
        check_step_cost(learner, limits.step_cost)
    except StateTooLargeError as error:
        raise ModelTooLargeError(str(error), "learner.algorithm") from error
    except StepTooCostlyError as error:
        raise ModelTooCostlyError(str(error), "learner.algorithm") from error


def choose_learner(choice: LearnerChoice | None, n_labels: int, features: Features) -> AnyLearner:
    """Return the chosen learner, or the recommended one if there is no choice. Do not check its size.

    Raises:
        UnknownAlgorithmError: if the algorithm is unknown.
        HyperparameterError: if a hyperparameter is unknown or invalid.
    """
    choice = choice or LearnerChoice(algorithm=RECOMMENDED.algorithm)
    if current_name(choice.algorithm) not in ALL_LEARNERS:
        known = tuple(sorted(ALL_LEARNERS))
        detail = f"got {shown(choice.algorithm)}; {choices(choice.algorithm, known, 'known algorithms')}"
        raise UnknownAlgorithmError(detail, "learner.algorithm")
    return _validated(choice, Problem(n_labels, features.size, features.norm_bound))


def _validated(choice: LearnerChoice, problem: Problem) -> AnyLearner:
    hyperparameters = choice.model_extra or {}
    chosen = ALL_LEARNERS[current_name(choice.algorithm)]
    _check_names(choice.algorithm, hyperparameters, chosen)
    try:
        learner: AnyLearner = chosen(problem=problem, **hyperparameters)
    except pydantic.ValidationError as error:
        raise _as_hyperparameter_error(error, chosen, hyperparameters) from error
    return learner


def _check_names(algorithm: str, hyperparameters: Mapping[str, Any], chosen: type[Any]) -> None:
    known = tuple(sorted({field.name for field in dataclasses.fields(chosen)} - {"problem"}))
    unknown = sorted(set(hyperparameters) - set(known))
    if not unknown:
        return
    listed = choices(unknown[0], known, "its hyperparameters") if known else "it has none"
    detail = f"{algorithm} does not have this hyperparameter; {listed}"
    raise UnknownHyperparameterError(detail, f"learner.{unknown[0]}")


def _as_hyperparameter_error(
    error: pydantic.ValidationError, chosen: Any, given: Mapping[str, Any]
) -> HyperparameterError:
    first = error.errors(include_url=False)[0]
    # Further steps name a member of a union, which is not a part of the request.
    wrong = explain({**first, "loc": first["loc"][:1]}, root_of(chosen))
    if wrong.field is None:
        return HyperparameterError(wrong.reason, "learner")
    if wrong.type == "value_error" and wrong.field in given:
        return HyperparameterError(f"got {shown(given[wrong.field])}; {wrong.reason}", f"learner.{wrong.field}")
    return HyperparameterError(wrong.reason, f"learner.{wrong.field}")


def hyperparameters(learner: AnyLearner) -> dict[str, Any]:
    """Return the algorithm and all hyperparameters of a learner as JSON values."""
    fields = pydantic.TypeAdapter(type(learner)).dump_python(learner, mode="json")
    return {"algorithm": learner.algorithm} | {name: fields[name] for name in fields if name != "problem"}


def new_model(definition: ModelDefinition, incarnation: str, limits: Limits) -> Model:
    """Return a new model. Its definition lists all hyperparameters, so that later defaults do not change it.

    Raises:
        InvalidInputError: as `build_learner` and `check_limits`, and if new models may not use the learner.
    """
    learner = build_learner(definition)
    check_limits(learner, limits)
    try:
        check_new(learner)
    except pydantic.ValidationError as error:
        raise _as_hyperparameter_error(error, type(learner), hyperparameters(learner)) from error
    written_out = {"learner": LearnerChoice(**hyperparameters(learner)), "features": _features(definition, learner)}
    complete = definition.model_copy(update=written_out)
    return Model(ModelKey(definition.name, incarnation), complete, learner)


def _features(definition: ModelDefinition, learner: AnyLearner) -> Features:
    """Return the features; the learner's norm policy fills in a missing one."""
    features = definition.features
    if learner.context_norm == "maximum" and features.norm_bound > 1.0:
        detail = (
            f"got {shown(features.norm_bound)}; must be at most 1, as the experts of {learner.algorithm} answer "
            "numbers between -1 and 1: divide the contexts instead"
        )
        raise HyperparameterError(detail, "features.norm_bound")
    if "norm" in features.model_fields_set:
        return features
    return features.model_copy(update={"norm": learner.norm_policy})


def reading_cost(stored: StoredModel) -> int:
    """Return the cost of `stored_model`, in multiply-adds."""
    return len(stored.definition) * _COST_PER_CHARACTER


def stored_model(stored: StoredModel) -> Model:
    """Return the model of a stored definition.

    Raises:
        NewerVersionError: if the definition has fields, choices or algorithms that this version does not have.
        StoreCorruptError: if it cannot be read.
    """
    try:
        definition = ModelDefinition.model_validate(json.loads(stored.definition))
        learner = build_learner(definition)
    except (ValueError, RecursionError, InvalidInputError) as error:
        if _is_newer(error):
            detail = f"a newer version wrote the definition of model {stored.key.name!r}: {_reason(error)}"
            raise NewerVersionError(detail) from error
        detail = f"the definition of model {stored.key.name!r} cannot be read: {_reason(error)}"
        raise StoreCorruptError(detail) from error
    return Model(stored.key, definition, learner)


def _reason(error: Exception) -> str:
    match error:
        case pydantic.ValidationError():
            return explain(error.errors(include_url=False)[0], root_of(ModelDefinition)).sentence("the definition")
        case WagerError():
            return f"{error.field}: {error.detail}"
        case json.JSONDecodeError():
            return syntax_error(error.msg, error.pos)
    return unreadable(error)


def _is_newer(error: Exception) -> bool:
    """Check whether all errors in a definition are unknown fields, choices, algorithms or hyperparameters."""
    if isinstance(error, pydantic.ValidationError):
        return all(each["type"] in _UNKNOWN for each in error.errors(include_url=False, include_input=False))
    return isinstance(error, (UnknownAlgorithmError, UnknownHyperparameterError))
