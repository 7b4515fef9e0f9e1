"""Answers of models with actions: the position of a candidate in its request."""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from service.actions.definition import MOST_ACTIONS
from service.actions.vectors import ActionVectors
from service.input_errors import WrongTruthError
from service.models.answer_kinds import Shown
from service.schemas.plain_bodies import GivenFeedback
from service.store.records.answer_codec import label_codec


class Actions:
    """One of the actions of the request. Their ids are stored with each prediction.

    Args:
        vectors: the model's vectors.
    """

    truth_field = "correct"
    has_distribution = True
    choices: int | None = None
    form = label_codec(MOST_ACTIONS)
    numbers: Mapping[str, int] = {}

    def __init__(self, vectors: ActionVectors) -> None:
        self._vectors = vectors

    @property
    def table_bytes(self) -> int:
        """The memory of the caches of features."""
        return self._vectors.cache_bytes

    def show(self, outputs: npt.NDArray[Any]) -> list[Shown]:
        """Return the positions: the caller knows the ids."""
        return [Shown(str(position), None) for position in outputs.tolist()]

    def read(self, feedback: GivenFeedback) -> bytes | None:
        """See `Answers.read`. There is no truth."""
        if feedback.true_label is None and feedback.true_labels is None:
            return None
        field = "true_labels" if feedback.true_label is None else "true_label"
        raise WrongTruthError("the model chooses among the actions of each request; send correct instead", field)
