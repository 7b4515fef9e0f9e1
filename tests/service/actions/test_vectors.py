"""The laws of the vectors of candidates; docs/actions.md has the fixed values."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from service.actions.definition import ActionsDefinition
from service.actions.encoder import ActionVectors, NamedFactors
from service.contexts.hashing import combined, hashes_of, indices_of, signs_of
from service.contexts.registry import context_kind
from service.schemas.models import ModelDefinition

NAMED: dict[str, Any] = {"kind": "named", "size": 1000}
BOTH = {"item": {"b": 5}, "v": {"z": 7}}
INTERACTING = NAMED | {"interactions": [["u", "v"], ["u", "u"]]}


def vectors_of(context: dict[str, Any], **actions: Any) -> ActionVectors:
    """Return the vectors of a model."""
    defined = ModelDefinition.model_validate({"name": "m", "features": context, "actions": actions})
    assert isinstance(defined.actions, ActionsDefinition)
    return ActionVectors(defined.actions, defined.features)


def joined(vectors: ActionVectors, context: Any, *actions: Any) -> list[dict[int, float]]:
    """Return the vector of each action, by index."""
    factors = [vectors.actions.read(action, "actions.0.features") for action in actions]
    made = vectors.join([vectors.contexts.read(context, "context")], factors, np.array([0, len(actions)]))
    rows = [slice(*made.starts[i : i + 2]) for i in range(len(actions))]
    found = [dict(zip(made.indices[row].tolist(), made.values[row].tolist(), strict=True)) for row in rows]
    assert [len(each) for each in found] == np.diff(made.starts).tolist()  # indices differ within a row
    return found


def named_factors(vectors: ActionVectors, context: Any, action: Any) -> tuple[NamedFactors, NamedFactors]:
    """Return the features of a context and an action, with their names."""
    readers = (vectors.contexts, context, "context"), (vectors.actions, action, "actions.0.features")
    first, second = [NamedFactors(reader.names(given), reader.read(given, path)) for reader, given, path in readers]
    return first, second


def reference(context: dict[str, float], action: dict[str, float], size: int) -> dict[int, float]:
    """Return the vector of an action by the specification, one product at a time."""
    vector: dict[int, float] = {}
    pairs = [(hashes_of([name]), x) for name, x in action.items()]
    for (other, y), (name, x) in product(context.items(), action.items()):
        pairs.append((combined(hashes_of([other]), hashes_of([name])), x * y))
    for hashed, x in pairs:
        index = int(indices_of(hashed, size)[0])
        vector[index] = vector.get(index, 0.0) + x * signs_of(hashed)[0]
    return vector


def test_the_vector_never_changes() -> None:
    """The indices and values of the page's example, which stored weights depend on."""
    vectors = vectors_of({"kind": "named"}, features={"kind": "named"})
    (vector,) = joined(vectors, {"age": 40}, {"colour": "red", "price": 2.5})
    assert vectors.size == 2**18
    assert vector == FIXED


FIXED = {2060: -1.0, 3453: 40.0, 91599: 100.0, 170203: 2.5}


@pytest.mark.parametrize("size", [2, 17, 1000, 2**31 - 1])
def test_compiled_vectors_follow_the_specification(size: int) -> None:
    """Own features and all products are there; entries with the same index add up."""
    vectors = vectors_of({"kind": "named", "size": 5}, features={"kind": "named", "size": size})
    context, action = {f"c{i}": 0.5 * i + 1 for i in range(12)}, {f"a{i}": 0.1 - i for i in range(9)}
    made, single = joined(vectors, context, action, {"a": 1.0})
    expected = reference(context, action, vectors.size)
    assert made.keys() == expected.keys()
    np.testing.assert_allclose([made[i] for i in expected], list(expected.values()), rtol=1e-12, atol=1e-12)
    assert single == pytest.approx(reference(context, {"a": 1.0}, vectors.size))


def test_a_pair_of_namespaces_restricts_the_products() -> None:
    """Only the features of these namespaces are multiplied; an empty list is for no products."""
    context, action = {"user": {"age": 2.0}, "hour": 3.0}, {"item": {"price": 5.0}, "shop": 7.0}
    only = vectors_of(NAMED, features=NAMED, interactions=[["user", "item"]])
    (made,) = joined(only, context, action)
    own = {"item.price": 5.0, "shop": 7.0}
    assert sorted(map(abs, made.values())) == [5.0, 7.0, 10.0]
    (made,) = joined(vectors_of(NAMED, features=NAMED, interactions=[]), context, action)
    assert made == reference({}, own, 1000)


def test_numbers_are_multiplied_without_a_hash() -> None:
    """Feature a of an action has index a, and its product with feature c of the context (c + 1) d + a."""
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
    """The parts of a vector are its entries; each product of own features or with the context has both names."""
    (made,) = joined(vectors, context, action)
    parts, found = vectors.parts(*named_factors(vectors, context, action)), dict[int, float]()
    for part in parts:
        found[part.at] = found.get(part.at, 0.0) + part.value
    assert found == pytest.approx(made)
    assert len({part.name for part in parts}) == len(parts)


def test_parts_of_the_example_have_their_names() -> None:
    """Each entry of the page's example has the name of its feature, or of both factors."""
    vectors = vectors_of({"kind": "named"}, features={"kind": "named"})
    parts = vectors.parts(*named_factors(vectors, {"age": 40}, {"colour": "red", "price": 2.5}))
    assert {part.name: part.at for part in parts} == {
        "colour=red": 2060,
        "age*colour=red": 3453,
        "price": 170203,
        "age*price": 91599,
    }
    assert {part.at: part.value for part in parts} == FIXED
    assert [part.sign for part in parts] == [-1, 1, 1, 1]


def test_equal_objects_share_their_features_and_others_do_not() -> None:
    """The cache distinguishes true from 1, and forgets nothing that matters."""
    vectors = vectors_of(NAMED, features=NAMED)
    read = vectors.actions.read
    assert read({"a": 1, "b": ["x"]}, "") is read({"a": 1, "b": ["x"]}, "")
    assert read({"a": 1}, "") is not read({"a": True}, "")
    assert read({"a": 1}, "").hashes.tolist() != read({"a": True}, "").hashes.tolist()


def test_a_named_vector_without_a_context_is_that_of_a_context() -> None:
    """Actions without products are hashed as contexts of the same features are."""
    features = {"kind": "named", "size": 1000, "interactions": [["a", "b"]]}
    (made,) = joined(vectors_of({"kind": "none"}, features=features), None, {"a": 2.0, "b": "x", "c": True})
    definition = ModelDefinition.model_validate({"name": "m", "labels": ["x", "y"], "features": features})
    kind = context_kind(definition.features)
    contexts = kind.gather([kind.check({"a": 2.0, "b": "x", "c": True})])
    assert made == dict(zip(contexts.indices.tolist(), contexts.values.tolist(), strict=True))
