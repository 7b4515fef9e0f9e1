"""Rounds of the log as a table, whatever version wrote them, and what its numbers may be."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from learners.base import BoolArray, Contexts, IntArray
from service.prediction_id import MOST_TOKENS, SINGLE
from service.store.records.answer_codec import AnswerCodec
from service.store.records.soundness import MOST_ROUNDS, Numbers, faults

Table = np.ndarray[Any, Any]
"""A row for each round, with the columns of `row_dtype`."""


class RawRounds(NamedTuple):
    """n rounds as they are stored: their table, and the bytes of their contexts."""

    table: Table
    contexts: bytes  # all of them, joined
    offsets: IntArray  # (n + 1,), where each begins, and the end


class RoundReader(Protocol):
    """Reads the rounds that one version wrote."""

    def bounds(self, payload: bytes) -> list[int]:
        """Return where each round of an entry begins, and the end.

        Raises:
            StoreCorruptError: if the entry cannot be split.
        """

    def read(self, payloads: Sequence[bytes]) -> RawRounds:
        """Return the rounds of entries, which follow each other.

        Raises:
            StoreCorruptError: if one of them is damaged, or of another model.
            NewerVersionError: if one of them is whole, and has what this version does not know.
        """


def row_dtype(answers: AnswerCodec, evidence_size: int) -> np.dtype[np.void]:
    """Return the columns of a table."""
    return np.dtype(
        [
            ("correct", "u1"),
            ("feedback_at", "<f8"),
            ("round", "<i8"),
            ("truth", answers.dtype),
            ("token", "<i8"),
            ("output", answers.dtype),
            ("propensity", "<f8"),
            ("rounds_seen", "<i8"),
            ("predicted_at", "<f8"),
            ("residual_uniform", "<f8"),
            ("evidence", "<f8", (evidence_size,)),
        ]
    )


def row_faults(answers: AnswerCodec, table: Table, contexts: Contexts) -> list[str]:
    """Return the names of numbers that would lead a learner astray: labels become indices in compiled updates."""
    right = table["correct"]
    of_outcome: dict[str, BoolArray] = {
        "truth": answers.possible_truths(table["truth"]),
        "bit": (right == answers.equal(table["truth"], table["output"])) & (right <= 1),
        "number": (table["round"] >= 1) & (table["rounds_seen"] >= 0) & (table["rounds_seen"] <= MOST_ROUNDS),
        "token": (table["token"] >= SINGLE) & (table["token"] < MOST_TOKENS),
    }
    output, p, residual_uniform, evidence = (
        table[name] for name in ("output", "propensity", "residual_uniform", "evidence")
    )
    moments = (table["predicted_at"], table["feedback_at"])
    wrong = faults(answers, Numbers(output, p, residual_uniform, evidence, contexts, moments))
    return [*wrong, *(name for name, mask in of_outcome.items() if not mask.all())]
