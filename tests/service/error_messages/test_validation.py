"""The laws of validation errors: every type of pydantic's errors and every schema has words of ours."""

from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
from pydantic_core import ValidationError
from pydantic_core._pydantic_core import list_all_errors

from learners.registry import ALL_LEARNERS
from service.access.keys import KeyRecord
from service.error_messages.json_schemas import root_of
from service.error_messages.patterns import RULES
from service.error_messages.validation import explain
from service.schemas.models import ModelDefinition
from service.schemas.rounds import FeedbackRequest, PredictBatchRequest, PredictRequest
from tests.service.api_description import api_description
from tests.service.error_messages.plain_words import check_plain

MODELS: list[Any] = [
    *(ModelDefinition, PredictRequest, PredictBatchRequest, FeedbackRequest, KeyRecord),
    *ALL_LEARNERS.values(),
]


@pytest.mark.parametrize("known", list_all_errors(), ids=lambda known: str(known["type"]))
def test_every_type_of_error_has_our_words(known: Any) -> None:
    """The sentence names the field and has no wording of pydantic's."""
    context = {
        name: ValueError("ours") if (name, value) == ("error", None) else value
        for name, value in (known["example_context"] or {}).items()
    }
    made = {"type": known["type"], "loc": ("window_seconds",), "input": "a", "ctx": context}
    (found,) = ValidationError.from_exception_data("", [made]).errors()  # type: ignore[list-item]
    sentence = explain(found, root_of(ModelDefinition)).sentence("the body")
    assert sentence.startswith("window_seconds")
    check_plain(sentence)


def parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it."""
    if isinstance(schema, dict):
        yield schema
        for part in schema.values():
            yield from parts_of(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from parts_of(part)


def test_every_pattern_has_a_rule() -> None:
    """No schema of the service has a pattern without words."""
    api = api_description()
    schemas = [api, *(pydantic.TypeAdapter(model).json_schema() for model in MODELS)]
    patterns = {
        part["pattern"] for schema in schemas for part in parts_of(schema) if isinstance(part.get("pattern"), str)
    }
    assert patterns <= RULES.keys()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.__name__))
def test_every_field_says_what_it_may_be(model: Any) -> None:
    """The allowed values of each field are described in plain words, without a vague fallback."""
    root = root_of(model)
    for name in root.members(root.find(()).schemas):
        text = root.allowed(root.find((name,)).schemas)
        check_plain(text)
        assert "valid value" not in text
        assert "another form" not in text


LONG_RULE = "a string of 1 to 64 letters, digits, dots, hyphens or underscores, the first a letter or digit"
TEXT_RULE, HUGE = "must be a string of 1 to 256 characters", "an integer of 401 digits"
MODEL = {"name": "m", "labels": ["a", "b"]}
NAMELESS = {"kind": "named", "fields": {"": {"type": "number"}}}
PAIRS, BARE = {"kind": "named", "interactions": [["a"]]}, {"features": {"kind": "none"}}
EXPLAINED: list[tuple[Any, Any, str]] = [
    (PredictRequest, {"model": "m", "context": [1], "contxt": 1}, 'contxt: unknown field; did you mean "context"? '),
    (PredictRequest, {"model": "a b", "context": [1]}, f'model: got "a b"; must be {LONG_RULE}'),
    (PredictRequest, {"model": "m", "context": 1}, "context: got 1; must be a list of numbers for dense features, an "),
    (PredictRequest, {"model": "m", "policy": {"": 1.0}}, f'policy: got the name ""; a name {TEXT_RULE}'),
    (PredictRequest, {"model": "m", "policy": {"[key]": 2.0}}, "policy.[key]: got 2.0; must be a number greater than"),
    (PredictRequest, {"model": "m", "baseline": "\ud800"}, 'baseline: got "\\ud800"; must be Unicode without half'),
    (PredictRequest, {"model": "m", "prediction_id": 5}, "prediction_id: got 5; must be a string of 1 to 128 letters"),
    (FeedbackRequest, {"prediction_id": 5}, "prediction_id: got 5; must be a string of the model's name, a colon, and"),
    (FeedbackRequest, {"prediction_id": "m:1", "reward": 10**400}, f"reward: got {HUGE}; must be a number between 0"),
    (PredictRequest, {"model": "m", "context": [10**400]}, f"context.0: got {HUGE}; must be a number between -1.8e"),
    (ModelDefinition, MODEL | {"window_seconds": 10**400}, f"window_seconds: got {HUGE}; must be a number between 0.0"),
    (ModelDefinition, MODEL | {"features": "named"}, 'features: got "named"; must be an object with "kind"'),
    (ModelDefinition, MODEL | {"features": NAMELESS}, f'features.fields: got the name ""; a name {TEXT_RULE}'),
    (ModelDefinition, MODEL | {"features": PAIRS}, 'features.interactions.0: got ["a"]; must be a list of 2 strings'),
    (ModelDefinition, {"name": "m", "actions": BARE}, 'actions.features.kind: got "none"; must be "dense", "named" or'),
    (PredictRequest, {"model": "m", "context": ["x"]}, 'context.0: got "x"; must be a number'),
    (
        PredictRequest,
        {"model": "m", "context": {"indices": [0], "values": [1], "dense": 2}},
        "context.dense: unknown field",
    ),
    (PredictRequest, {"model": "m", "context": [1], "dense": 2}, "dense: unknown field; known fields: model, "),
    (PredictRequest, [], 'the body: got an empty list; must be an object with "model"'),
    (FeedbackRequest, {"prediction_id": "m:1", "correct": 1}, "correct: got 1; must be true, false or null"),
]


@pytest.mark.parametrize(("model", "given", "sentence"), EXPLAINED)
def test_an_error_names_field_value_and_rule(model: Any, given: Any, sentence: str) -> None:
    """The first sentence is the expected one."""
    with pytest.raises(ValidationError) as refused:
        model.model_validate(given)
    assert explain(refused.value.errors()[0], root_of(model)).sentence("the body").startswith(sentence)
