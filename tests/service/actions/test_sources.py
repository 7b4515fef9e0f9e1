"""The laws of actions with a source: their features are those of the parsed action, from the cache or not."""

import json
from typing import Any

import numpy as np
import pytest

from service.actions import definition, factors
from service.actions.definition import GivenAction, SourceAction, SourceReader
from service.actions.factors import FactorReader, Factors
from service.contexts.registry import context_kind
from service.errors import InvalidInputError
from service.schemas.models import ModelDefinition

KINDS: dict[str, dict[str, Any]] = {
    "named": {"kind": "named"},
    "dense": {"kind": "dense", "size": 2},
    "sparse": {"kind": "sparse", "size": 9},
}
FEATURES: list[tuple[str, Any]] = [
    ("named", {"price": 1.5, "new": True, "words": ["x", "y"]}),
    ("named", {"item": {"price": 2, "name": "é"}}),
    ("named", {"a": 1}),
    ("named", {"a": True}),
    ("dense", [1, 2.5]),
    ("sparse", {"indices": [8, 3], "values": [1, -1]}),
    ("named", {}),
    ("named", {"a": {"b": {"c": 1}}}),
    ("dense", [1]),
    ("sparse", {"indices": [9], "values": [1]}),
    ("dense", {"a": 1}),
    ("named", [1.5]),
]


def reader_of(kind: str) -> FactorReader:
    """Return the reader of actions of a model."""
    body = {"name": "m", "features": {"kind": "named"}, "actions": {"features": KINDS[kind]}}
    definition = ModelDefinition.model_validate(body)
    assert definition.actions is not None
    return FactorReader(context_kind(definition.actions.features), {}, hashed=True)


def read(reader: FactorReader, action: GivenAction | SourceAction) -> Factors | tuple[str, str | None]:
    """Return the features of an action, or the detail and the field of the error."""
    try:
        return reader.read_action(action, "actions.3.features")
    except InvalidInputError as error:
        return error.detail, error.field


def assert_alike(one: Any, other: Any) -> None:
    """Check that two results of `read` are equal."""
    if isinstance(one, Factors):
        for ours, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    else:
        assert one == other


@pytest.mark.parametrize(("kind", "features"), FEATURES)
def test_features_with_a_source_are_those_of_the_parsed_action(kind: str, features: Any) -> None:
    """Both have the same features or the same error, also when they are read again."""
    body = json.dumps({"id": "a", "features": features})
    parsed, reader = GivenAction.model_validate_json(body), reader_of(kind)
    action = SourceAction("a", json.dumps(features).encode())
    assert action.features == parsed.features
    for _ in range(2):
        assert_alike(read(reader, action), read(reader_of(kind), parsed))


def test_equal_numbers_of_different_types_have_different_features() -> None:
    """`{"a": 1}` and `{"a": true}` are different sources."""
    reader, found = reader_of("named"), []
    for source in (b'{"a": 1}', b'{"a": true}'):
        made = read(reader, SourceAction("a", source))
        assert isinstance(made, Factors)
        found.append(made.hashes.tolist())
    assert found[0] != found[1]


def test_caches_stay_small_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for few features, each action still has its own, and old ones are forgotten."""
    monkeypatch.setattr(factors, "_MOST_CACHED", 40)
    monkeypatch.setattr(definition, "_MOST_BYTES", 100)
    reader, known = reader_of("named"), SourceReader()
    wanted = {k: read(reader_of("named"), SourceAction("a", b'{"a": %d}' % k)) for k in range(50)}
    for k in [*range(50), *range(50), 48, 49]:
        actions = known.read([("a", b'{"a": %d}' % k)])
        assert actions is not None
        assert_alike(read(reader, actions[0]), wanted[k])
    assert len(reader._recent) + len(reader._older) < 20
    assert len(known._recent) + len(known._older) < 40


def test_invalid_features_are_never_known() -> None:
    """Invalid features are refused each time, also after valid ones."""
    known = SourceReader()
    valid, invalid = (("a", source) for source in (b'{"a": 1}', b'{"indices": 1}'))
    for _ in range(2):
        assert known.read([valid]) is not None
        assert known.read([valid, invalid]) is None
