"""Builds a model from what the service says of it."""

import json
from collections.abc import Mapping
from typing import Any

from service.models.learner_choice import build_learner
from service.models.model import Model
from service.schemas.models import ModelDefinition
from service.store.stored_models import ModelKey


def model_of(answer: Mapping[str, Any]) -> Model:
    """Return the model that `GET /models/{name}` describes.

    Raises:
        ValueError: if a newer version of the service describes it in another way.
        InvalidInputError: if this version does not have its learner.
    """
    known = {name: answer[name] for name in ModelDefinition.model_fields if answer.get(name) not in (None, [])}
    definition = ModelDefinition.model_validate_json(json.dumps(known))
    return Model(ModelKey(definition.name, "refolded"), definition, build_learner(definition))
