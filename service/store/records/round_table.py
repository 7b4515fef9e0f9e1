"""A table of log rounds, independent of the version that wrote them, and the checks of its numbers."""

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
    """n rounds: their table, and their contexts, not yet decoded."""

    table: Table
    contexts: bytes  # the encoded contexts, joined
    offsets: IntArray  # (n + 1,), the start of each context, and the end


class RoundReader(Protocol):
    """Reads rounds written by one version."""

    def bounds(self, payload: bytes) -> list[int]:
        """Return the start of each round in an entry, and the end.

        Raises:
            StoreCorruptError: if the entry cannot be split.
        """

    def read(self, payloads: Sequence[bytes]) -> RawRounds:
        """Read the rounds of consecutive entries.

        Raises:
            StoreCorruptError: if a round is damaged, or belongs to another model.
            NewerVersionError: if a round is intact, but has parts or an outcome that this version does not support.
        """


def row_dtype(answers: AnswerCodec, evidence_size: int) -> np.dtype[np.void]:
    """Return the dtype of a table of rounds."""
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
    """Return the names of columns with invalid numbers. Compiled updates use labels as indices without checks."""
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
