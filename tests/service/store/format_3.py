"""An encoder of version 3 blocks, as release 0.1.0 wrote them; the product no longer has one."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from learners.base import IntArray
from service.store.records.answer_codec import AnswerCodec
from service.store.records.context_codec import ContextCodec
from service.store.records.format_3 import BODY, HEAD, OUTCOME, PREDICTION, VERSION
from service.store.records.new_predictions import NewPredictions


def encode_blocks_3(
    answers: AnswerCodec,
    contexts: ContextCodec,
    predictions: NewPredictions,
    bounds: Sequence[int],
    tokens: IntArray,
    fingerprints: Sequence[bytes],
) -> list[bytes]:
    """Encode blocks like `RecordFormat.encode_blocks`."""
    bodies = _bodies(answers, contexts, predictions)
    ends = np.cumsum([0, *map(len, bodies)])
    heads = np.empty(len(bodies), PREDICTION.dtype(answers.dtype))
    heads["propensity"], heads["output"], heads["token"] = predictions.propensities, predictions.outputs, tokens
    size, slot, blocks = answers.dtype.itemsize, OUTCOME.dtype(answers.dtype).itemsize, []
    for fingerprint, (start, stop) in zip(fingerprints, pairwise(bounds), strict=True):
        n, rows = stop - start, heads[start:stop]
        rows["begin"], rows["end"] = ends[start:stop] - ends[start], ends[start + 1 : stop + 1] - ends[start]
        seen = (predictions.expires_at, predictions.rounds_seen)
        head = HEAD.struct().pack(VERSION, n, n, size, fingerprint, *seen)
        blocks.append(b"".join((head, bytes(n * slot), rows.tobytes(), *bodies[start:stop])))
    return blocks


def _bodies(answers: AnswerCodec, contexts: ContextCodec, predictions: NewPredictions) -> list[bytes]:
    parts, offsets = contexts.encode(predictions.contexts)
    evidence: Any = ("evidence", "<f8", predictions.evidence.shape[1:])
    fixed = np.empty(len(predictions.outputs), [("core", BODY.dtype(answers.dtype)), evidence])
    core, fixed["evidence"] = fixed["core"], predictions.evidence
    core["output"], core["propensity"] = predictions.outputs, predictions.propensities
    core["rounds_seen"], core["predicted_at"] = predictions.rounds_seen, predictions.predicted_at
    core["residual_uniform"] = predictions.residual_uniforms
    spans = zip(fixed, pairwise(offsets.tolist()), strict=True)
    return [row.tobytes() + parts[begin:end] for row, (begin, end) in spans]
