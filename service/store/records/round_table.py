"""A table of log rounds, and the checks of its numbers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, IntArray
from service.prediction_id import MOST_TOKENS, SINGLE
from service.store.records.codecs import AnswerCodec
from service.store.records.outcomes import MOST_ROUNDS, Numbers, faults, holds

Table = np.ndarray[Any, Any]
"""A structured array with a row for each round or prediction; for rounds, usually with the columns of `row_dtype`."""


class RawRounds(NamedTuple):
    """n rounds: their table, and their other parts, still encoded."""

    table: Table
    contexts: bytes  # the encoded contexts, joined
    offsets: IntArray  # (n + 1,), the start of each context, and the end
    masks: Sequence[bytes]  # (n,), the masks of eligible labels; b"" if all were eligible
    sent: Sequence[bytes]  # (n,), the JSON of the contexts; b"" if not stored
    actions: Sequence[bytes]  # (n,), the encoded actions; b"" if there are none
    prices: FloatArray  # (n, 2), the weight of costs and the cost of the answer; (n, 0) if no round has them
    costs: Sequence[bytes]  # (n,), the costs of all labels; b"" if the request gave none


def row_dtype(answers: AnswerCodec, evidence_size: int) -> np.dtype[np.void]:
    """Return the dtype of a table of rounds."""
    return np.dtype(
        [
            ("kind", "u1"),  # FEEDBACK or EXPIRED
            ("reward", "<f8"),
            ("feedback_at", "<f8"),
            ("round", "<i8"),
            ("truth", answers.dtype),
            ("token", "<i8"),
            ("output", answers.dtype),
            ("propensity", "<f8"),
            ("flags", "<u2"),
            ("rounds_seen", "<i8"),
            ("changes_seen", "<u4"),
            ("labels", "<u4"),  # see `layout.SEEN`
            ("predicted_at", "<f8"),
            ("residual_uniform", "<f8"),
            ("evidence", "<f8", (evidence_size,)),
        ]
    )


def row_faults(answers: AnswerCodec, table: Table, contexts: Contexts, eligible: BoolArray) -> list[str]:
    """Return the names of invalid numbers. Compiled updates rely on this: they use labels as unchecked indices.

    Args:
        answers: the codec of the model's answers.
        table: n rounds.
        contexts: their contexts.
        eligible: the mask of the labels eligible in each round, (n, K), or (n, 0) if all were.
    """
    reward = table["reward"]
    of_outcome: dict[str, BoolArray] = {
        "truth": answers.possible_truths(table["truth"]),
        "reward": ((reward == 1.0) == answers.equal(table["truth"], table["output"])) & (reward >= 0) & (reward <= 1),
        "number of labels": (table["labels"] >= 1) & (table["labels"] <= answers.n_labels),
        "number": (table["round"] >= 1) & (table["rounds_seen"] >= 0) & (table["rounds_seen"] <= MOST_ROUNDS),
        "token": (table["token"] >= SINGLE) & (table["token"] < MOST_TOKENS),
    }
    output, p, residual_uniform, evidence = (
        table[name] for name in ("output", "propensity", "residual_uniform", "evidence")
    )
    moments = (table["predicted_at"], table["feedback_at"])
    wrong = faults(answers, Numbers(output, p, residual_uniform, evidence, contexts, moments))
    wrong += [name for name, mask in of_outcome.items() if not holds(mask)]
    if not wrong and eligible.shape[1] and not holds(eligible[np.arange(len(table)), output]):
        wrong.append("eligible label")
    return wrong
