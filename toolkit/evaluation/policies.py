"""The policies that a user asks for."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pydantic

from learners.answers import is_structured
from learners.base import AnyLearner, FloatArray, IntArray
from learners.evaluation.off_policy.logged import LoggedRounds
from service.errors import WagerError
from service.models.learner_choice import choose_learner
from service.schemas.models import LearnerChoice
from toolkit.evaluation.columns import EvaluationError, LoggedModel
from toolkit.files.lines import FileError
from toolkit.files.rows import RowError, checked_number
from toolkit.files.tables import Table, read_table

_TOLERANCE = 1e-6
_MOST_ROUNDS = 2**53


class Choices(NamedTuple):
    """The probabilities of labels in rounds, by round."""

    path: str
    numbers: IntArray  # (m,) int64, not decreasing
    labels: IntArray  # (m,) int64
    probabilities: FloatArray  # (m,) float64

    def distributions(self, rounds: LoggedRounds, n_labels: int) -> FloatArray:
        """Return the distribution of each round, (n, K)."""
        starts = np.searchsorted(self.numbers, rounds.numbers, "left")
        ends = np.searchsorted(self.numbers, rounds.numbers, "right")
        if (starts == ends).any():
            number = rounds.numbers[np.flatnonzero(starts == ends)[0]]
            raise EvaluationError(f"{self.path}: round {number} of the log has no choice")
        distributions = np.zeros((rounds.n, n_labels))
        rows = np.repeat(np.arange(rounds.n), ends - starts)
        places = np.concatenate([np.arange(*pair) for pair in zip(starts.tolist(), ends.tolist(), strict=True)])
        np.add.at(distributions, (rows, self.labels[places]), self.probabilities[places])
        if rounds.eligible.shape[1] and (distributions[~rounds.eligible] > 0.0).any():
            row = int(np.flatnonzero((distributions * ~rounds.eligible).sum(axis=1))[0])
            raise EvaluationError(f"{self.path}: round {rounds.numbers[row]} has a label that was not eligible")
        return distributions


def read_choices(path: Path, model: LoggedModel) -> Choices:
    """Read a file of choices."""
    if model.has_actions:
        raise EvaluationError(f"--choices {path}: a model with actions has no labels to choose from")
    table = read_table(path)
    numbers = np.array(_column_of(table, "round", _number_of_round), np.int64)
    names, places = table.column("label"), table.places
    labels = [model.label_number(str(name), f"{path}: {places[row]}: label") for row, name in enumerate(names)]
    probabilities = np.ones(len(numbers))
    if "probability" in table.names:
        probabilities = np.array(_column_of(table, "probability", _probability))
    _check(path, numbers, probabilities)
    order = np.argsort(numbers, kind="stable")
    return Choices(str(path), numbers[order], np.array(labels, np.int64)[order], probabilities[order])


def _column_of(table: Table, name: str, convert: Callable[[Any, str], Any]) -> list[Any]:
    found = []
    for place, value in zip(table.places, table.column(name), strict=True):
        try:
            found.append(convert(value, name))
        except RowError as error:
            raise FileError(table.path, place, str(error)) from None
    return found


def _number_of_round(value: Any, field: str) -> int:
    number = checked_number(value, field)
    if number != int(number) or not 0 <= number < _MOST_ROUNDS:
        raise RowError(f"{field}: got {value!r}; must be the number of a round")
    return int(number)


def _probability(value: Any, field: str) -> float:
    number = checked_number(value, field)
    if not 0.0 <= number <= 1.0:
        raise RowError(f"{field}: got {number}; must be from 0 to 1")
    return number


def _check(path: Path, numbers: IntArray, probabilities: FloatArray) -> None:
    known, places = np.unique(numbers, return_inverse=True)
    totals = np.bincount(places, probabilities, len(known))
    wrong = np.abs(totals - 1.0) > _TOLERANCE
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        reason = f"the probabilities of round {known[first]} sum to {totals[first]:g}, not to 1"
        raise FileError(path, "", reason)


Kind = Literal["served", "holdout", "uniform", "constant", "best_constant", "choices", "learner"]

FIXED: dict[str, Kind] = {"served": "served", "uniform": "uniform", "best-constant": "best_constant"}
"""The names of policies without parameters, and their kinds."""


class Specification(NamedTuple):
    """A policy that a user asks for."""

    kind: Kind
    value: str = ""  # the label of a constant, the path of choices, or the JSON of a learner

    @property
    def name(self) -> str:
        """The name of the policy in reports."""
        return f"{self.kind} {self.value}" if self.value and self.kind != "constant" else self.kind


def read_policy(text: str, model: LoggedModel) -> Specification:
    """Read the value of the option `--policy`."""
    kind, _, label = text.partition(":")
    if kind == "constant" and label:
        if model.has_actions:
            raise EvaluationError("--policy constant: a model with actions has no constant labels")
        model.label_number(label, "--policy constant")
        return Specification("constant", label)
    if text not in FIXED:
        raise EvaluationError(f"--policy {text}: must be {', '.join(FIXED)} or constant:LABEL")
    if text == "best-constant" and model.has_actions:
        raise EvaluationError("--policy best-constant: a model with actions has no constant labels")
    return Specification(FIXED[text])


def read_learner(text: str, model: LoggedModel) -> Specification:
    """Read the value of the option `--learner`: the JSON of a learner, or the name of an algorithm."""
    specification = Specification("learner", text)
    build(specification, model)
    return specification


def build(specification: Specification, model: LoggedModel) -> AnyLearner:
    """Return the learner that a policy names."""
    text = specification.value
    if model.has_actions:
        detail = "other learners of actions cannot be replayed yet: their logs lack the actions that were not chosen"
        raise EvaluationError(f"--learner: {detail}, unless log_actions is all")
    try:
        given: Any = json.loads(text) if text.lstrip().startswith(("{", "[", '"')) else {"algorithm": text}
        choice = LearnerChoice.model_validate(given)
        definition = model.model.definition
        learner = choose_learner(choice, len(definition.labels), definition.features)
    except pydantic.ValidationError as error:
        raise EvaluationError(f"--learner {text}: {error.errors()[0]['msg']}") from None
    except WagerError as error:
        raise EvaluationError(f"--learner {text}: {error.field}: {error.detail}") from None
    except ValueError as error:
        raise EvaluationError(f"--learner {text}: is not JSON: {error}") from None
    if is_structured(learner):
        raise EvaluationError(f"--learner {text}: answers sets or rankings; the log has single labels")
    return learner
