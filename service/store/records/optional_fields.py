"""The optional parts of predictions and rounds: eligible labels, the client's JSON of contexts, and actions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import BoolArray, Contexts, IntArray
from service.store.records.round_table import Table


class OptionalFields(NamedTuple):
    """The optional parts of n predictions or rounds. A part is empty if none of them has it."""

    eligible: BoolArray = np.ones((0, 0), np.bool_)  # (n, K), or (n, 0) if every label was eligible
    sent: Sequence[bytes] = ()  # (n,), the JSON of each context, unless it can be restored from the numbers
    actions: Sequence[bytes] = ()  # (n,), the encoded actions of each request


NO_OPTIONAL_FIELDS = OptionalFields()


class LogRows(NamedTuple):
    """n rounds of the log."""

    table: Table  # (n,)
    contexts: Contexts  # the n contexts as stored, before the norm policy
    parts: OptionalFields

    def row(self, i: int) -> "LogRows":
        """Return round i alone."""
        some, (eligible, sent, actions) = slice(i, i + 1), self.parts
        return LogRows(
            self.table[some], self.contexts.rows(i, i + 1), OptionalFields(eligible[some], sent[some], actions[some])
        )


def mask_bytes(labels: npt.NDArray[np.integer]) -> IntArray:
    """For each number of labels, return the size in bytes of an encoded mask of eligible labels."""
    return (labels.astype(np.int64) + 7) // 8


def packed_masks(eligible: BoolArray) -> list[bytes]:
    """Encode each row of a mask of eligible labels, (n, K), with one bit per label."""
    return [row.tobytes() for row in np.packbits(eligible, axis=1, bitorder="little")]


def unpacked_masks(masks: Sequence[bytes], labels: IntArray, n_labels: int) -> BoolArray:
    """Decode n masks. An empty one means all labels that the model had at the time of the prediction.

    Args:
        masks: the mask of each round, or b"".
        labels: (n,), the model's number of labels at each prediction.
        n_labels: K, the current number of labels.

    Returns:
        The eligible labels, (n, K); (n, 0) if every mask is empty and every prediction had all K labels.
    """
    if not any(masks) and set(labels.tolist()) <= {n_labels}:
        return np.empty((len(masks), 0), np.bool_)
    eligible = np.arange(n_labels) < labels[:, np.newaxis]
    for i, mask in enumerate(masks):
        if mask:
            bits = np.unpackbits(np.frombuffer(mask, np.uint8), count=int(labels[i]), bitorder="little")
            eligible[i, : labels[i]] = bits[:n_labels]
    return eligible
