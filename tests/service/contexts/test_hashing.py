"""The hash of named features is fixed: these values were computed once, and hold for every worker and version."""

from typing import Any

import pytest
import xxhash
from pydantic import TypeAdapter

from service.contexts.hashing import combined, hash_of, hashes_of
from service.contexts.kind import ContextKind
from service.contexts.registry import Features, context_kind

READ: TypeAdapter[Any] = TypeAdapter(Features)
CONTEXT = {
    "age": 41,
    "country": "FR",
    "premium": True,
    "referrer": None,
    "tags": ["new", "mobile", "new"],
    "user": {"id": "u1", "scores": {"risk": -0.25}},
    "ü": "é",
}
NAMES = ["age", "country=FR", "premium=true", "tags=new", "tags=mobile", "user.id=u1", "user.scores.risk", "ü=é"]
NAMES_OF_VALUES = dict(zip(NAMES, [41.0, 1.0, 1.0, 1.0, 1.0, 1.0, -0.25, 1.0], strict=True))
MASK = 2**64 - 1

HASHES = [17241709254077376921, 5092756294692198100, 6485203211693257502, 4773611890624365561]
PRODUCT = [11511419438646765316]
VECTOR = {65476: -0.25, 115269: 1.0, 118560: -1.0, 133501: 1.0, 191042: 1.0, 193310: 1.0, 197625: 1.0, 218836: 41.0}
"""The values of the first version."""


def kind_of(**features: Any) -> ContextKind[Any]:
    return context_kind(READ.validate_python({"kind": "named"} | features))


def slot(hashed: int, size: int) -> tuple[int, float]:
    return hashed % 2**63 % size, 1.0 if hashed < 2**63 else -1.0


def mixed(first: int, second: int) -> int:
    x = (first * 0x9E3779B97F4A7C15 + second) & MASK
    for _ in range(2):
        x = ((x ^ (x >> 32)) * 0xD6E8FEB86659FD93) & MASK
    return x ^ (x >> 32)


def expected(names: dict[str, float], size: int) -> dict[int, float]:
    vector: dict[int, float] = {}
    for name, value in names.items():
        index, sign = slot(xxhash.xxh64_intdigest(name.encode(), seed=0), size)
        vector[index] = vector.get(index, 0.0) + sign * value
    return vector


def vector_of(kind: ContextKind[Any], context: dict[str, Any]) -> dict[int, float]:
    checked = kind.check(context)
    return dict(zip(checked.indices, checked.values, strict=True))


def test_hashes_never_change() -> None:
    assert [hash_of(name) for name in ("", "age", "country=FR", "ü=é")] == HASHES
    pair = combined(hashes_of(["age"]), hashes_of(["country=FR"]))
    assert pair.tolist() == PRODUCT
    assert vector_of(kind_of(), CONTEXT) == VECTOR


def test_values_become_named_numbers() -> None:
    assert vector_of(kind_of(), CONTEXT) == expected(NAMES_OF_VALUES, 2**18)


@pytest.mark.parametrize("size", [1, 2, 7, 2**31 - 1])
def test_collisions_add_up(size: int) -> None:
    kind = kind_of(size=size)
    assert vector_of(kind, CONTEXT) == pytest.approx(expected(NAMES_OF_VALUES, size))
    indices = kind.check(CONTEXT).indices
    assert indices == sorted(set(indices))
    assert max(indices) < size


def test_interactions_are_products() -> None:
    context = {"user": {"age": 3, "id": "u"}, "item": {"price": 2.0}, "hour": 5}
    names = {"user.age": 3.0, "user.id=u": 1.0, "item.price": 2.0, "hour": 5.0}
    pairs = {
        ("user", "item"): [("user.age", "item.price"), ("user.id=u", "item.price")],
        ("item", "user"): [("item.price", "user.age"), ("item.price", "user.id=u")],
        ("user", "hour"): [("user.age", "hour"), ("user.id=u", "hour")],
        ("user", "user"): [("user.age", "user.id=u")],
        ("user", "absent"): [],
    }
    for interaction, products in pairs.items():
        vector = expected(names, 2**18)
        for one, other in products:
            index, sign = slot(mixed(hash_of(one), hash_of(other)), 2**18)
            vector[index] = vector.get(index, 0.0) + sign * names[one] * names[other]
        assert vector_of(kind_of(interactions=[list(interaction)]), context) == vector


def test_the_parts_are_the_vector() -> None:
    kind = kind_of(size=5, interactions=[["user", "tags"], ["user", "user"]])
    checked, added = kind.check(CONTEXT), dict[int, float]()
    for part in kind.feature_entries(checked):
        added[part.at] = added.get(part.at, 0.0) + part.value
    assert added == pytest.approx(vector_of(kind, CONTEXT))
    assert [part.name for part in kind.feature_entries(checked)][:8] == NAMES
    assert "user.id=u1*tags=new" in [part.name for part in kind.feature_entries(checked)]


def test_the_order_of_members_does_not_matter() -> None:
    flat = {"user.scores.risk": -0.25, "user.id": "u1"} | {name: CONTEXT[name] for name in reversed(CONTEXT)}
    del flat["user"]
    for size in (1, 3, 2**18):
        kind = kind_of(size=size, interactions=[["user", "user"], ["tags", "user"]])
        assert kind.check(CONTEXT)[1:] == kind.check(flat)[1:]
    numbers = {f"n{i}": 1 / (i + 3) for i in range(30)}
    reversed_ = {name: numbers[name] for name in reversed(numbers)}
    assert kind_of(size=1).check(numbers).values == kind_of(size=1).check(reversed_).values
