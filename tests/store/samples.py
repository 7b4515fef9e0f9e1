"""Predictions and feedback to fill a store with."""

import numpy as np

from learners.base import Contexts
from service.store.base import Feedback, FeedbackRules, Prediction
from service.store.outputs import label_form
from service.store.records import Head, RecordFormat

NOW = 1_800_000_000.0
WINDOW = 600.0
FORMAT = RecordFormat(label_form(4), evidence_size=2, n_features=3)
STRICT = FeedbackRules(accept_late=False, label_needed=False)


def as_bytes(label: int) -> bytes:
    """A label as it is stored."""
    return label_form(4).encode(np.array([label]))[0]


def sample_predictions(*ids: str, label: int = 2) -> list[Prediction]:
    """Open predictions of that label, whose window closes WINDOW seconds after NOW."""
    heads = [Head(bytes(16), NOW + WINDOW, 7, 0.25, as_bytes(label)) for _ in ids]
    contexts = np.arange(3.0 * len(ids)).reshape(-1, 3)
    records = FORMAT.encode_predictions(heads, Contexts.dense(contexts), -contexts[:, :2], np.full(len(ids), 0.5), NOW)
    return [Prediction(*pair) for pair in zip(ids, records, strict=True)]


def feedback_for(ids: list[str], seed: int) -> list[Feedback]:
    """Right or wrong at random for each id, in random order."""
    rng = np.random.default_rng(seed)
    return [Feedback(ids[i], bool(rng.random() < 0.5), None) for i in rng.permutation(len(ids))]
