"""The laws of values in errors: short, printable, and true to what was given."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.error_messages.values import choices, quoted, shown

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(10**400)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(), inner, max_size=6), max_leaves=20
)

SHOWN: list[tuple[Any, str]] = [
    (None, "null"),
    (True, "true"),
    (-1, "-1"),
    (0.25, "0.25"),
    (float("nan"), "NaN"),
    (10**400, "an integer of 401 digits"),
    ("a b", '"a b"'),
    ('say "é"\n', '"say \\"é\\"\\n"'),
    ("\u202e\x7f\ud800", '"\\u202e\\u007f\\ud800"'),
    ("x" * 300, f'"{"x" * 60}…" (300 characters)'),
    ([], "an empty list"),
    ([1, 2.5, "a"], '[1, 2.5, "a"]'),
    ([[1]], "a list of 1 item"),
    ([0] * 300, "a list of 300 items"),
    ({}, "an empty object"),
    ({"age": 31}, 'an object with "age"'),
    (dict.fromkeys("abcde"), 'an object with "a", "b", "c" and 2 more'),
]


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_a_value_is_shown_as_json_or_by_its_size(value: Any, text: str) -> None:
    """Short values are shown as JSON, long ones by kind and size."""
    assert shown(value) == text


@given(VALUES)
def test_every_value_is_shown_shortly(value: Any) -> None:
    """Whatever the value, the text is printable, can be encoded, and has a bound."""
    text = shown(value)
    assert text.isprintable()
    assert len(text.encode()) < 2000


@given(st.text(max_size=60))
def test_a_quoted_text_is_json(text: str) -> None:
    """A JSON parser reads a short quoted text back."""
    assert json.loads(quoted(text)) == text


def test_a_near_miss_is_suggested() -> None:
    """The closest known text comes first; a text like none of them gets the list only."""
    known = ("context", "model")
    assert choices("contxt", known, "known fields") == 'did you mean "context"? Known fields: context, model'
    assert choices("colour", known, "known fields") == "known fields: context, model"
