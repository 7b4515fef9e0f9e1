"""The laws of every kind of context; and only a kind's own file depends on it."""

import json
import re
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import TypeAdapter

import service
from learners.mathematics.preparation import Preparation
from service.choice.choice import check_norm
from service.contexts.kind import ContextKind
from service.contexts.registry import NAMES, Features, GivenContext, ShownContext, context_kind
from service.errors import ContextLengthError, NormExceededError
from service.schemas.rounds import PredictRequest

ROOM = Path(service.__file__).parent
READ_FEATURES: TypeAdapter[Any] = TypeAdapter(Features)
READ_CONTEXT: TypeAdapter[Any] = TypeAdapter(GivenContext)
READ_SHOWN: TypeAdapter[Any] = TypeAdapter(ShownContext)


class Sample(NamedTuple):
    """Requests of one kind, as JSON values."""

    features: dict[str, Any]
    contexts: list[Any]  # all different
    largest: tuple[int | str, str, float] | None  # largest number of the first: its feature, its field, its value
    wanted: str


SAMPLES = {
    "dense": Sample({"size": 3}, [[1.0, 9.0, -2.5], [1.0, 9.0, 0.0]], (1, "context.1", 9.0), "a list of 3 numbers"),
    "sparse": Sample(
        {"size": 7},
        [
            {"indices": [5, 2], "values": [1 / 3, 9.0]},
            {"indices": [2, 5], "values": [1 / 3, 9.0]},
            {"indices": [0], "values": [1.0]},
        ],
        (2, "context.values.1", 9.0),
        'an object with "indices", integers from 0 to 6, and "values", numbers',
    ),
    "named": Sample(
        {"size": 8},
        [{"a": 9.0, "user": {"a": ["x"]}}, {"a": 9.0, "user": {"a": ["y"]}}, {"a": 9.0}],
        ('"a"', "context.a", 9.0),  # its hash has the sign -1
        "an object of names and values",
    ),
    "none": Sample({}, [{}], None, "no context, or an empty object"),
}


def kind_of(name: str) -> ContextKind[Any]:
    return context_kind(READ_FEATURES.validate_python({"kind": name} | SAMPLES[name].features))


def contexts_of(name: str) -> list[Any]:
    return [READ_CONTEXT.validate_json(json.dumps(each)) for each in SAMPLES[name].contexts]


every_kind = pytest.mark.parametrize("name", sorted(NAMES))


def test_every_kind_has_a_sample() -> None:
    assert SAMPLES.keys() == NAMES


@every_kind
def test_a_context_is_parsed_as_one_kind(name: str) -> None:
    for given, context in zip(SAMPLES[name].contexts, contexts_of(name), strict=True):
        assert type(context) is kind_of(name).type
        for value in (given, context):
            assert kind_of(name).claims(value)
            assert PredictRequest(model="m", context=value).context == context


EMPTY_IS_BOTH = ("named", "none")


@pytest.mark.parametrize(("name", "other"), sorted({*permutations(NAMES, 2)} - {EMPTY_IS_BOTH}))
def test_another_kind_is_refused(name: str, other: str) -> None:
    with pytest.raises(ContextLengthError) as refused:
        kind_of(name).check(contexts_of(other)[0])
    assert refused.value.field == "context"
    named = {"none": "no"}.get(name, name)
    assert f"; the model has {named} features: send {SAMPLES[name].wanted}, such as " in refused.value.detail


@every_kind
def test_a_number_beyond_the_bound_is_named(name: str) -> None:
    kind, largest = kind_of(name), SAMPLES[name].largest
    if largest is None:
        pytest.skip("its contexts have no numbers")
    feature, field, number = largest
    context, bound = kind.check(contexts_of(name)[0]), number / 2
    with pytest.raises(
        NormExceededError, match=f"^got {number} for feature {feature}; must be between -{bound:g} and {bound:g}$"
    ) as found:
        check_norm(kind, Preparation("reject", bound, False, 0), "maximum", context)
    assert found.value.field == field


@pytest.mark.parametrize(
    ("size", "context", "words", "field"),
    [
        (1, {"a": 9.0, "user": {"b": 3.0}}, 'feature "a" and "user.b"', "context"),  # at one index
        (2**18, {"a": 0.1, "b": 9.0}, 'feature "b"', "context.b"),
        (2**18, {"a": 3.0, "b": 3.0}, 'feature "a*b"', "context"),
        (2**18, {"user": {"b": 7.0}}, 'feature "user.b"', "context.user.b"),
        (2**18, {"c": {"d=e": 7.0}, "c.d": "f"}, 'feature "c.d=e"', "context.c.d=e"),
        (2**18, {"c*d": 7.0}, 'feature "c*d"', "context.c*d"),
    ],
)
def test_a_hashed_number_is_named_as_sent(size: int, context: dict[str, Any], words: str, field: str) -> None:
    features = {"kind": "named", "size": size, "interactions": [["a", "b"]]}
    kind = context_kind(READ_FEATURES.validate_python(features))
    with pytest.raises(NormExceededError, match=re.escape(f"for {words};")) as found:
        check_norm(kind, Preparation("reject", 4.0, False, 0), "maximum", kind.check(context))
    assert found.value.field == field
