"""Valid ranges of a prediction's numbers, checked whenever it is read."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from learners.base import BoolArray, Contexts, FloatArray
from service.store.records.answer_codec import AnswerCodec

LATEST = 253_402_300_800.0
"""Upper limit of moments, in seconds since the epoch: the year 10000, which `datetime` cannot represent."""

MOST_ROUNDS = 2**53
"""Maximum rounds in a log, because the store's scripts count in float64."""


class Numbers(NamedTuple):
    """The numbers of n predictions."""

    outputs: npt.NDArray[Any]  # (n, ...), the answers in the stored dtype
    propensities: FloatArray  # (n,)
    residual_uniforms: FloatArray  # (n,)
    evidence: FloatArray  # (n, E)
    contexts: Contexts
    moments: tuple[FloatArray, ...]  # (n,) each: seconds since the epoch


def faults(form: AnswerCodec, numbers: Numbers) -> list[str]:
    """Return the names of the numbers that are invalid in any of the predictions."""
    return [name for name, mask in _columns(form, numbers) if not holds(mask)]


def holds(mask: BoolArray) -> bool:
    """Return whether a mask (n,) is true everywhere. For few rows, this takes a tenth of the time of `mask.all()`."""
    return all(mask.tolist())


def _columns(form: AnswerCodec, numbers: Numbers) -> Iterator[tuple[str, BoolArray]]:
    outputs, p, residual_uniforms, evidence, contexts, moments = numbers
    yield "output", form.possible(outputs)
    yield "propensity", (p > 0.0) & (p <= 1.0)
    yield "residual_uniform", (residual_uniforms >= 0.0) & (residual_uniforms < 1.0)
    yield "evidence", np.logical_and.reduce(np.isfinite(evidence), axis=1)
    yield "context", _finite_rows(contexts)
    for moment in moments:
        yield "moment", (moment >= 0.0) & (moment < LATEST)


def _finite_rows(contexts: Contexts) -> BoolArray:
    finite, rows = np.isfinite(contexts.values), np.full(contexts.n, True)
    if not np.logical_and.reduce(finite):
        rows[np.searchsorted(contexts.starts, np.flatnonzero(~finite), side="right") - 1] = False
    return rows
