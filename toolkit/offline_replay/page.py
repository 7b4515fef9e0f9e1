"""Lines of a log as input for learners."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pydantic

from learners.base import NO_LABEL, BoolArray, FloatArray, IntArray, Rounds
from service.contexts.registry import GivenContext
from service.models.model import Model
from service.replicas.tails import Position
from toolkit.offline_replay.history import History

_CONTEXT: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(GivenContext)


class Page(NamedTuple):
    """Consecutive rounds of a log. K is the number of labels that the model had at the last of them."""

    first: int  # the number of the first round
    rounds: Rounds  # n; without evidence; eligible labels (n, K), or (n, 0) if each could answer each of K labels
    evidence: list[FloatArray | None]  # n; filled in when the predictions are decided again, None where unknown
    seen: list[Position]  # n; what each prediction took into account
    changes: IntArray  # (n,), how many changes of the model precede each round
    held_out: BoolArray  # (n,), which rounds the holdout answered

    @property
    def n(self) -> int:
        """The number of rounds."""
        return self.rounds.n

    def eligible(self, i: int, n_labels: int) -> BoolArray | None:
        """Return the labels that a prediction chose from, (1, n_labels); None for all."""
        masks = self.rounds.eligible
        mask: BoolArray = masks[i : i + 1, :n_labels]
        return None if mask.all() else mask

    def learnable(self, model: Model, start: int, stop: int) -> Rounds:
        """Return some rounds as input for the learner of a model, at their place in the log.

        Rounds of fewer labels get evidence 0 for the others, as in the log. So do rounds with unknown evidence.
        """
        rounds, n_labels = self.rounds.rows(start, stop), len(model.definition.labels)
        evidence = np.zeros((stop - start, model.learner.evidence_size))
        for row, found in zip(evidence, self.evidence[start:stop], strict=True):
            if found is not None:
                row[: len(found)] = found[: len(row)]
        eligible = rounds.eligible[:, :n_labels]
        if eligible.all():
            eligible = eligible[:, :0]
        return rounds._replace(evidence=evidence, eligible=eligible)


def page_of(history: History, lines: Sequence[Mapping[str, Any]]) -> Page:
    """Return the lines of `GET /models/{name}/rounds`, at least one, of a model with labels."""
    model = history.model(lines[-1]["changes"])
    contexts = [model.choice.contexts.check(_CONTEXT.validate_python(line["context"])) for line in lines]
    numbers, n = model.choice.answers.numbers, len(lines)
    truths = [NO_LABEL if line["true_label"] is None else numbers[line["true_label"]] for line in lines]
    rewards = np.array([line["reward"] for line in lines], dtype=np.float64)
    rounds = Rounds(
        model.choice.prepared(model.choice.contexts.gather(contexts)),
        np.array([numbers[line["label"]] for line in lines], dtype=np.int64),
        np.array([line["propensity"] for line in lines], dtype=np.float64),
        rewards == 1.0,
        np.array(truths, dtype=np.int64),
        np.zeros((n, 0)),
        np.zeros(n),
        rewards,
        _eligible(model, history, lines),
    )
    seen = [Position(line["rounds_seen"], line["changes_seen"]) for line in lines]
    changes = np.array([line["changes"] for line in lines], dtype=np.int64)
    held_out = np.array([line["holdout"] for line in lines], dtype=np.bool_)
    return Page(int(lines[0]["round"]), rounds, [None] * n, seen, changes, held_out)


def _eligible(model: Model, history: History, lines: Sequence[Mapping[str, Any]]) -> BoolArray:
    """Return the eligible labels, (n, K); (n, 0) if all are in every line."""
    numbers = model.choice.answers.numbers
    counts = np.array([history.label_count(line["changes_seen"]) for line in lines])
    if (counts == len(numbers)).all() and all(line["eligible"] is None for line in lines):
        return np.ones((len(lines), 0), np.bool_)
    eligible: BoolArray = np.arange(len(numbers)) < counts[:, np.newaxis]
    for i, line in enumerate(lines):
        if line["eligible"] is not None:
            eligible[i] = False
            eligible[i, [numbers[label] for label in line["eligible"]]] = True
    return eligible
