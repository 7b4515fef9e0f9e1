"""The policies that a user requests."""

from pathlib import Path
from typing import Literal, NamedTuple

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
from toolkit.files.options import learner_in
from toolkit.files.rows import RowError, checked_number
from toolkit.files.tables import Table, read_table

_TOLERANCE = 1e-6
_MOST_ROUNDS = 2**53 - 1


class Choices(NamedTuple):
    """The policy in a file: in round `numbers[i]`, it answers `labels[i]` with probability `probabilities[i]`."""

    path: str
    numbers: IntArray  # (m,) int64, not decreasing
    labels: IntArray  # (m,) int64
    probabilities: FloatArray  # (m,) float64

    def distributions(self, rounds: LoggedRounds, n_labels: int) -> FloatArray:
        """Return the distribution of each round, (n, K). Raises `EvaluationError` if the choices do not fit the log."""
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
    """Read a file of choices, with the columns `round`, `label` and optionally `probability`, which is 1 by default."""
    if model.has_actions:
        raise EvaluationError(f"--choices {path}: a model with actions has no labels to choose from")
    table = read_table(path)
    numbers = _numbers(table, "round", _MOST_ROUNDS, "the number of a round").astype(np.int64)
    names, places = table.column("label"), table.places
    labels = [model.label_number(str(name), f"{path}: {places[row]}: label") for row, name in enumerate(names)]
    probabilities = np.ones(len(numbers))
    if "probability" in table.names:
        probabilities = _numbers(table, "probability", 1, "from 0 to 1")
    known, rounds = np.unique(numbers, return_inverse=True)
    totals = np.bincount(rounds, probabilities, len(known))
    if (wrong := np.flatnonzero(np.abs(totals - 1.0) > _TOLERANCE)).size:
        i = wrong[0]
        raise FileError(path, "", f"the probabilities of round {known[i]} sum to {totals[i]:g}, not to 1")
    order = np.argsort(numbers, kind="stable")
    return Choices(str(path), numbers[order], np.array(labels, np.int64)[order], probabilities[order])


def _numbers(table: Table, name: str, most: int, words: str) -> FloatArray:
    """Return a column of numbers from 0 to `most`; they must be integers unless `most` is 1."""
    found = []
    for place, value in zip(table.places, table.column(name), strict=True):
        try:
            number = checked_number(value, name)
        except RowError as error:
            raise FileError(table.path, place, str(error)) from None
        if not 0 <= number <= most or (most > 1 and number != int(number)):
            raise FileError(table.path, place, f"{name}: got {number}; must be {words}")
        found.append(number)
    return np.array(found, np.float64)


Kind = Literal["served", "holdout", "uniform", "constant", "best_constant", "choices", "learner"]

FIXED: dict[str, Kind] = {"served": "served", "uniform": "uniform", "best-constant": "best_constant"}
"""The names of policies without parameters, and their kinds."""


class Specification(NamedTuple):
    """A policy that a user requests."""

    kind: Kind
    value: str = ""  # the label of a constant, the path of choices, or the value of `--learner`

    @property
    def name(self) -> str:
        """The name of the policy in reports."""
        return f"{self.kind} {self.value}" if self.value and self.kind != "constant" else self.kind


def read_policy(text: str, model: LoggedModel) -> Specification:
    """Read the value of the option `--policy`. Raises `EvaluationError`."""
    kind, _, label = text.partition(":")
    is_constant = kind == "constant" and label
    if not is_constant and text not in FIXED:
        raise EvaluationError(f"--policy {text}: must be {', '.join(FIXED)} or constant:LABEL")
    if (is_constant or text == "best-constant") and model.has_actions:
        raise EvaluationError(f"--policy {kind}: a model with actions has no constant labels")
    if is_constant:
        model.label_number(label, "--policy constant")
        return Specification("constant", label)
    return Specification(FIXED[text])


def read_learner(text: str, model: LoggedModel) -> Specification:
    """Read the value of the option `--learner`: the JSON of a learner, or the name of its algorithm."""
    build(text, model)
    return Specification("learner", text)


def build(text: str, model: LoggedModel) -> AnyLearner:
    """Build the learner that a value of `--learner` describes. Raises `EvaluationError` if it cannot learn the log."""
    if model.has_actions:
        raise EvaluationError("--learner: learners of actions cannot be replayed yet")
    definition = model.model.definition
    try:
        learner = choose_learner(
            LearnerChoice.model_validate(learner_in(text)), len(definition.labels), definition.features
        )
    except pydantic.ValidationError as error:
        raise EvaluationError(f"--learner {text}: {error.errors()[0]['msg']}") from None
    except WagerError as error:
        raise EvaluationError(f"--learner {text}: {error.field}: {error.detail}") from None
    except ValueError as error:
        raise EvaluationError(f"--learner {text}: is not JSON: {error}") from None
    if is_structured(learner):
        raise EvaluationError(f"--learner {text}: answers sets or rankings; the log has single labels")
    return learner
