"""The laws of vector fields: their place, their numbers, their products, and what is refused."""

import json
from typing import Any

import httpx2
import numpy as np
import pytest

from service.contexts.hashing import combined, hash_of, indices_of, signs_of
from service.contexts.kind import ContextKind
from service.contexts.named import MOST_FEATURES
from service.contexts.registry import context_kind
from service.contexts.vectors import MOST_ENTRIES
from service.errors import InvalidInputError, StoreCorruptError
from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.contexts.test_as_sent import logged
from tests.service.contexts.test_kinds import READ_FEATURES
from tests.service.sample_models import bits, post, true_state
from tests.service.workers import worker

SIZE = 64
FIELDS: dict[str, Any] = {
    "user.taste": {"type": "vector", "size": 3},
    "item": {"type": "vector", "size": 2, "precision": "float32"},
    "user.age": {"type": "number"},
}
FULL = {"user": {"taste": [0.1, -0.0, 1e-60], "age": 41}, "item": [1 / 3, 7], "country": "FR"}
CONTEXTS: list[dict[str, Any]] = [FULL, {"user.taste": [1, 2, 3]}, {"item": [5, 0]}, {"country": "DE"}, {}]


def kind_of(**features: Any) -> ContextKind[Any]:
    return context_kind(READ_FEATURES.validate_python({"kind": "named", "size": SIZE, "fields": FIELDS} | features))


def vector_of(kind: ContextKind[Any], context: dict[str, Any]) -> dict[int, float]:
    batch = kind.to_batch([kind.check(context)])
    assert len(set(batch.indices.tolist())) == len(batch.indices)
    return dict(zip(batch.indices.tolist(), batch.values.tolist(), strict=True))


def test_each_vector_has_its_own_indices_in_the_order_of_paths() -> None:
    """The order of declarations and of members does not matter."""
    kind, other = kind_of(), kind_of(fields=dict(reversed(FIELDS.items())))
    vector = vector_of(kind, FULL)
    own = {index: value for index, value in vector.items() if index >= SIZE}
    single = float(np.float32(1 / 3))
    assert own == {64: single, 65: 7.0, 66: 0.1, 67: -0.0, 68: 1e-60}
    assert {i: x for i, x in vector.items() if i < SIZE} == vector_of(kind, {"user": {"age": 41}, "country": "FR"})
    assert vector_of(other, dict(reversed(FULL.items()))) == vector
    assert READ_FEATURES.validate_python({"kind": "named", "size": SIZE, "fields": FIELDS}).n_features == SIZE + 5


def hashes_of_space(vectors: dict[str, list[float]], names: dict[str, float]) -> list[tuple[np.uint64, float]]:
    plain = [(np.uint64(hash_of(name)), x) for name, x in sorted(names.items())]
    of_vectors = [
        (combined(np.array([hash_of(path)], np.uint64), np.array([i], np.uint64))[0], x)
        for path, numbers in sorted(vectors.items())
        for i, x in enumerate(numbers)
    ]
    return plain + of_vectors


@pytest.mark.parametrize("pair", [["user", "country"], ["country", "user"], ["user", "item"], ["user", "user"]])
def test_products_with_a_vector_follow_the_specification(pair: list[str]) -> None:
    single = [float(np.float32(x)) for x in [1 / 3, 7.0]]
    spaces = {
        "user": hashes_of_space({"user.taste": [0.1, -0.0, 1e-60]}, {"user.age": 41.0}),
        "country": hashes_of_space({}, {"country=FR": 1.0}),
        "item": hashes_of_space({"item": single}, {}),
    }
    first, second = (spaces[space] for space in pair)
    both = [(a, b) for i, a in enumerate(first) for b in second[(i + 1) * (pair[0] == pair[1]) :]]
    expected = vector_of(kind_of(), FULL)
    for (one, x), (other, y) in both:
        hashed = combined(np.array([one]), np.array([other]))
        index = int(indices_of(hashed, SIZE)[0])
        expected[index] = expected.get(index, 0.0) + float(signs_of(hashed)[0]) * x * y
    kind = kind_of(interactions=[pair])
    assert vector_of(kind, FULL) == pytest.approx(expected, abs=1e-15)
    parts, found = kind.feature_entries(kind.check(FULL)), dict[int, float]()
    for part in parts:
        found[part.at] = found.get(part.at, 0.0) + part.value
    assert found == pytest.approx(expected, abs=1e-15)
    assert len(parts) == 7 + len(both)
    assert len({part.name for part in parts}) == len(parts)
    assert {part.name: part.path for part in parts}["user.taste[1]"] == "user.taste.1"
    assert {len(part.path) > 0 for part in parts if "*" in part.name} == {False}
    assert sorted(kind.part_names(FULL)) == sorted(part.name for part in parts)


def test_the_stored_bytes_hold_each_number_once_and_in_its_precision() -> None:
    kind = kind_of(interactions=[["user", "item"]])
    checked = [kind.check(each) for each in CONTEXTS]
    batch = kind.to_batch(checked)
    encoded = kind.codec.encode(batch)
    again = kind.codec.decode(b"".join(encoded), np.cumsum([0, *map(len, encoded)]))
    assert [column.tobytes() for column in again[:3]] == [column.tobytes() for column in batch[:3]]
    stored = [len(part) + len(kind.sent(each)) for part, each in zip(encoded, checked, strict=True)]
    assert stored[1] == 2 + 3 * 8 + len(b'{"user.taste":0}')
    assert stored[2] == 2 + 2 * 4 + len(b'{"item":0}')
    for i, context in enumerate(CONTEXTS):
        shown = kind.show(again, i, kind.sent(checked[i]))
        assert kind.check(shown).sent == shown
        assert kind.fingerprinted(kind.check(shown)) == kind.fingerprinted(checked[i])
        if "item" not in context:
            assert shown == context
            assert str(shown).count("-0.0") == str(context).count("-0.0")


def test_damaged_vectors_are_refused() -> None:
    kind = kind_of()
    (part,) = kind.codec.encode(kind.to_batch([kind.check(FULL)]))
    for damaged in (b"", part[:1], b"\2" + part[1:], part[:9], part[:-1]):
        with pytest.raises(StoreCorruptError):
            kind.codec.decode(damaged, np.array([0, len(damaged)]))


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "shorter": ({"user": {"taste": [1, 2]}}, "wrong-feature-value", "context.user.taste"),
    "longer": ({"user": {"taste": [1] * 4}}, "wrong-feature-value", "context.user.taste"),
    "empty": ({"item": []}, "wrong-feature-value", "context.item"),
    "nested": ({"item": [1, [2]]}, "wrong-feature-type", "context.item.1"),
    "text": ({"item": ["1", 2]}, "wrong-feature-type", "context.item.0"),
    "true": ({"item": [1, True]}, "wrong-feature-type", "context.item.1"),
    "null": ({"item": [None, 1]}, "wrong-feature-type", "context.item.0"),
    "object": ({"item": [1, {}]}, "wrong-feature-type", "context.item.1"),
    "number": ({"item": 3}, "wrong-feature-type", "context.item"),
    "members": ({"item": {"a": 1}}, "wrong-feature-type", "context.item"),
    "too large": ({"item": [1, -1e19]}, "not-finite", "context.item.1"),
    "a huge integer": ({"item": [10**400, 1]}, "not-finite", "context.item.0"),
    "twice": ({"user.taste": [1, 2, 3], "user": {"taste": [1, 2, 3]}}, "invalid-feature-name", "context.user.taste"),
    "undeclared": ({"user": {"other": [1.5, 2]}}, "wrong-feature-type", "context.user.other.0"),
}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_program_cannot_pass_numbers_that_are_not_finite(number: float) -> None:
    with pytest.raises(InvalidInputError) as refused:
        kind_of().check({"item": [1.0, number]})
    assert refused.value.field == "context.item.1"


@pytest.fixture
def api(client: httpx2.AsyncClient, name: str) -> Api:
    return Api(client, "", name)


@pytest.mark.parametrize("wrong", WRONG)
async def test_wrong_vectors_are_refused_by_name_and_nothing_is_stored(api: Api, wrong: str) -> None:
    features = {"kind": "named", "size": SIZE, "fields": FIELDS}
    body_of(await api.post("/models", name=api.name, labels=["a", "b"], features=features), 201)
    actions = {"features": {"kind": "named", "fields": FIELDS}}
    chooser = api.named(f"{api.name}-actions")
    body_of(await api.post("/models", name=chooser.name, actions=actions), 201)
    context, slug, field = WRONG[wrong]
    problem_of(await api.post("/predict", model=api.name, context=context), 422, slug, field)
    problem_of(await api.post(f"/models/{api.name}/explain", context=context), 422, slug, field)
    for right in ({"item": [1, 2]}, {"tags": ["x" * 1000] * 40}):  # bodies that are read as bytes, and by pydantic
        given = [{"id": "right", "features": right}, {"id": "wrong", "features": context}]
        answer = await api.post("/predict", model=chooser.name, actions=given)
        problem_of(answer, 422, slug, field.replace("context", "actions.1.features", 1))
    for each in (api, chooser):
        assert body_of(await each.get(f"/models/{each.name}/statistics"), 200)["predictions"] == 0


async def test_a_required_vector_must_not_be_missing_or_null(api: Api) -> None:
    fields = {"item": {"type": "vector", "size": 2, "required": True}}
    features = {"kind": "named", "fields": fields}
    body_of(await api.post("/models", name=api.name, labels=["a", "b"], features=features), 201)
    for context in ({"a": 1}, {"item": None}):
        problem_of(await api.post("/predict", model=api.name, context=context), 422, "missing-feature", "context.item")


@pytest.mark.parametrize(
    ("features", "field"),
    [
        ({"fields": {"a": {"type": "vector", "size": 0}}}, "features.fields.a.size"),
        ({"fields": {"a": {"type": "vector", "size": MOST_ENTRIES + 1}}}, "features.fields.a.size"),
        ({"fields": {"a": {"type": "vector", "size": 2, "minimum": 1}}}, "features.fields.a.minimum"),
        ({"fields": {"a": {"type": "vector", "size": 2, "precision": "int8"}}}, "features.fields.a.precision"),
        ({"fields": {name: {"type": "vector", "size": 40_000} for name in "ab"}}, "features.fields"),
        ({"size": 2**31 - 1, "fields": {"a": {"type": "vector", "size": 2}}}, "features.fields.a.size"),
        (
            {"fields": {name: {"type": "vector", "size": 400} for name in "ab"}, "interactions": [["a", "b"]]},
            "features.interactions",
        ),
    ],
)  # fmt: skip
async def test_vectors_that_no_model_may_have_are_refused_by_name(api: Api, features: Any, field: str) -> None:
    features = {"kind": "named"} | features
    answer = await api.post("/models", name=api.name, labels=["a", "b"], features=features)
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text


def test_a_context_with_vectors_is_limited_by_its_cost() -> None:
    """Names count as before, numbers of vectors only towards the larger limit."""
    kind = kind_of(fields={"v": {"type": "vector", "size": 1000}}, interactions=[["v", "w"]])
    numbers = [0.5] * 1000
    most = (MOST_ENTRIES - 1000) // 1001
    assert len(kind.check({"v": numbers, "w": {f"n{i}": 1 for i in range(most)}}).indices) > SIZE
    for context in (
        {"v": numbers, "w": {f"n{i}": 1 for i in range(most + 1)}},
        {"v": numbers, "x": {f"n{i}": 1 for i in range(MOST_FEATURES + 1)}},
    ):
        with pytest.raises(InvalidInputError, match="must be at most") as refused:
            kind.check(context)
        assert refused.value.field == "context"
    kind.check({"v": numbers, "x": {f"n{i}": 1 for i in range(MOST_FEATURES)}})


def test_reading_numbers_of_a_vector_costs_less_than_names() -> None:
    kind = kind_of(size=2**18, fields={"v": {"type": "vector", "size": 1000}})
    names, vector = ({f"n{i}": 0.5 for i in range(1000)}, {"v": [0.5] * 1000})
    assert kind.reading_cost(names) > 10 * kind.reading_cost(vector)
    assert kind.source_cost(json.dumps(names).encode()) > 10 * kind.source_cost(json.dumps(vector).encode())
    assert kind.storing_cost(kind.check(names)) > 10 * kind.storing_cost(kind.check(vector))
    product = kind_of(fields={"v": {"type": "vector", "size": 1000}}, interactions=[["v", "w"]])
    assert product.reading_cost(vector | {"w": 1}) > kind.reading_cost(vector | {"w": 1})


@pytest.mark.parametrize("norm", ["none", "scale", "unit", "reject"])
async def test_every_worker_learns_from_what_the_log_shows(
    client: httpx2.AsyncClient, store: RedisStore, store_url: str, name: str, norm: str
) -> None:
    features = {"kind": "named", "size": SIZE, "fields": FIELDS, "interactions": [["user", "item"]]}
    bounded = features | {"norm": norm, "norm_bound": 1e6}
    await post(client, "/models", name=name, labels=["a", "b"], features=bounded, learner="fastcb")
    rows = np.random.default_rng(3).normal(size=(40, 5)).tolist()
    contexts = [{"user": {"taste": row[:3], "age": i}, "item": row[3:]} for i, row in enumerate(rows)]
    contexts += [context for context in CONTEXTS if context]
    made = (await post(client, "/predict/batch", model=name, contexts=contexts[:20]))["predictions"]
    made += [
        await post(client, "/predict", model=name, context=each, prediction_id=f"{name}:{i}")
        for i, each in enumerate(contexts[20:])
    ]
    again = await post(client, "/predict", model=name, context=contexts[20], prediction_id=f"{name}:0")
    assert again == made[20]
    feedback = [{"prediction_id": each["prediction_id"], "correct": i % 3 == 0} for i, each in enumerate(made)]
    await post(client, "/feedback/batch", feedback=feedback)
    found, expected = await logged(client, name), bits(await true_state(store, name))
    for each, context in zip(made, contexts, strict=True):
        assert found[each["prediction_id"]] == single(context)
    async with worker(store_url, seed=2) as other:
        answer = await post(other, f"/models/{name}/explain", context=FULL)
        assert answer["rounds_seen"] == len(contexts)
        assert {"user.taste[0]", "item[1]", "user.taste[2]*item[0]"} <= {each["name"] for each in answer["features"]}
        shown = await post(other, f"/models/{name}/explain", context=single(FULL))
        assert shown == answer
    assert bits(await true_state(store, name)) == expected


def single(context: dict[str, Any]) -> dict[str, Any]:
    """Return the context as the log shows it: numbers of `item` in single precision."""
    rounded = [float(np.float32(x)) for x in context.get("item", [])]
    return context | ({"item": rounded} if rounded else {})
