"""Lines of a log as input for learners."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pydantic

from learners.base import NO_LABEL, BoolArray, IntArray, Rounds
from service.contexts.registry import GivenContext
from service.models.model import Model

_CONTEXT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(GivenContext)

_LEAST = 5e-324


class Page(NamedTuple):
    """Consecutive rounds of a log."""

    first: int  # the number of the first round
    rounds: Rounds  # n; their evidence is filled in later
    seen: IntArray  # (n,), how many rounds each prediction took into account
    learned: BoolArray  # (n,), which rounds the model learned from


def page_of(model: Model, lines: Sequence[Mapping[str, Any]]) -> Page:
    """Return the lines of `GET /models/{name}/rounds`, at least one, of a model with labels.

    Raises:
        ValueError: if they do not belong to the model.
    """
    contexts = [model.contexts.check(_CONTEXT.validate_python(line["context"])) for line in lines]
    numbers, n = model.answers.numbers, len(lines)
    truths = [NO_LABEL if line["true_label"] is None else numbers[line["true_label"]] for line in lines]
    rewards = np.array([line["reward"] for line in lines], dtype=np.float64)
    rounds = Rounds(
        model.prepared(model.contexts.gather(contexts)),
        np.array([numbers[line["label"]] for line in lines], dtype=np.int64),
        np.array([line["propensity"] or _LEAST for line in lines], dtype=np.float64),
        rewards == 1.0,
        np.array(truths, dtype=np.int64),
        np.zeros((n, model.learner.evidence_size)),
        np.zeros(n),
        rewards,
        _eligible(model, lines),
    )
    seen = np.array([line["rounds_seen"] for line in lines], dtype=np.int64)
    frozen = model.definition.mode == "frozen"
    learned = np.array([not (line["holdout"] or frozen) for line in lines], dtype=np.bool_)
    return Page(int(lines[0]["round"]), rounds, seen, learned)


def _eligible(model: Model, lines: Sequence[Mapping[str, Any]]) -> BoolArray:
    """Return the eligible labels, (n, K); (n, 0) if all are in every line."""
    if all(line["eligible"] is None for line in lines):
        return np.ones((len(lines), 0), np.bool_)
    eligible, numbers = np.ones((len(lines), len(model.definition.labels)), np.bool_), model.answers.numbers
    for i, line in enumerate(lines):
        if line["eligible"] is not None:
            eligible[i] = False
            eligible[i, [numbers[label] for label in line["eligible"]]] = True
    return eligible
