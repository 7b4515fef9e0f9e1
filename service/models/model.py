"""A model: its definition, and the learner, labels and record format derived from it."""

import dataclasses
from functools import cached_property
from typing import Literal, cast

import pydantic

from learners.actions.base import ActionProblem, AnyActionLearner
from learners.base import AnyLearner, BoolArray, IntArray, Rounds, StateTooLargeError, StepTooCostlyError
from learners.new_models import check_evidence_size, check_new, check_state_size, check_step_cost
from service.choice.actions import ActionChoice
from service.choice.choice import Choice
from service.choice.labels import LabelChoice
from service.contexts.vectors import MOST_ENTRIES
from service.errors import LabelsFixedError, ModelTooCostlyError, ModelTooLargeError
from service.models.changes import Change, Defined, FromSnapshot, after, check_learner, check_policies
from service.models.defaults import completed_definition, smaller_of
from service.models.learner_choice import as_hyperparameter_error, build_learner, hyperparameters
from service.models.policies import check_closing
from service.schemas.models import LearnerChoice, ModelDefinition
from service.store.records.optional_fields import LogRows
from service.store.stored_models import DIGEST_BYTES, ModelKey, digest_after, digest_at


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits on the memory and time of new models."""

    state_bytes: int
    step_cost: int  # of one decision or update, in multiply-adds
    evidence_bytes: int = 65_536  # for each prediction, until its feedback


@dataclasses.dataclass(frozen=True)
class Model:
    """One incarnation of a model after some of its changes; it is the same in every worker."""

    key: ModelKey
    definition: ModelDefinition  # after the changes; its labels include retired ones
    learner: AnyLearner
    retired: frozenset[str] = frozenset()  # labels that are never answered again
    change_count: int = 0
    # number of the change that set the learner; predictions that have not seen that change have another one's evidence
    learner_since: int = 0
    holdout_since: int = 0  # number of the change that set the holdout
    served_by: AnyLearner | None = None  # in a shadow's model, the learner that answers; otherwise None
    new_state: Literal["initial"] | FromSnapshot | None = None  # the state that the last change set, if any
    history_weight: int = 0  # see `Defined.history_weight`
    digests: bytes = b""  # of the stored history; empty if the model was not read from the store

    @property
    def digest(self) -> bytes:
        """The digest of the whole history."""
        return self.digests[-DIGEST_BYTES:]

    def has_seen(self, change_count: int, digest: bytes) -> bool:
        """Check whether the history begins with the changes that a prediction or a state has seen."""
        return digest_at(self.digests, change_count) == digest

    @cached_property
    def name(self) -> str:
        """The model's name."""
        return self.key.name

    @cached_property
    def choice(self) -> Choice:
        """How the model's predictions choose among labels or actions."""
        definition, actions = self.definition, self.definition.actions
        if actions is not None:
            return ActionChoice(definition, actions, cast(AnyActionLearner, self.learner), self.learner_since)
        size = (self.served_by or self.learner).evidence_size
        return LabelChoice(definition, self.learner, self.retired, size, self.learner_since)

    def changed(self, change: Change) -> "Model":
        """Return the model after a further change; raise `InvalidInputError` if the change does not fit."""
        if change.labels is not None and self.definition.actions is not None:
            raise LabelsFixedError("the model has actions, which each request brings, and no labels", "labels")
        check_learner(self.learner, change)
        definition, retired, weight = after(Defined(self.definition, self.retired, self.history_weight), [change])
        same = change.labels is None and change.learner is None
        learner = self.learner if same else build_learner(definition)
        check_policies(Defined(definition, retired), learner, self.retired)
        check_closing(definition, learner)
        count = self.change_count + 1
        since = self.learner_since if change.learner is None else count
        holdout_since = count if "holdout" in change.policies else self.holdout_since
        return Model(
            *(self.key, definition, learner, retired, count, since, holdout_since),
            new_state=change.state,
            history_weight=weight,
            digests=self.digests + digest_after(self.digest, change.encode().encode()),
        )

    def rounds_of(self, rows: LogRows) -> Rounds:
        """Convert logged rounds to the learner's input."""
        rounds = self.choice.records.rounds_of(rows)
        return rounds._replace(contexts=self.choice.prepared(rounds.contexts))

    def has_own_evidence(self, changes_seen: IntArray) -> BoolArray:
        """Return a mask (n,) of the rounds that have this learner's evidence; a shadow's learner has none.

        `changes_seen` (n,) contains how many changes the prediction of each round had seen.
        """
        own: BoolArray = changes_seen >= self.learner_since
        return own & (self.served_by is None)

    def shadowed_by(self, choice: LearnerChoice) -> "Model":
        """Return the model with a shadow's learner, which learns even if the model is frozen."""
        definition = self.definition.model_copy(update={"learner": choice, "mode": "online"})
        learner, served_by = build_learner(definition), self.served_by or self.learner
        return dataclasses.replace(self, definition=definition, learner=learner, served_by=served_by)


def check_limits(learner: AnyLearner, limits: Limits, smaller: str = "") -> None:
    """Raise an error, which ends with `smaller` (advice on the features), if a learner exceeds the limits."""
    most = min(learner.problem.n_features, MOST_ENTRIES) if isinstance(learner.problem, ActionProblem) else None
    try:
        check_state_size(learner, limits.state_bytes)
        check_evidence_size(learner, limits.evidence_bytes)
        check_step_cost(learner, limits.step_cost, most)
    except StateTooLargeError as error:
        raise ModelTooLargeError(str(error) + smaller, "learner.algorithm") from error
    except StepTooCostlyError as error:
        raise ModelTooCostlyError(str(error) + smaller, "learner.algorithm") from error


def new_model(definition: ModelDefinition, incarnation: str, limits: Limits) -> Model:
    """Return a new model. Its definition lists all hyperparameters, so that new defaults do not change it."""
    completed = completed_definition(definition)
    learner = build_learner(completed)
    check_limits(learner, limits, smaller_of(completed))
    check_policies(Defined(completed), learner)
    check_closing(definition, learner)
    try:
        check_new(learner)
    except pydantic.ValidationError as error:
        raise as_hyperparameter_error(error, type(learner), hyperparameters(learner)) from error
    complete = completed.model_copy(update={"learner": LearnerChoice(**hyperparameters(learner))})
    return Model(ModelKey(definition.name, incarnation), complete, learner)
