"""Changes of a model: added or retired labels, new values of policies, and replaced states and learners.

The log and the model's history contain each change as JSON. A change never renumbers labels: added labels get the
next numbers, and retired labels keep theirs.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, Literal, NamedTuple

import pydantic
from pydantic import Discriminator, Field, Tag

from learners.base import AnyLearner
from service import errors
from service.error_messages.values import counted, quoted
from service.json_values import JsonObject
from service.models.costs import check_costs
from service.models.flags import check_flags
from service.models.policies import learn_implied
from service.models.rules import check_rules
from service.schemas import models as schemas
from service.schemas.models import MOST_LABELS, ModelDefinition, ModelPatch
from service.strict_body import Body

_LEAST_LABELS = 2


class StoredLabels(Body):
    """Labels that a change adds or retires."""

    add: tuple[schemas.Label, ...] = ()
    retire: tuple[schemas.Label, ...] = ()


class FromSnapshot(Body):
    """The state of a kept snapshot."""

    snapshot: str  # its id
    then_folds: bool = False  # whether the rounds between the snapshot and the change are then folded


def _kind_of_state(state: object) -> str:
    return "object" if isinstance(state, (dict, FromSnapshot)) else "word"


# A state from which a model continues: the learner's initial state, or a kept snapshot.
NewState = Annotated[
    Annotated[Literal["initial"], Tag("word")] | Annotated[FromSnapshot, Tag("object")], Discriminator(_kind_of_state)
]


class Origin(Body):
    """The model from which a clone or an imported model copied its state."""

    kind: Literal["clone", "import"]
    model: str


class Promotion(Body):
    """A shadow that replaces a model's learner."""

    shadow: str
    replaces: JsonObject  # the algorithm and hyperparameters of the replaced learner


class Change(Body):
    """One change, as stored."""

    labels: StoredLabels | None = None
    policies: JsonObject = Field(default_factory=dict)  # new values, by field of `ModelDefinition`
    state: NewState | None = None  # the state from which the model continues, extended by the labels added since
    learner: JsonObject | None = None  # the algorithm and hyperparameters with which the model continues
    origin: Origin | None = None  # the copied model, to which the earlier changes belong; the copy's log begins here
    promotion: Promotion | None = None
    at: float  # seconds since the epoch
    by: str | None = None  # the id of the API key; None if no keys are required

    def encode(self) -> str:
        """Return the change as one line of JSON."""
        return self.model_dump_json(exclude_defaults=True)

    @property
    def request(self) -> tuple[object, ...]:
        """What identifies a repeated request: content and API key. The rest follows from the model or is generated."""
        if self.promotion is not None:
            return self.promotion.shadow, self.by
        return self.labels, self.policies, self.state, self.origin, self.by


class Defined(NamedTuple):
    """A definition after some changes."""

    definition: ModelDefinition
    retired: frozenset[str] = frozenset()
    history_weight: int = 0  # the sum of the numbers of labels after each change of labels


def read_change(text: str | bytes) -> Change:
    """Decode a change; raise `pydantic.ValidationError` if it is invalid."""
    return Change.model_validate_json(text)


def replaces_state(text: bytes) -> bool:
    """Check whether an encoded change replaces the model's state. An unreadable change might, so return True."""
    try:
        return read_change(text).state is not None
    except pydantic.ValidationError:
        return True


def kind_of(change: Change) -> schemas.ChangeKind:
    """Return the kind of a change."""
    if change.origin is not None:
        return change.origin.kind
    if change.promotion is not None:
        return "promote"
    if change.state is not None:
        return "reset" if change.state == "initial" else "rollback"
    return "policies" if change.labels is None else "labels"


def change_of(patch: ModelPatch, definition: ModelDefinition, at: float, by: str | None) -> Change | None:
    """Return the requested change; None if it changes nothing."""
    wanted = patch.model_dump(mode="json", include=set(schemas.POLICIES) & patch.model_fields_set)
    wanted |= learn_implied(wanted, definition.model_dump(mode="json", include={"on_expiry"})["on_expiry"])
    current = definition.model_dump(mode="json", include=set(wanted))
    policies = {name: value for name, value in wanted.items() if value != current[name]}
    labels = None
    if patch.labels and (patch.labels.add or patch.labels.retire):
        labels = StoredLabels(add=tuple(patch.labels.add), retire=tuple(patch.labels.retire))
    return Change(labels=labels, policies=policies, at=at, by=by) if labels or policies else None


def after(defined: Defined, changes: Sequence[Change]) -> Defined:
    """Apply further changes in one pass, parsing only the last value of each policy."""
    definition, retired, weight = defined
    labels: _Labels | None = None
    updates: JsonObject = {}
    for change in changes:
        updates |= change.policies
        if change.labels is not None:
            labels = labels or _Labels(definition.labels, retired)
            labels.take(change.labels)
            weight += len(labels.all)
    updates = checked_policies(updates)
    learners = [change.learner for change in changes if change.learner is not None]
    if learners:
        updates["learner"] = schemas.LearnerChoice(**learners[-1])
    if labels is not None:
        updates["labels"], retired = labels.all, frozenset(labels.retired)
    return Defined(definition.model_copy(update=updates), retired, weight)


def checked_policies(policies: JsonObject) -> JsonObject:
    """Parse policies from JSON; raise `pydantic.ValidationError` if one is unknown or invalid."""
    parsed = schemas.Policies.model_validate(policies)
    return {name: getattr(parsed, name) for name in policies}


def check_learner(learner: AnyLearner, change: Change) -> None:
    """Raise `LabelsFixedError` if a learner does not allow this change of labels."""
    if change.labels is None:
        return
    name = learner.algorithm
    if learner.answer in ("label-set", "ranking"):
        detail = f"the learner {name} answers several labels, so its labels cannot change"
        raise errors.LabelsFixedError(detail, "labels")
    if change.labels.add and not learner.labels_grow:
        detail = f"the learner {name} has a fixed number of labels; create a new model with these labels"
        raise errors.LabelsFixedError(detail, "labels.add")


def check_policies(defined: Defined, learner: AnyLearner, retired_before: Collection[str] = ()) -> None:
    """Raise `InvalidInputError` if the mode, the holdout, the rules, the costs or the flags do not fit the model.

    `retired_before` contains the labels that were retired before the last change.
    """
    definition, retired, _ = defined
    several = learner.answer in ("label-set", "ranking")
    if several and definition.mode == "logging":
        detail = f'got "logging"; must be "online" or "frozen", as {learner.algorithm} answers several labels'
        raise errors.InvalidInputError(detail, "mode")
    check_rules(definition, learner, retired, retired_before)
    check_costs(definition, learner)
    check_flags(definition, learner)
    if definition.holdout is None:
        return
    if several:
        raise errors.InvalidInputError(f"must be null, as {learner.algorithm} answers several labels", "holdout")
    policy, field = definition.holdout.policy, "holdout.policy.label"
    if isinstance(policy, str):
        return
    if policy.label not in definition.labels:
        raise errors.UnknownLabelError(f"got {quoted(policy.label)}; the model has no such label", field)
    if policy.label in retired_before:
        raise errors.RetiredLabelError(f"got {quoted(policy.label)}; the model has retired this label", field)
    if policy.label in retired:
        detail = f"the holdout answers {quoted(policy.label)}, so the model cannot retire it"
        raise errors.RetiredLabelError(detail, field)


class _Labels:
    """The labels of a model while changes are applied: all of them, ordered by number, and the retired ones."""

    def __init__(self, labels: Sequence[str], retired: Collection[str]) -> None:
        self.all = list(labels)
        self.retired = set(retired)
        self._known = set(labels)

    def take(self, change: StoredLabels) -> None:
        """Check and apply a change. It cannot retire labels that it adds."""
        new = self._new(change.add)
        self._retire(change.retire)
        self.all += change.add
        self._known |= new
        remaining = len(self.all) - len(self.retired)
        if remaining < _LEAST_LABELS:
            left = counted(remaining, "labels")
            detail = f"would leave {left}; a model keeps at least {_LEAST_LABELS} that are not retired"
            raise errors.TooFewLabelsError(detail, "labels.retire")

    def _new(self, added: Sequence[str]) -> set[str]:
        known, new = len(self.all), set[str]()
        if known + len(added) > MOST_LABELS:
            detail = f"got {len(added)}; the model has {known} labels, with retired ones, of at most {MOST_LABELS}"
            raise errors.InvalidInputError(detail, "labels.add")
        for i, label in enumerate(added):
            if label in self.retired:
                detail = f"got {quoted(label)}; the model has retired this label, and names are never used again"
                raise errors.RetiredLabelError(detail, f"labels.add.{i}")
            if label in self._known or label in new:
                raise errors.DuplicateLabelsError(f"got {quoted(label)}; the model has this label", f"labels.add.{i}")
            new.add(label)
        return new

    def _retire(self, labels: Sequence[str]) -> None:
        for i, label in enumerate(labels):
            field = f"labels.retire.{i}"
            if label not in self._known:
                raise errors.UnknownLabelError(f"got {quoted(label)}; the model has no such label", field)
            if label in self.retired:
                raise errors.RetiredLabelError(f"got {quoted(label)}; the model has retired this label", field)
            self.retired.add(label)
