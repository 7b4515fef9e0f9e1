"""The law of requests that are checked together: `check` returns each of them as it is."""

from itertools import product
from typing import Any

import pytest

from service.choice.requests import NO_OPTIONS, Options, PredictionRequest
from service.models.model import Limits, Model, new_model
from service.per_item import map_results
from service.prediction_id import PredictionId
from service.schemas.models import ModelDefinition
from service.tuples import named_tuples
from tests.service.sample_models import LABEL_SET, RANKING, UNIFORM, definition

HOLDOUT = {"fraction": 0.1, "policy": "baseline"}
FEATURES = {"kind": "dense", "size": 3}
FIELDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "reject": {"features": FEATURES | {"norm": "reject"}},
    "no norm": {"features": FEATURES | {"norm": "none"}, "learner": UNIFORM},
    "none": {"features": {"kind": "none"}},
    "named": {"features": {"kind": "named", "size": 8}},
    "sparse": {"features": {"kind": "sparse", "size": 8}},
    "baseline": {"holdout": HOLDOUT},
    "set": {"learner": LABEL_SET},
    "ranking": {"learner": RANKING},
}
CONTEXTS: list[Any] = [[1.0, 0.5, -2.0], [0.0, 0.0, 0.0], [9e9, 1.0, 1.0], [1.0, 2.0], [], None, {}, {"a": 1.0}, "abc"]
OPTIONS = [NO_OPTIONS, Options(eligible=("red",)), Options(top=2), Options(activated=False), Options(baseline="red")]
IDS = [None, PredictionId("m", "a")]


def model_with(fields: dict[str, Any]) -> Model:
    return new_model(ModelDefinition.model_validate(definition("m", **fields)), "one", Limits(2**30, 10**12, 2**30))


@pytest.mark.parametrize("name", FIELDS)
def test_requests_that_fit_together_pass_every_check(name: str) -> None:
    model, fit = model_with(FIELDS[name]), 0
    every: list[tuple[Any, ...]] = list(product(CONTEXTS, IDS, [False, True], OPTIONS, [None, []], [None], [None]))
    first = PredictionRequest(CONTEXTS[0], None, False)
    for request in named_tuples(PredictionRequest, every):
        both = [first, request]
        if model.choice.fit_together(both):
            fit += 1
            checked = map_results(model.choice.check, both)
            assert all(found is given for found, given in zip(checked, both, strict=True))
    assert (fit > 0) == (name in {"plain", "no norm", "set"})
