"""The optional parts of predictions and rounds: eligible labels, the client's JSON of contexts, actions, and prices."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import BoolArray, Contexts, FloatArray, IntArray
from service.store.records.layout import GIVEN_COST
from service.store.records.round_table import Table

GIVEN_COSTS = GIVEN_COST.dtype()  # of the label with this number, and its cost
ANOTHERS = -1.0  # the weight of costs of an answer that another policy gave, as in an import


class OptionalFields(NamedTuple):
    """The optional parts of n predictions or rounds. A part is empty if none of them has it."""

    eligible: BoolArray = np.ones((0, 0), np.bool_)  # (n, K), or (n, 0) if every label was eligible
    sent: Sequence[bytes] = ()  # (n,), the JSON of each context, unless it can be restored from the numbers
    actions: Sequence[bytes] = ()  # (n,), the encoded actions of each request
    prices: FloatArray = np.empty((0, 0))  # (n, 2), the weight of costs (`ANOTHERS`) and the cost; NaN for no price
    costs: Sequence[bytes] = ()  # (n,), the costs that the requests gave, as `GIVEN_COSTS`


NO_OPTIONAL_FIELDS = OptionalFields()


class LogRows(NamedTuple):
    """n rounds of the log."""

    table: Table  # (n,)
    contexts: Contexts  # the n contexts as stored, before the norm policy
    parts: OptionalFields

    def row(self, i: int) -> "LogRows":
        """Return round i alone."""
        some = slice(i, i + 1)
        parts = OptionalFields(*[part[some] for part in self.parts])  # type: ignore[arg-type]
        return LogRows(self.table[some], self.contexts.rows(i, i + 1), parts)


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


def are_possible(prices: FloatArray, costs: Sequence[bytes], labels: IntArray) -> bool:
    """Check the prices (n, 2) and costs of n rounds with these numbers of labels, (n,). NaN means that one has none."""
    if not prices.size:
        return True
    weights, paid = prices[~np.isnan(prices).all(axis=1)].T
    given, sizes = np.frombuffer(b"".join(costs), GIVEN_COSTS), np.array(list(map(len, costs))) // GIVEN_COSTS.itemsize
    return bool(
        ((weights >= 0.0) | (weights == ANOTHERS)).all()
        and (weights < np.inf).all()
        and ((paid >= 0.0) & (paid < np.inf)).all()
        and (given["label"] < np.repeat(labels, sizes)).all()
        and ((given["cost"] >= 0.0) & (given["cost"] < np.inf)).all()
    )
