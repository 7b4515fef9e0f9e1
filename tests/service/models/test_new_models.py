"""Checks for new models only: a stored definition opens without them."""

import json
from typing import Any

import pytest

from service.errors import HyperparameterError
from service.models.model import Limits, Model, new_model
from service.models.reading import stored_model
from service.schemas.models import ModelDefinition
from service.store.stored_models import ModelKey, StoredModel, digests_of

TOO_LITTLE: list[tuple[dict[str, Any], float]] = [
    ({"algorithm": "soba", "regularization": 1e-6, "exploration": 0.02}, 30.0),
    ({"algorithm": "soba-low-rank", "regularization": 1e-6, "exploration": 0.02}, 30.0),
    ({"algorithm": "epsilon-greedy-ridge", "regularization": 1.0}, 1e4),
]


def definition_of(learner: dict[str, Any], norm_bound: float) -> dict[str, Any]:
    """Return the definition of a model with three labels and five features."""
    features = {"kind": "dense", "size": 5, "norm_bound": norm_bound}
    return {"name": "m", "labels": ["a", "b", "c"], "features": features, "learner": learner}


def opened(definition: dict[str, Any]) -> Model:
    """Open a stored definition."""
    text = json.dumps(definition)
    return stored_model(StoredModel(ModelKey("m", "one"), text, 0.0, 0, 0, 0, digests=digests_of([text])))


@pytest.mark.parametrize(("learner", "norm_bound"), TOO_LITTLE, ids=str)
def test_a_new_model_refuses_too_little_regularization(learner: dict[str, Any], norm_bound: float) -> None:
    """A new model with too little regularization is refused by that name; a stored definition opens unchanged."""
    definition = definition_of(learner, norm_bound)
    with pytest.raises(HyperparameterError, match="use a regularization of at least") as error:
        new_model(ModelDefinition.model_validate(definition), "one", Limits(2**30, 10**12))
    assert error.value.field == "learner.regularization"
    model = opened(definition)
    assert model.learner.problem.norm_bound == norm_bound
    assert getattr(model.learner, "regularization", None) == learner["regularization"]


def test_default_regularization_is_accepted() -> None:
    """The same learners are accepted with a norm bound of 1 and the default regularization."""
    for learner, _ in TOO_LITTLE:
        model = new_model(
            ModelDefinition.model_validate(definition_of({"algorithm": learner["algorithm"]}, 1.0)),
            "1",
            Limits(2**30, 10**12),
        )
        assert opened(json.loads(model.definition.model_dump_json())).learner == model.learner
