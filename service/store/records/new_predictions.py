"""Predictions that are not yet stored, and their encoding."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from operator import add
from typing import NamedTuple

import numpy as np

from learners.base import BoolArray, Contexts, FloatArray, IntArray
from service.store.records.codecs import AnswerCodec, ContextCodec
from service.store.records.layout import (
    ANSWERED,
    BODY,
    CHECK,
    ELIGIBLE,
    EVIDENCE,
    FOREIGN,
    GIVEN_COST,
    HEAD,
    HOLDOUT,
    INACTIVE,
    OPEN_COUNT,
    OUTCOME,
    PREDICTION,
    PRICE,
    PRICED,
    SIZES,
    SIZES_GIVEN,
    VERSION,
    check_of,
)
from service.store.records.optional_fields import NO_OPTIONAL_FIELDS, OptionalFields, packed_masks

BLOCK_BYTES = 16_384
"""Approximate maximum bytes of a block with several predictions; feedback for a prediction reads its whole block."""

_HEAD, _CHECK, _OPEN_COUNT = HEAD.struct(), CHECK.struct(), OPEN_COUNT.struct()
_BODY, _SIZES, _PRICE, _KIND_AT = BODY.struct(), SIZES.struct(), PRICE.struct(), OUTCOME.place("kind")


class NewPredictions(NamedTuple):
    """n predictions made together and not yet stored."""

    outputs: IntArray  # (n,) or (n, K), the answers of the learner
    propensities: FloatArray  # (n,)
    residual_uniforms: FloatArray  # (n,), see `learners.base.Rounds`
    evidence: FloatArray  # (n, E), computed when the answers were chosen
    contexts: Contexts  # before the norm policy; n, or fewer if each belongs to equally many consecutive predictions
    predicted_at: FloatArray | float  # (n,), or one moment for all, in seconds since the epoch
    expires_at: float
    rounds_seen: int
    changes_seen: int = 0
    digest: bytes = b""  # of the history up to these changes
    parts: OptionalFields = NO_OPTIONAL_FIELDS
    holdout: BoolArray | None = None  # (n,), the mask of those not to learn from; None for none
    is_foreign: bool = False  # whether other policies than the model's and its holdout's chose the answers
    inactive: BoolArray | None = None  # (n,), the mask of those that need activation before feedback; None for none
    released_at: int = 0  # see the function `released_at`; unused if the predictions are never stored


def released_at(now: float, keep_seconds: float) -> int:
    """Return when the store drops predictions made now, in seconds since the epoch.

    The moment is rounded up by at most 1 s or 1/32 of `keep_seconds`, whichever is longer, so that the open predictions
    of a model that are kept equally long have at most 66 such moments at a time.
    """
    width = _step(keep_seconds)
    return math.ceil((now + keep_seconds) / width) * width


@lru_cache(maxsize=1024)  # models have few different windows
def _step(keep_seconds: float) -> int:
    """Return the smallest power of two that is at least 1 and at least 1/64 of `keep_seconds`."""
    return 1 << (max(1, math.ceil(keep_seconds / 64)) - 1).bit_length()


class BlockEncoder:
    """Encodes one model's predictions as blocks. Uses `struct`, not numpy, because most blocks have few predictions."""

    def __init__(self, answers: AnswerCodec, evidence_size: int, contexts: ContextCodec) -> None:
        self._answers, self._contexts = answers, contexts
        self._n_labels, self._answer_bytes = answers.n_labels, answers.dtype.itemsize
        self._evidence_bytes = 8 * evidence_size
        self._prediction, self._answered = PREDICTION.struct(self._answer_bytes), ANSWERED.struct(self._answer_bytes)
        self._outcome_bytes = OUTCOME.dtype(answers.dtype).itemsize

    def bounds(self, contexts: Contexts, parts: OptionalFields) -> list[int]:
        """Divide n predictions, one per context, into blocks of limited size. Return the start of each block, and n."""
        n, fixed = contexts.n, self._contexts.fixed_bytes
        each = self._outcome_bytes + self._prediction.size + _BODY.size + self._evidence_bytes
        total = n * (each + (0 if self._is_whole(parts) else _SIZES.size) + parts.eligible.shape[1] // 8)
        total += sum(map(len, self._contexts.encode(contexts))) if fixed is None else n * fixed
        total += sum(map(len, parts.sent)) + sum(map(len, parts.actions)) + sum(map(len, parts.costs))
        total += len(parts.prices) * _PRICE.size
        blocks = min(n, -(-total // BLOCK_BYTES))
        return [n * i // blocks for i in range(blocks + 1)]

    def _is_whole(self, parts: OptionalFields) -> bool:
        """Check whether bodies need no SIZES: they have only evidence and a context of fixed size."""
        varies = parts.eligible.shape[1] or parts.sent or parts.actions
        return self._contexts.fixed_bytes is not None and not varies

    def encode(
        self, predictions: NewPredictions, bounds: Sequence[int], tokens: Sequence[int], fingerprints: Sequence[bytes]
    ) -> list[bytes]:
        """Return the record of each block: see `RecordFormat.encode_blocks`."""
        heads, tails = self._bodies(predictions)
        size, moments = self._answer_bytes, (predictions.expires_at, predictions.released_at, self._answers.abstention)
        seen = predictions.rounds_seen, predictions.changes_seen, self._n_labels, predictions.digest
        answers, propensities = self._answers.encode(predictions.outputs), predictions.propensities.tolist()
        answered, prediction, blocks = self._answered.pack, self._prediction.pack, list[bytes]()
        for fingerprint, (start, stop) in zip(fingerprints, pairwise(bounds), strict=True):
            varying = _count_varying(tails[start:stop]) if stop - start > 1 else len(tails[start])
            common = b"".join(tails[start][varying:])
            bodies = [heads[i] + b"".join(tails[i][:varying]) for i in range(start, stop)]
            head = VERSION, stop - start, 0, size, len(common), fingerprint, *moments, *seen
            checked, end = _HEAD.pack(*head), 0
            for i, body in enumerate(bodies, start):
                answer, p, end = answers[i], propensities[i], end + len(body)
                check = check_of(answered(p, answer, *seen) + body + common)
                checked += prediction(end, tokens[i], check, p, answer)
            counts = _CHECK.pack(check_of(checked)) + _OPEN_COUNT.pack(stop - start)
            blocks.append(b"".join((checked, counts, self._outcomes(predictions, start, stop), *bodies, common)))
        return blocks

    def _bodies(self, predictions: NewPredictions) -> tuple[list[bytes], Sequence[tuple[bytes, ...]]]:
        """Return the beginning of each body, and the parts that follow it: context, actions and JSON."""
        parts, residuals, size = predictions.parts, predictions.residual_uniforms.tolist(), self._evidence_bytes
        contexts, nothing = self._contexts.encode(predictions.contexts), [b""] * len(residuals)
        slots = len(residuals) // len(contexts)
        contexts = [context for context in contexts for _ in range(slots)] if slots > 1 else contexts
        tails = [*zip(contexts, parts.actions or nothing, parts.sent or nothing, strict=True)]
        whole, at, held_out = self._is_whole(parts), predictions.predicted_at, predictions.holdout
        flags = EVIDENCE | FOREIGN * predictions.is_foreign
        flags |= (0 if whole else SIZES_GIVEN) | (ELIGIBLE if parts.eligible.shape[1] else 0)
        moments = at.tolist() if isinstance(at, np.ndarray) else [at] * len(residuals)
        own = [flags] * len(residuals) if held_out is None else [flags | HOLDOUT * held for held in held_out.tolist()]
        prices = _priced(parts)
        own = [each | PRICED * bool(price) for each, price in zip(own, prices, strict=True)] if prices else own
        heads = list(map(_BODY.pack, own, moments, residuals))
        if not whole:
            heads = [head + _SIZES.pack(*map(len, tail)) for head, tail in zip(heads, tails, strict=True)]
        if prices:
            heads = list(map(add, heads, prices))
        if size:
            evidence = predictions.evidence.tobytes()
            heads = [head + evidence[i * size : (i + 1) * size] for i, head in enumerate(heads)]
        if flags & ELIGIBLE:
            heads = list(map(add, heads, packed_masks(parts.eligible)))
        return heads, tails

    def _outcomes(self, predictions: NewPredictions, start: int, stop: int) -> bytearray:
        """Return the joined outcomes of a block's new predictions, which are open or inactive."""
        outcomes = bytearray((stop - start) * self._outcome_bytes)
        if predictions.inactive is None:
            return outcomes
        for i in np.flatnonzero(predictions.inactive[start:stop]).tolist():
            outcomes[i * self._outcome_bytes + _KIND_AT] = INACTIVE
        return outcomes


def _priced(parts: OptionalFields) -> list[bytes]:
    """Encode the price of each prediction; b"" for one without."""
    costs, prices = parts.costs or [b""] * len(parts.prices), parts.prices.tolist()
    encoded = [_PRICE.pack(*row, len(own) // GIVEN_COST.size) + own for row, own in zip(prices, costs, strict=True)]
    return [b"" if math.isnan(row[0]) else price for row, price in zip(prices, encoded, strict=True)]


def _count_varying(tails: Sequence[tuple[bytes, ...]]) -> int:
    """Return how many leading parts to store with each prediction; the others are the same in the whole block."""
    first = tails[0]
    varying = len(first)
    while varying and all([tail[varying - 1] == first[varying - 1] for tail in tails]):
        varying -= 1
    return varying
