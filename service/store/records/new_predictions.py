"""Predictions that are not yet stored, and the encoding of their bodies."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import BoolArray, Contexts, FloatArray
from service.store.records.answer_codec import AnswerCodec
from service.store.records.context_codec import ContextCodec
from service.store.records.layout import (
    ANSWERED,
    BODY,
    ELIGIBLE,
    EVIDENCE,
    HOLDOUT,
    SIZES,
    SIZES_GIVEN,
    check_of,
)
from service.store.records.parts import NO_PARTS, Parts, packed_masks
from service.store.records.round_table import Table


class NewPredictions(NamedTuple):
    """n predictions made together and not yet stored."""

    outputs: npt.NDArray[Any]  # (n, ...), the answers in the stored dtype
    propensities: FloatArray  # (n,)
    residual_uniforms: FloatArray  # (n,), of the draws
    evidence: FloatArray  # (n, E), of the decisions
    contexts: Contexts  # as sent, or a vector of what was sent
    predicted_at: FloatArray | float  # (n,), or one for all: seconds since the epoch
    expires_at: float
    rounds_seen: int
    changes_seen: int = 0
    parts: Parts = NO_PARTS
    holdout: BoolArray | None = None  # (n,), which are for evaluation only; None for none
    inactive: BoolArray | None = None  # (n,), which must be activated before feedback; None for none


class BodyEncoder:
    """Encodes the bodies of one model's predictions.

    Args:
        answers: the codec of its answers.
        evidence_size: E.
        contexts: the codec of its contexts.
    """

    def __init__(self, answers: AnswerCodec, evidence_size: int, contexts: ContextCodec) -> None:
        self._n_labels, self._contexts = answers.n_labels, contexts
        answered, evidence = ANSWERED.dtype(answers.dtype), ("evidence", "<f8", (evidence_size,))
        self._skipped = answered.itemsize
        core = [("answered", answered), ("body", BODY.dtype())]
        self._with_sizes = np.dtype([*core, ("sizes", SIZES.dtype()), evidence])
        self._whole = np.dtype([*core, evidence, ("context", f"V{contexts.fixed_bytes or 0}")])

    def size(self, contexts: Contexts, parts: Parts) -> int:
        """Return the approximate bytes of the bodies of n predictions."""
        fixed, each = self._contexts.fixed_bytes, self._whole if self._is_whole(parts) else self._with_sizes
        fields = contexts.n * (each.itemsize - self._skipped)
        if each is self._whole:
            return fields
        in_contexts = int(self._contexts.encode(contexts)[1][-1]) if fixed is None else contexts.n * fixed
        masks = contexts.n * (parts.eligible.shape[1] // 8)
        total: int = fields + in_contexts + masks + sum(map(len, [*parts.sent, *parts.actions]))
        return total

    def _is_whole(self, parts: Parts) -> bool:
        """Return whether bodies have the same parts with the same sizes."""
        varies = parts.eligible.shape[1] or parts.sent or parts.actions
        return self._contexts.fixed_bytes is not None and not varies

    def encode(self, predictions: NewPredictions) -> tuple[list[bytes], list[int]]:
        """Return the body of each prediction, and its check."""
        contexts, offsets = self._contexts.encode(predictions.contexts)
        parts, n = predictions.parts, len(predictions.outputs)
        rows, rest = np.zeros(n, self._whole if self._is_whole(parts) else self._with_sizes), [b""] * n
        self._put_numbers(rows, predictions)
        if rows.dtype is self._whole:
            rows["context"] = np.frombuffer(contexts, rows["context"].dtype)
        else:
            rows["sizes"]["context_bytes"] = np.diff(offsets)
            rest = _with_parts(rows, [contexts[begin:end] for begin, end in pairwise(offsets.tolist())], parts)
        encoded, size, skipped = rows.tobytes(), rows.itemsize, self._skipped
        pieces = [(at, at + size, after) for at, after in zip(range(0, len(encoded), size), rest, strict=True)]
        bodies = [encoded[begin + skipped : end] + after for begin, end, after in pieces]
        return bodies, [check_of(encoded[begin:end], after) for begin, end, after in pieces]

    def _put_numbers(self, rows: Table, predictions: NewPredictions) -> None:
        """Fill in all columns but the parts."""
        answered, body, rows["evidence"] = rows["answered"], rows["body"], predictions.evidence
        answered["output"], answered["propensity"] = predictions.outputs, predictions.propensities
        answered["rounds_seen"], answered["changes_seen"] = predictions.rounds_seen, predictions.changes_seen
        answered["labels"], body["flags"] = self._n_labels, EVIDENCE
        body["predicted_at"], body["residual_uniform"] = predictions.predicted_at, predictions.residual_uniforms
        if predictions.holdout is not None:
            body["flags"][predictions.holdout] |= HOLDOUT


def _with_parts(rows: Table, contexts: Sequence[bytes], parts: Parts) -> list[bytes]:
    """Return what follows the evidence in each body; set the flags and sizes of the parts."""
    rows["body"]["flags"] |= SIZES_GIVEN
    nothing = [b""] * len(contexts)
    masks = packed_masks(parts.eligible) if parts.eligible.shape[1] else nothing
    sent, actions = parts.sent or nothing, parts.actions or nothing
    if masks is not nothing:
        rows["body"]["flags"] |= ELIGIBLE
    rows["sizes"]["sent_bytes"], rows["sizes"]["actions_bytes"] = list(map(len, sent)), list(map(len, actions))
    return [b"".join(each) for each in zip(masks, contexts, sent, actions, strict=True)]
