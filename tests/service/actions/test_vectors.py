"""The laws of the vectors of candidates; docs/guides/actions.md has the fixed values."""

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from service.actions import definition, factors
from service.actions.definition import ActionsDefinition, GivenAction, SourceAction, SourceReader
from service.actions.encoder import ActionVectors, NamedFactors
from service.actions.factors import FactorReader, Factors
from service.contexts.hashing import combined, hashes_of, indices_of, signs_of
from service.contexts.registry import context_kind
from service.errors import InvalidInputError
from service.schemas.models import ModelDefinition

NAMED: dict[str, Any] = {"kind": "named", "size": 1000}
BOTH = {"item": {"b": 5}, "v": {"z": 7}}
INTERACTING = NAMED | {"interactions": [["u", "v"], ["u", "u"]]}


def vectors_of(context: dict[str, Any], **actions: Any) -> ActionVectors:
    defined = ModelDefinition.model_validate({"name": "m", "features": context, "actions": actions})
    assert isinstance(defined.actions, ActionsDefinition)
    return ActionVectors(defined.actions, defined.features)


def joined(vectors: ActionVectors, context: Any, *actions: Any) -> list[dict[int, float]]:
    factors = [vectors.actions.read(action, "actions.0.features") for action in actions]
    made = vectors.join([vectors.contexts.read(context, "context")], factors, np.array([0, len(actions)]))
    rows = [slice(*made.starts[i : i + 2]) for i in range(len(actions))]
    found = [dict(zip(made.indices[row].tolist(), made.values[row].tolist(), strict=True)) for row in rows]
    assert [len(each) for each in found] == np.diff(made.starts).tolist()  # indices differ within a row
    return found


def named_factors(vectors: ActionVectors, context: Any, action: Any) -> tuple[NamedFactors, NamedFactors]:
    readers = (vectors.contexts, context, "context"), (vectors.actions, action, "actions.0.features")
    first, second = [NamedFactors(reader.names(given), reader.read(given, path)) for reader, given, path in readers]
    return first, second


def reference(context: dict[str, float], action: dict[str, float], size: int) -> dict[int, float]:
    vector: dict[int, float] = {}
    pairs = [(hashes_of([name]), x) for name, x in action.items()]
    for (other, y), (name, x) in product(context.items(), action.items()):
        pairs.append((combined(hashes_of([other]), hashes_of([name])), x * y))
    for hashed, x in pairs:
        index = int(indices_of(hashed, size)[0])
        vector[index] = vector.get(index, 0.0) + x * signs_of(hashed)[0]
    return vector


def test_the_vector_never_changes() -> None:
    vectors = vectors_of({"kind": "named"}, features={"kind": "named"})
    (vector,) = joined(vectors, {"age": 40}, {"colour": "red", "price": 2.5})
    assert vectors.size == 2**18
    assert vector == FIXED


FIXED = {2060: -1.0, 3453: 40.0, 91599: 100.0, 170203: 2.5}


@pytest.mark.parametrize("size", [2, 17, 1000, 2**31 - 1])
def test_compiled_vectors_follow_the_specification(size: int) -> None:
    vectors = vectors_of({"kind": "named", "size": 5}, features={"kind": "named", "size": size})
    context, action = {f"c{i}": 0.5 * i + 1 for i in range(12)}, {f"a{i}": 0.1 - i for i in range(9)}
    made, single = joined(vectors, context, action, {"a": 1.0})
    expected = reference(context, action, vectors.size)
    assert made.keys() == expected.keys()
    np.testing.assert_allclose([made[i] for i in expected], list(expected.values()), rtol=1e-12, atol=1e-12)
    assert single == pytest.approx(reference(context, {"a": 1.0}, vectors.size))


def test_a_pair_of_namespaces_restricts_the_products() -> None:
    context, action = {"user": {"age": 2.0}, "hour": 3.0}, {"item": {"price": 5.0}, "shop": 7.0}
    only = vectors_of(NAMED, features=NAMED, interactions=[["user", "item"]])
    (made,) = joined(only, context, action)
    own = {"item.price": 5.0, "shop": 7.0}
    assert sorted(map(abs, made.values())) == [5.0, 7.0, 10.0]
    (made,) = joined(vectors_of(NAMED, features=NAMED, interactions=[]), context, action)
    assert made == reference({}, own, 1000)


def test_numbers_are_multiplied_without_a_hash() -> None:
    vectors = vectors_of({"kind": "dense", "size": 2}, features={"kind": "dense", "size": 3})
    (made,) = joined(vectors, [10.0, 100.0], [1.0, 0.0, 2.0])
    assert vectors.size == 9
    assert made == {0: 1.0, 2: 2.0, 3: 10.0, 5: 20.0, 6: 100.0, 8: 200.0}
    (made,) = joined(vectors_of({"kind": "none"}, features={"kind": "dense", "size": 3}), None, [1.0, 0.0, 2.0])
    assert made == {0: 1.0, 2: 2.0}


@pytest.mark.parametrize(
    ("vectors", "context", "action"),
    [
        (vectors_of(NAMED, features=NAMED), {"age": 40}, {"colour": "red", "price": 2.5, "sold": True}),
        (vectors_of(NAMED, features=NAMED), {"user": {"age": 40}, "tags": ["x", "y"]}, {"item": {"b": 2.5}, "z": None}),
        (vectors_of(NAMED, features=NAMED, interactions=[["user", "item"]]), {"user": {"a": 2}, "h": 3}, BOTH),
        (vectors_of(INTERACTING, features=INTERACTING), {"u": {"a": 2, "b": 3}, "v": 5}, BOTH | {"u": ["k", "l"]}),
        (vectors_of({"kind": "dense", "size": 2}, features=NAMED), [10.0, 0.0], {"colour": "red"}),
        (vectors_of({"kind": "dense", "size": 2}, features={"kind": "dense", "size": 3}), [10.0, 0.5], [1.0, 0.0, 2.0]),
        (vectors_of({"kind": "none"}, features={"kind": "dense", "size": 3}), None, [1.0, 0.0, 2.0]),
    ],
)  # fmt: skip
def test_parts_name_what_is_joined(vectors: ActionVectors, context: Any, action: Any) -> None:
    (made,) = joined(vectors, context, action)
    parts, found = vectors.feature_entries(*named_factors(vectors, context, action)), dict[int, float]()
    for part in parts:
        found[part.at] = found.get(part.at, 0.0) + part.value
    assert found == pytest.approx(made)
    assert len({part.name for part in parts}) == len(parts)


def test_equal_objects_share_their_features_and_others_do_not() -> None:
    vectors = vectors_of(NAMED, features=NAMED)
    read = vectors.actions.read
    assert read({"a": 1, "b": ["x"]}, "") is read({"a": 1, "b": ["x"]}, "")
    assert read({"a": 1}, "") is not read({"a": True}, "")
    assert read({"a": 1}, "").hashes.tolist() != read({"a": True}, "").hashes.tolist()


# --- actions with a source: their features are those of the parsed action, from the cache or not


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
    body = {"name": "m", "features": {"kind": "named"}, "actions": {"features": KINDS[kind]}}
    definition = ModelDefinition.model_validate(body)
    assert definition.actions is not None
    return FactorReader(context_kind(definition.actions.features), {}, hashed=True)


def read(reader: FactorReader, action: GivenAction | SourceAction) -> Factors | tuple[str, str | None]:
    try:
        return reader.read_action(action, "actions.3.features")
    except InvalidInputError as error:
        return error.detail, error.field


def assert_alike(one: Any, other: Any) -> None:
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
    reader, found = reader_of("named"), []
    for source in (b'{"a": 1}', b'{"a": true}'):
        made = read(reader, SourceAction("a", source))
        assert isinstance(made, Factors)
        found.append(made.hashes.tolist())
    assert found[0] != found[1]


def test_caches_stay_small_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factors, "_MOST_CACHED", 40)
    monkeypatch.setattr(definition, "_MOST_BYTES", 100)
    reader, known = reader_of("named"), SourceReader()
    wanted = {k: read(reader_of("named"), SourceAction("a", b'{"a": %d}' % k)) for k in range(50)}
    for k in [*range(50), *range(50), 48, 49]:
        actions = known.read([("a", b'{"a": %d}' % k, None, None)])
        assert actions is not None
        assert_alike(read(reader, actions[0]), wanted[k])
    assert len(reader._recent) + len(reader._older) < 20
    assert len(known._recent) + len(known._older) < 40


def test_invalid_features_are_never_known() -> None:
    known = SourceReader()
    valid, invalid = (("a", source, None, None) for source in (b'{"a": 1}', b'{"indices": 1}'))
    for _ in range(2):
        assert known.read([valid]) is not None
        assert known.read([valid, invalid]) is None
