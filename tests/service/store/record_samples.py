"""Hypothesis strategies for predictions of any shape and kind of answer, and the rounds that feedback makes of them."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from learners.base import Contexts, FloatArray
from service.prediction_id import tokens_of
from service.store.records.codecs import AnswerCodec, DenseCodec, label_codec, label_set_codec, ranking_codec
from service.store.records.new_predictions import NewPredictions
from service.store.records.records import RecordFormat
from tests.service.store.samples import as_round

LAWS = settings(deadline=None, derandomize=True, max_examples=100)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.floats(0.0, 2.5e11)
COUNTS = st.integers(0, 2**53)
FINGERPRINTS = st.binary(min_size=16, max_size=16)
LABELS = 2**31 - 1
FORMS: list[tuple[AnswerCodec, st.SearchStrategy[Any]]] = [
    (label_codec(LABELS), st.integers(0, LABELS - 1)),
    (label_set_codec(3), st.lists(st.integers(0, 1), min_size=3, max_size=3)),
    (ranking_codec(4), st.permutations(range(4))),
]
UNKNOWN = -1


def encoded_answer(form: AnswerCodec, answer: Any) -> bytes:
    """Encode one answer; -1 means an unknown truth."""
    rows = np.full((1, *form.dtype.shape), answer, dtype=np.int64)
    return form.encode(rows)[0]


class Sample(NamedTuple):
    """Predictions as a session passes them to the store, with their model's format."""

    form: AnswerCodec
    format: RecordFormat
    answers: list[Any]
    truth: Any  # an answer, or UNKNOWN
    made: NewPredictions
    bounds: list[int]
    fingerprints: list[bytes]

    def encoded(self) -> list[bytes]:
        """Encode the blocks."""
        return self.format.encode_blocks(self.made, self.bounds, tokens_of(self.bounds, "secret"), self.fingerprints)


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    """Draw up to four predictions of any shape and kind of answer, with any finite numbers, in any blocks."""
    n, E, d = draw(st.integers(1, 4)), draw(st.integers(0, 3)), draw(st.integers(1, 4))
    numbers = np.array(draw(st.lists(FLOATS, min_size=n * (d + E), max_size=n * (d + E)))).reshape(n, d + E)
    form, answer = draw(st.sampled_from(FORMS))
    answers, truth = draw(st.lists(answer, min_size=n, max_size=n)), draw(answer | st.just(UNKNOWN))
    chance = st.floats(0.0, 1.0, exclude_min=True)
    probabilities, residual_uniforms = (
        np.array(draw(st.lists(chance, min_size=n, max_size=n))),
        np.linspace(0.0, 0.9, n),
    )
    contexts, (now, expires_at), seen = Contexts.dense(numbers[:, :d]), draw(st.tuples(MOMENTS, MOMENTS)), draw(COUNTS)
    made = NewPredictions(
        form.rows(np.array(answers)),
        probabilities,
        residual_uniforms,
        numbers[:, d:],
        contexts,
        now,
        expires_at,
        seen,
        1,
    )
    bounds = [0, *sorted(draw(st.sets(st.integers(1, n - 1)) if n > 1 else st.just(set()))), n]
    fingerprints = draw(st.lists(FINGERPRINTS, min_size=len(bounds) - 1, max_size=len(bounds) - 1))
    return Sample(form, RecordFormat(form, E, DenseCodec(d)), answers, truth, made, bounds, fingerprints)


def plain_sample(
    form: AnswerCodec, shape: RecordFormat, answer: Any, numbers: FloatArray, evidence: FloatArray
) -> Sample:
    """Return correct predictions of one answer, each with propensity 1/3, in one block."""
    n = len(numbers)
    outputs, residual_uniforms = form.rows(np.array([answer] * n)), np.linspace(0.0, 0.9, n)
    made = NewPredictions(outputs, np.full(n, 1 / 3), residual_uniforms, evidence, Contexts.dense(numbers), 0.1, 0.1, 1)
    return Sample(form, shape, [answer] * n, answer, made, [0, n], [bytes(16)])


def as_rounds(sample: Sample) -> list[bytes]:
    """Return the rounds that add_feedback.lua makes of the predictions."""
    truth, encoded, rounds = encoded_answer(sample.form, sample.truth), sample.encoded(), list[bytes]()
    for record, (start, stop) in zip(encoded, pairwise(sample.bounds), strict=True):
        for i in range(stop - start):
            correct = bool(sample.truth == sample.answers[len(rounds)])
            rounds.append(as_round(record, i, (correct, float(sample.made.predicted_at), len(rounds) + 1), truth))
    return rounds
