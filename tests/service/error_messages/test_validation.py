"""The laws of validation errors: every type of pydantic's errors and every schema has plain words of ours."""

import json
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import ValidationError
from pydantic_core._pydantic_core import list_all_errors

from learners.registry import ALL_LEARNERS
from service.access.keys import KeyRecord
from service.error_messages.json_schemas import root_of
from service.error_messages.patterns import RULES
from service.error_messages.validation import explain
from service.error_messages.values import choices, quoted, shown
from service.schemas.models import ModelDefinition
from service.schemas.rounds import FeedbackRequest, PredictBatchRequest, PredictRequest
from tests.service.api_description import api_description
from tests.service.error_messages.plain_words import check_plain

MODELS: list[Any] = [
    *(ModelDefinition, PredictRequest, PredictBatchRequest, FeedbackRequest, KeyRecord),
    *ALL_LEARNERS.values(),
]


def test_every_type_of_error_has_our_words() -> None:
    for known in list_all_errors():
        context = {
            name: ValueError("ours") if (name, value) == ("error", None) else value
            for name, value in (known["example_context"] or {}).items()
        }
        made = {"type": known["type"], "loc": ("window_seconds",), "input": "a", "ctx": context}
        (found,) = ValidationError.from_exception_data("", [made]).errors()  # type: ignore[list-item]
        sentence = explain(found, root_of(ModelDefinition)).sentence("the body")
        assert sentence.startswith("window_seconds"), known
        check_plain(sentence)


def parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it."""
    if isinstance(schema, dict):
        yield schema
    if isinstance(schema, dict | list):
        for part in schema.values() if isinstance(schema, dict) else schema:
            yield from parts_of(part)


def test_every_pattern_and_every_field_has_words() -> None:
    schemas = [api_description(), *(pydantic.TypeAdapter(model).json_schema() for model in MODELS)]
    patterns = {part.get("pattern") for schema in schemas for part in parts_of(schema)}
    assert {pattern for pattern in patterns if isinstance(pattern, str)} <= RULES.keys()
    for root in map(root_of, MODELS):
        for name in root.members(root.find(()).schemas):
            text = root.allowed(root.find((name,)).schemas)
            check_plain(text)
            assert "valid value" not in text
            assert "another form" not in text


HUGE = "an integer of 401 digits"
MODEL = {"name": "m", "labels": ["a", "b"]}
NAMELESS = {"kind": "named", "fields": {"": {"type": "number"}}}
EXPLAINED: list[tuple[Any, Any, str]] = [
    (PredictRequest, {"model": "m", "context": [1], "contxt": 1}, 'contxt: unknown field; did you mean "context"? '),
    (PredictRequest, {"model": "m", "context": 1}, "context: got 1; must be a list of numbers for dense features, an "),
    (PredictRequest, {"model": "m", "policy": {"[key]": 2.0}}, "policy.[key]: got 2.0; must be a number greater than"),
    (PredictRequest, {"model": "m", "baseline": "\ud800"}, 'baseline: got "\\ud800"; must be Unicode without half'),
    (FeedbackRequest, {"prediction_id": 5}, "prediction_id: got 5; must be a string of the model's name, a colon, and"),
    (PredictRequest, {"model": "m", "context": [10**400]}, f"context.0: got {HUGE}; must be a number between -1.8e"),
    (ModelDefinition, MODEL | {"features": "named"}, 'features: got "named"; must be an object with "kind"'),
    (ModelDefinition, MODEL | {"features": NAMELESS}, 'features.fields: got the name ""; a name must be a string of'),
    (PredictRequest, [], 'the body: got an empty list; must be an object with "model"'),
    (FeedbackRequest, {"prediction_id": "m:1", "correct": 1}, "correct: got 1; must be true, false or null"),
]


@pytest.mark.parametrize(("model", "given_", "sentence"), EXPLAINED)
def test_an_error_names_field_value_and_rule(model: Any, given_: Any, sentence: str) -> None:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(given_)
    assert explain(refused.value.errors()[0], root_of(model)).sentence("the body").startswith(sentence)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(10**400)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(), inner, max_size=6), max_leaves=20
)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(VALUES, st.text(max_size=60))
def test_every_value_is_shown_shortly(value: Any, text: str) -> None:
    found = shown(value)
    assert found.isprintable()
    assert len(found.encode()) < 2000
    assert json.loads(quoted(text)) == text


def test_long_values_are_shown_by_their_size_and_near_misses_are_suggested() -> None:
    assert [shown(each) for each in (True, "x" * 300)] == ["true", f'"{"x" * 60}…" (300 characters)']
    assert [shown(each) for each in ([1, "a"], [0] * 300)] == ['[1, "a"]', "a list of 300 items"]
    assert shown(dict.fromkeys("abcde")) == 'an object with "a", "b", "c" and 2 more'
    known = ("context", "model")
    assert choices("contxt", known, "known fields") == 'did you mean "context"? Known fields: context, model'
    assert choices("colour", known, "known fields") == "known fields: context, model"
