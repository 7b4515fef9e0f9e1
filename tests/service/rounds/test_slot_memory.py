"""The law of a large context with many slots: memory holds it once, not once per slot."""

import tracemalloc

import numpy as np

from service.choice.requests import Options, PredictionRequest
from service.models.model import Limits, new_model
from service.rounds.deciding import Basis, chance_of, decide
from service.schemas.models import ModelDefinition
from service.store.values import Seen
from tests.service.sample_models import UNIFORM, definition

FEATURES, LABELS, SLOTS = 20_000, 400, 200


def test_slots_share_their_context_in_memory() -> None:
    """A context of 160 kB with 200 slots takes less memory than 20 copies of it."""
    labels, features = [f"label-{k}" for k in range(LABELS)], {"kind": "dense", "size": FEATURES}
    fields = definition("many-slots", labels=labels, features=features, learner=UNIFORM)
    model = new_model(ModelDefinition.model_validate(fields), "first", Limits(2**30, 10**9))
    basis = Basis(model, model.learner.init(), Seen(0, 1), 1e9, 3600.0)
    request = model.choice.check(PredictionRequest([0.5] * FEATURES, None, False, Options(top=SLOTS)))
    chance = chance_of(model, [request], np.random.default_rng(1).random)
    decide(basis, [request], chance, lambda: "a")  # kernels are loaded before the measurement
    tracemalloc.start()
    try:
        decided = decide(basis, [request], chance, lambda: "a")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(decided.records[0]) < 16 * FEATURES
    assert peak < 20 * 8 * FEATURES
