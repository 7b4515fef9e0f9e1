"""The kinds of answers: how to store and show each, and how to read the truth in feedback.

A new kind is a class here, a codec in `service.store.records.codecs`, and a line in `answers_of`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from learners.answers import AnyStructuredLearner, answer_kind, is_structured
from learners.base import AnyLearner, IntArray
from service.error_messages.values import counted, joined, shown
from service.errors import UnknownLabelError, WrongTruthError
from service.schemas.fast_decoders import FeedbackInput
from service.store.records.codecs import (
    AnswerArray,
    AnswerCodec,
    label_bytes,
    label_codec,
    label_set_codec,
    ranking_codec,
)
from service.tuples import named_tuples


class Shown(NamedTuple):
    """An answer or a truth as clients see it. One field is None, or both are if the truth is unknown."""

    label: str | None  # a label, or the id of an action
    labels: list[str] | None  # a set or a ranking of labels


_MOST_SHOWN = 10  # maximum labels that an error lists
NOTHING = Shown(None, None)  # an unknown truth


class Answers(ABC):
    """One kind of answer, for a model with K labels."""

    truth_field: str  # the field of feedback that contains the truth
    has_distribution = True  # whether the probability of every label can be listed

    def __init__(self, labels: Sequence[str], codec: AnswerCodec, choices: int | None = None) -> None:
        self._labels, self.codec = labels, codec
        self.choices = choices  # the number of possible answers if an answer is one label; else None
        self.numbers: Mapping[str, int] = {label: k for k, label in enumerate(labels)}

    @property
    def may_abstain(self) -> bool:
        """Whether choosing the last label means abstaining."""
        return self.codec.abstention > 0.0

    def abstains(self, number: int | None) -> bool:
        """Return whether choosing the label with this number means abstaining."""
        return self.may_abstain and number == len(self._labels) - 1

    def check_truth(self, number: int, field: str) -> None:
        """Raise `WrongTruthError` if the label with this number cannot be the true one."""
        if self.abstains(number):
            abstention = f"got {shown(self._labels[number])}, which represents abstaining"
            raise WrongTruthError(f"{abstention}; send the answer", field)

    @property
    def table_bytes(self) -> int:
        """The memory of `numbers` in bytes, without the labels."""
        return sys.getsizeof(self.numbers) + len(self.numbers) * sys.getsizeof(len(self.numbers))

    @abstractmethod
    def show(self, outputs: AnswerArray) -> list[Shown]:
        """Convert n answers or truths to labels; `outputs`, (n, ...), are as the codec decodes them."""

    @abstractmethod
    def read(self, feedback: FeedbackInput) -> bytes | None:
        """Return the truth in feedback, encoded; None if it has none. Raise an error if it does not fit the model."""


class SingleLabels(Answers):
    """One of the labels."""

    truth_field = "true_label"

    def show(self, outputs: AnswerArray) -> list[Shown]:
        labels = self._labels
        return named_tuples(Shown, [(labels[k], None) for k in outputs.tolist()])

    def read(self, feedback: FeedbackInput) -> bytes | None:
        if feedback.true_labels is not None:
            raise WrongTruthError("this model answers one label; send true_label instead", "true_labels")
        if feedback.true_label is None:
            return None
        try:
            number = self.numbers[feedback.true_label]
        except KeyError:
            detail = f"got {shown(feedback.true_label)}; {_known_labels(self._labels)}"
            raise UnknownLabelError(detail, "true_label") from None
        self.check_truth(number, "true_label")
        return label_bytes(number)


class LabelSets(Answers):
    """A subset of the labels; some learners can answer only certain subsets."""

    truth_field = "true_labels"

    def __init__(self, labels: Sequence[str], learner: AnyStructuredLearner) -> None:
        super().__init__(labels, label_set_codec(len(labels), learner.possible))
        self._possible_named = learner.possible_named

    def show(self, outputs: AnswerArray) -> list[Shown]:
        return [Shown(None, [self._labels[k] for k in np.flatnonzero(row).tolist()]) for row in outputs]

    def read(self, feedback: FeedbackInput) -> bytes | None:
        numbers = _different_numbers(feedback, self.numbers, "a set of labels")
        if numbers is None:
            return None
        members = np.zeros(len(self._labels), dtype=np.int64)
        members[numbers] = 1
        if not self.codec.possible(members[np.newaxis])[0]:
            raise WrongTruthError(f"got {shown(feedback.true_labels)}; must be {self._possible_named}", "true_labels")
        return self.codec.encode(members)[0]


class Rankings(Answers):
    """All labels, ranked."""

    truth_field = "true_labels"
    has_distribution = False

    def show(self, outputs: AnswerArray) -> list[Shown]:
        return [Shown(None, [self._labels[k] for k in row]) for row in outputs.tolist()]

    def read(self, feedback: FeedbackInput) -> bytes | None:
        numbers = _different_numbers(feedback, self.numbers, "a ranking of all labels")
        if numbers is None:
            return None
        if len(numbers) < len(self._labels):
            given, of_all = counted(len(numbers), "labels"), f"all {len(self._labels)} labels of the model"
            raise WrongTruthError(f"got {given}; must be a ranking of {of_all}", "true_labels")
        return self.codec.encode(numbers)[0]


class ActionAnswers(Answers):
    """The position of one of the request's actions, whose id is stored with the prediction."""

    truth_field = "correct"

    def show(self, outputs: AnswerArray) -> list[Shown]:
        """Raise `TypeError`: only the request, or the record of the prediction, contains ids."""
        raise TypeError(f"{len(outputs)} positions have no names without their requests")

    def read(self, feedback: FeedbackInput) -> bytes | None:
        if feedback.true_label is None and feedback.true_labels is None:
            return None
        field = "true_labels" if feedback.true_label is None else "true_label"
        raise WrongTruthError("the model chooses among the actions of each request; send correct instead", field)


def _different_numbers(feedback: FeedbackInput, numbers: Mapping[str, int], answer: str) -> IntArray | None:
    if feedback.true_label is not None:
        raise WrongTruthError(f"this model answers {answer}; send true_labels instead", "true_label")
    if feedback.true_labels is None:
        return None
    found: dict[int, str] = {}
    for i, label in enumerate(feedback.true_labels):
        if label not in numbers:
            raise UnknownLabelError(f"got {shown(label)}; {_known_labels(numbers)}", f"true_labels.{i}")
        if numbers[label] in found:
            raise WrongTruthError(f"got {shown(label)} twice; true labels must be unique", f"true_labels.{i}")
        found[numbers[label]] = label
    return np.array(list(found), dtype=np.int64)


def _known_labels(labels: Collection[str]) -> str:
    names = [shown(label) for label in islice(labels, _MOST_SHOWN)]
    more = len(labels) - len(names)
    return f"the model's labels are {joined([*names, *([f'{more} more'] if more else [])], 'and')}"


def answers_of(learner: AnyLearner, labels: Sequence[str]) -> Answers:
    """Return the kind of a learner's answers."""
    if not is_structured(learner):
        codec = label_codec(len(labels), learner.abstention_reward or 0.0)
        return SingleLabels(labels, codec, choices=len(labels))
    if answer_kind(learner) == "ranking":
        return Rankings(labels, ranking_codec(len(labels)))
    return LabelSets(labels, learner)
