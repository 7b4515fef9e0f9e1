"""The policies that a user asks for."""

import json
from typing import Any, Literal, NamedTuple

import pydantic

from learners.answers import is_structured
from learners.base import AnyLearner
from service.errors import WagerError
from service.evaluation.offline.columns import LoggedModel
from service.evaluation.offline.errors import EvaluationError
from service.models.learner_choice import choose_learner
from service.schemas.models import LearnerChoice

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
    """Read the value of the option `--policy`.

    Raises:
        EvaluationError: if it names no policy, or a label that the model does not have.
    """
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
    """Read the value of the option `--learner`: the JSON of a learner, or the name of an algorithm.

    Raises:
        EvaluationError: if it is neither, or does not fit the model.
    """
    specification = Specification("learner", text)
    build(specification, model)
    return specification


def build(specification: Specification, model: LoggedModel) -> AnyLearner:
    """Return the learner that a policy names.

    Raises:
        EvaluationError: as `read_learner`.
    """
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
