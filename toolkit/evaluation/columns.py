"""The columns of logged rounds, from files or from the API's lines."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pydantic

from learners.answers import is_structured
from learners.base import NO_LABEL, BoolArray, Contexts, FloatArray, IntArray, InvalidArrayError, Prices, every_label
from learners.evaluation.off_policy.logged import LoggedRounds, check_logged, no_contexts
from learners.evaluation.progressive import Terms
from service.contexts.registry import GivenContext
from service.error_messages.patterns import MOST_COST
from service.errors import WagerError
from service.json_values import JsonMapping
from service.models.learner_choice import build_learner
from service.models.model import Model
from service.schemas.models import ModelDefinition
from service.store.stored_models import ModelKey
from toolkit import ToolError
from toolkit.files.rows import RowError, checked_cost, listed


class EvaluationError(ToolError):
    """An option, a file, a log or a cluster cannot be used. The message names the part and the row, if any."""


_CONTEXT = pydantic.TypeAdapter[Any](GivenContext)
_ESSENTIAL = (
    "name",
    "labels",
    "actions",
    "features",
    "learner",
    "rules",
    "costs",
    "cost_weight",
    "budget",
)  # the fields of a definition that an evaluation needs


class Columns(NamedTuple):
    """n rounds, oldest first, with values as in files and in the API's lines."""

    numbers: IntArray  # (n,), the numbers of the rounds; -1 for null
    labels: list[str | None]
    propensities: FloatArray  # (n,), NaN for null
    rewards: FloatArray  # (n,), NaN for null
    true_labels: list[str | None]
    contexts: list[Any]  # as sent: parsed JSON
    eligible: list[list[str] | None]  # None if every label that the model had was eligible
    counts: list[int | None]  # the number of labels or actions at the prediction, if known
    holdout: BoolArray  # (n,)
    paid: FloatArray  # (n,), what each answer cost, NaN for null
    cost_weights: FloatArray  # (n,), λ of each decision, NaN for null
    costs: list[dict[str, float] | None]  # those that the requests gave
    lags: FloatArray  # (n,), how many rounds came between the decision and its round

    @property
    def n(self) -> int:
        """The number of rounds."""
        return len(self.numbers)


NAMES = (
    "round", "label", "propensity", "reward", "true_label", "context", "eligible", "holdout", "action_count",
    "label_count", "distribution", "cost", "cost_weight", "costs", "rounds_seen",
)  # fmt: skip
"""The fields of `GET /models/{name}/rounds`, and the columns of an export, that an evaluation reads."""


def columns_of(values: Mapping[str, list[Any]]) -> Columns:
    """Convert lists of values, by name, to columns. Contexts must be parsed.

    `round` is required. Any others of `NAMES` may be missing, as if all their values were null.
    """
    nothing: list[Any] = [None] * len(values["round"])
    found = {name: values.get(name, nothing) for name in NAMES}
    lengths = [None if each is None else len(each) for each in found["distribution"]]
    counts = zip(found["action_count"], found["label_count"], lengths, strict=True)
    return Columns(
        np.array([-1 if each is None else each for each in found["round"]], np.int64),
        found["label"],
        np.array([np.nan if each is None else each for each in found["propensity"]], np.float64),
        np.array([np.nan if each is None else each for each in found["reward"]], np.float64),
        found["true_label"],
        found["context"],
        found["eligible"],
        [next((count for count in each if count is not None), None) for each in counts],
        np.array([bool(each) for each in found["holdout"]], np.bool_),
        np.array([np.nan if each is None else each for each in found["cost"]], np.float64),
        np.array([np.nan if each is None else each for each in found["cost_weight"]], np.float64),
        found["costs"],
        np.array(list(map(_lag, found["round"], found["rounds_seen"])), np.float64),
    )


def _lag(number: int | None, seen: int | None) -> int:
    return 0 if number is None or seen is None else max(0, number - 1 - seen)


def _cost(given: object, field: str, place: str) -> float:
    try:
        return checked_cost(given, field)
    except RowError as error:
        raise EvaluationError(f"{place}: {error}") from None


class LoggedModel:
    """The model of a log, built from the answer of `GET /models/{name}`.

    Raises `EvaluationError` if it cannot be built or evaluated. The messages begin with `where`, as in all methods.
    """

    def __init__(self, answer: JsonMapping, where: str) -> None:
        given = {name: answer[name] for name in _ESSENTIAL if answer.get(name)}
        try:
            definition = ModelDefinition.model_validate(given)
            learner = build_learner(definition)
        except (pydantic.ValidationError, WagerError) as error:
            raise EvaluationError(f"{where}: the description of the model cannot be read: {error}") from error
        if is_structured(learner):
            raise EvaluationError(f"{where}: {learner.algorithm} answers sets or rankings, which have no estimators")
        self.model = Model(ModelKey(definition.name, "log"), definition, learner)
        self.name = definition.name
        self.labels = definition.labels
        self._numbers = {label: k for k, label in enumerate(self.labels)}

    @property
    def has_actions(self) -> bool:
        """Whether the model has actions instead of labels."""
        return self.model.definition.actions is not None

    @property
    def n_features(self) -> int:
        """d, the size of the learner's contexts; 0 for a model with actions."""
        return 0 if self.has_actions else self.model.learner.problem.n_features

    def label_number(self, label: str, where: str) -> int:
        """Return the number of a label. Raises `EvaluationError` if the model does not have it."""
        if label not in self._numbers:
            raise EvaluationError(f"{where}: got {label!r}; the labels of the model are {listed(self.labels)}")
        return self._numbers[label]

    def rounds_of(self, columns: Columns, where: str, first_row: int, with_contexts: bool) -> LoggedRounds:
        """Convert columns to rounds. Raises `EvaluationError`, which names the row; rows count from `first_row`."""
        rounds = LoggedRounds(
            columns.numbers,
            self._labels_of(columns.labels, where, first_row),
            columns.propensities,
            columns.rewards,
            self._eligible(columns, where, first_row),
            self._counts(columns),
            columns.holdout,
            self._truths(columns.true_labels, where, first_row),
            self._contexts(columns.contexts, where, first_row) if with_contexts else no_contexts(columns.n),
        )
        for name, column in (("cost", columns.paid), ("cost_weight", columns.cost_weights)):
            for row in np.flatnonzero((column < 0.0) | (column > MOST_COST)).tolist():
                _cost(column[row], name, f"{where}: row {first_row + row}")
        try:
            check_logged(rounds, max(1, len(self.labels)), first_row)
        except InvalidArrayError as error:
            raise EvaluationError(f"{where}: {error}") from None
        return rounds

    def terms_of(self, columns: Columns, where: str, first_row: int) -> Terms:
        """Return the costs, rules and budget for a learner that replays the log. Raises as `rounds_of` does.

        Rules and budget are the model's newest, and so are its costs where a request gave none.
        """
        choice, given = self.model.choice, any(columns.costs)
        if choice.definition.costs is None and not given:
            return Terms(limits=choice.limits)
        costs = np.tile(choice.label_costs, (columns.n if given else 1, 1))
        for row, own in enumerate(columns.costs if given else ()):
            place = f"{where}: row {first_row + row}"
            for label, cost in (own or {}).items():
                costs[row, self.label_number(label, f"{place}: costs")] = _cost(cost, f"costs.{label}", place)
        weights = np.where(np.isnan(columns.cost_weights), choice.definition.cost_weight, columns.cost_weights)
        return Terms(Prices(weights, costs), choice.limits, choice.budget, columns.lags)

    def _labels_of(self, labels: Sequence[str | None], where: str, first_row: int) -> IntArray:
        if self.has_actions:
            return np.zeros(len(labels), np.int64)  # actions have no numbers
        places = (f"{where}: row {row}: label" for row in range(first_row, first_row + len(labels)))
        numbers = [self.label_number(str(label), place) for label, place in zip(labels, places, strict=True)]
        return np.array(numbers, np.int64)

    def _truths(self, labels: Sequence[str | None], where: str, first_row: int) -> IntArray:
        found = np.full(len(labels), NO_LABEL)
        for row, label in enumerate([] if self.has_actions else labels):
            if label is not None:
                found[row] = self.label_number(label, f"{where}: row {first_row + row}: true_label")
        return found

    def _eligible(self, columns: Columns, where: str, first_row: int) -> BoolArray:
        n, most = columns.n, len(self.labels)
        partial = [row for row, count in enumerate(columns.counts) if count is not None and count < most]
        listed = [row for row, labels in enumerate(columns.eligible) if labels is not None]
        if self.has_actions or not (partial or listed):
            return every_label(n)
        eligible = np.ones((n, most), np.bool_)
        for row in partial:
            eligible[row, columns.counts[row] :] = False
        for row in listed:
            eligible[row] = False
            for label in columns.eligible[row] or ():
                eligible[row, self.label_number(label, f"{where}: row {first_row + row}: eligible")] = True
        return eligible

    def _counts(self, columns: Columns) -> IntArray:
        if self.has_actions:
            return np.array([count or 1 for count in columns.counts], np.int64)  # 1 if unknown: `uniform` is refused
        most = len(self.labels)
        counts = [most if count is None else min(count, most) for count in columns.counts]
        counts = [n if labels is None else len(labels) for n, labels in zip(counts, columns.eligible, strict=True)]
        return np.array(counts, np.int64)

    def _contexts(self, contexts: Sequence[Any], where: str, first_row: int) -> Contexts:
        kind, checked = self.model.choice.contexts, []
        for row, context in enumerate(contexts):
            try:
                parsed = None if context is None else _CONTEXT.validate_python(context)
                checked.append(kind.check(parsed))
            except (pydantic.ValidationError, WagerError) as error:
                detail = error.detail if isinstance(error, WagerError) else error.errors()[0]["msg"]
                raise EvaluationError(f"{where}: row {first_row + row}: context: {detail}") from None
        return self.model.choice.prepared(kind.to_batch(checked))
