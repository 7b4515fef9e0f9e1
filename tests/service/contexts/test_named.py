"""The laws of named features through the service: what is allowed, what is refused, and with which problem."""

from typing import Any

import httpx2
import pytest

from service import costs
from service.contexts.named import NamedFeatures, NamedKind
from service.contexts.named_reader import NamedReader
from service.errors import InvalidInputError
from tests.service.sample_models import post, slug_of

NUMBER = {"type": "number"}
FIELDS = {
    "age": NUMBER | {"minimum": 0, "maximum": 150, "required": True},
    "user.country": {"type": "string", "values": ["FR", "DE"]},
    "user.premium": {"type": "boolean"},
    "tags": {"type": "strings", "values": ["new", "old"]},
}
GOOD = {"age": 41, "user": {"country": "FR", "premium": False}, "tags": ["new"]}
JSON = {"content-type": "application/json"}


async def create(client: httpx2.AsyncClient, name: str, status: int = 201, **features: Any) -> Any:
    return await post(client, "/models", status, name=name, labels=["a", "b"], features={"kind": "named"} | features)


async def predict(client: httpx2.AsyncClient, name: str, context: Any) -> dict[str, Any]:
    """Predict; return the answer or the problem."""
    answer: dict[str, Any] = (await client.post("/predict", json={"model": name, "context": context})).json()
    return answer


async def test_a_new_model_has_the_defaults(client: httpx2.AsyncClient, name: str) -> None:
    defaults = {"kind": "named", "size": 2**18, "norm": "none", "norm_bound": 1.0, "intercept": True}
    defaults |= {"fields": None, "closed": False, "interactions": None}
    assert (await create(client, name))["features"] == defaults
    assert "label" in await predict(client, name, {})
    problem = await post(client, "/predict", 422, model=name)  # a context is needed, though it may be empty
    assert (slug_of(problem), problem["field"]) == ("missing-field", "context")


BAD: list[tuple[Any, str, str]] = [
    ({"a": [1]}, "wrong-feature-type", "context.a.0"),
    ({"a": [["x"]]}, "wrong-feature-type", "context.a.0"),
    ({"a": {"b": [None]}}, "wrong-feature-type", "context.a.b.0"),
    ({"a": [{}]}, "wrong-feature-type", "context.a.0"),
    ({"": 1}, "invalid-feature-name", "context."),
    ({"a": {"": 1}}, "invalid-feature-name", "context.a"),
    ({"a": 1, "x" * 257: 2}, "invalid-feature-name", f"context.{'x' * 256}…"),
    ({"a.b": 1, "a": {"b": 2}}, "invalid-feature-name", "context.a.b"),
    ({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {}}}}}}}}}, "invalid-feature-name", "context.a.b.c.d.e.f.g.h"),
    ({"a": "x" * 1025}, "wrong-feature-value", "context.a"),
    ({"a": ["x", "x" * 1025]}, "wrong-feature-value", "context.a.1"),
    ({f"s{j}": {f"n{i}": i for i in range(900)} for j in range(5)}, "too-many-features", "context"),
    ({"tags": [str(i) for i in range(4097)]}, "too-many-features", "context"),
    ({"u": {f"x{i}": i for i in range(70)}, "v": {f"x{i}": i for i in range(70)}}, "too-many-features", "context"),
    ([1.0], "wrong-context-length", "context"),
    ({"indices": [1], "values": [2.0]}, "wrong-context-length", "context"),
    (None, "wrong-type", "context"),
    ("text", "wrong-type", "context"),
]


async def test_a_bad_context_is_refused(client: httpx2.AsyncClient, name: str) -> None:
    """The problem has its own type and names the field; nothing is stored, and items of a batch fail alone."""
    await create(client, name, interactions=[["u", "v"]])
    for number, (context, slug, field) in enumerate(BAD):
        problem = await predict(client, name, context)
        assert (slug_of(problem), problem["field"]) == (slug, field), problem
        batch = await post(client, "/predict/batch", model=name, contexts=[context, {"a": 1}])
        assert [slug_of(each) for each in batch["predictions"]] == [slug, "ok"]
        assert (await client.get(f"/models/{name}")).json()["predictions"] == number + 1


@pytest.mark.parametrize("limits", [None, {}, {"minimum": 0}, {"maximum": 0}])
async def test_numbers_are_finite(client: httpx2.AsyncClient, name: str, limits: Any) -> None:
    """NaN and infinities are refused as in dense contexts, and integers that are infinite as doubles."""
    await create(client, name, fields=None if limits is None else {"a.b": NUMBER | limits})
    for number in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 310, "9" * 5000):
        body = f'{{"model":"{name}","context":{{"a":{{"b":{number}}}}}}}'.encode()
        response = await client.post("/predict", content=body, headers=JSON)
        assert response.status_code in {400, 422}
        if len(number) < 10:
            assert (slug_of(response.json()), response.json()["field"]) == ("not-finite", "context.a.b")
            assert "must be a finite number" in response.json()["detail"]
    assert "label" in await predict(client, name, {"age": 10**300})


@pytest.mark.parametrize(
    ("context", "field"),
    [({"a": "\ud800"}, "context.a"), ({"a": ["b", "\udc00"]}, "context.a.1"), ({"\udc00": 1}, "context")],
)
def test_half_a_surrogate_pair_is_refused(context: dict[str, Any], field: str) -> None:
    """Strings that UTF-8 cannot encode have no hash; no request has them, but a program may."""
    with pytest.raises(InvalidInputError, match="without half a surrogate pair") as found:
        NamedReader({}, closed=False).read(context)
    assert found.value.field == field


WRONG: list[tuple[dict[str, Any], str, str, str]] = [
    ({"age": "41"}, "wrong-feature-type", "age", 'got "41"; must be a number'),
    ({"age": True}, "wrong-feature-type", "age", "got true; must be a number"),
    ({"age": -1}, "wrong-feature-value", "age", "got -1; must be at least 0 and at most 150"),
    ({"age": 151.0}, "wrong-feature-value", "age", "got 151.0; must be at least 0 and at most 150"),
    ({"age": None}, "missing-feature", "age", "missing"),
    ({"user": {"country": 1}}, "wrong-feature-type", "user.country", "got 1; must be a string"),
    ({"user": {"country": "fr"}}, "wrong-feature-value", "user.country", 'got "fr"; '),
    ({"user": {"premium": "yes"}}, "wrong-feature-type", "user.premium", "must be true or false"),
    ({"user": "u1"}, "unknown-feature", "user", "the model has no such feature"),
    ({"user": {"county": "FR"}}, "unknown-feature", "user.county", 'did you mean "user.country"?'),
    ({"tags": "new"}, "wrong-feature-type", "tags", 'got "new"; must be a list of strings'),
    ({"tags": ["new", "odd"]}, "wrong-feature-value", "tags", 'got "odd"; '),
    ({"size": 1}, "unknown-feature", "size", "the model has no such feature"),
    ({"size": None}, "unknown-feature", "size", "the model has no such feature"),
    ({"age": {"years": 41}}, "wrong-feature-type", "age", "must be a number"),
]


async def test_fields_say_what_is_allowed(client: httpx2.AsyncClient, name: str) -> None:
    """Declared features have their type and values; a closed model has no others, but null in their places."""
    await create(client, name, fields=FIELDS, closed=True)
    for context in (GOOD, *({"age": 0} | more for more in ({}, {"tags": None}, {"user": {"country": None}}))):
        assert "label" in await predict(client, name, context)
    for change, slug, field, detail in WRONG:
        problem = await predict(client, name, GOOD | change)
        assert (slug_of(problem), problem["field"]) == (slug, f"context.{field}"), problem
        assert detail in problem["detail"]
    opened = f"{name}.open"
    await create(client, opened, fields=FIELDS)
    assert "label" in await predict(client, opened, GOOD | {"size": 1, "user": {"id": "u1"}})
    assert (await predict(client, opened, GOOD | {"age": "old"}))["field"] == "context.age"
    for limit, detail in (({"minimum": 0}, "at least 0"), ({"maximum": -2}, "at most -2")):
        limited = f"{name}.{next(iter(limit))}"
        await create(client, limited, fields={"age": NUMBER | limit})
        assert (await predict(client, limited, {"age": -1}))["detail"].endswith(f"got -1; must be {detail}")


async def test_equal_contexts_are_one_request(client: httpx2.AsyncClient, name: str) -> None:
    """A repeated request may write a number in another way, and its members in another order."""
    await create(client, name)
    equal: list[tuple[Any, Any]] = [({"x": 1}, {"x": 1.0}), ({"u": {"x": 0}}, {"u": {"x": -0.0}})]
    equal.append(({"a": 1, "b": "c"}, {"b": "c", "a": 1}))
    for i, pair in enumerate(equal):
        first, again = [await post(client, "/predict", model=name, context=x, prediction_id=f"p{i}") for x in pair]
        assert first == again
    different: list[tuple[Any, Any]] = [({"x": 1}, {"x": True}), ({"x": 2**53}, {"x": 2**53 + 1})]
    for i, (one, other) in enumerate([*different, ({"b": "c"}, {"b": "d"})]):
        await post(client, "/predict", 200, model=name, context=one, prediction_id=f"q{i}")
        await post(client, "/predict", 409, model=name, context=other, prediction_id=f"q{i}")


CLOSED: dict[str, Any] = {"fields": {"a": NUMBER}, "closed": True}
CREATIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"size": 0}, "out-of-range", "size"),
    ({"closed": True}, "invalid-features", "closed"),
    ({"closed": True, "fields": {}}, "invalid-features", "closed"),
    ({"fields": {"a..b": NUMBER}}, "invalid-features", "fields.a..b"),
    ({"fields": {"a": NUMBER | {"minimum": 2, "maximum": 1}}}, "invalid-features", "fields.a.minimum"),
    ({"fields": {"a": {"type": "text"}}}, "unknown-choice", "fields.a.type"),
    ({"fields": {"a": {}}}, "missing-field", "fields.a.type"),
    ({"fields": {"a": {"type": "boolean", "minimum": 1}}}, "unknown-field", "fields.a.minimum"),
    ({"fields": {"a": {"type": "string", "values": []}}}, "out-of-range", "fields.a.values"),
    (CLOSED | {"interactions": [["a", "b"]]}, "unknown-namespace", "interactions.0.1"),
    ({"interactions": [["a", "b"], ["a.c", "b"]]}, "unknown-namespace", "interactions.1.0"),
    ({"interactions": [["a", "b"], ["a", "b"]]}, "invalid-features", "interactions.1"),
    ({"interactions": [["a"]]}, "out-of-range", "interactions.0"),
    ({"interactions": [["a", "b", "c"]]}, "out-of-range", "interactions.0"),
    ({"interactions": [["a", ""]]}, "out-of-range", "interactions.0.1"),
    ({"interactions": ["ab"]}, "wrong-type", "interactions.0"),
    ({"norm": "clip"}, "unknown-choice", "norm"),
    ({"intercept": 1}, "wrong-type", "intercept"),
]


async def test_bad_features_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    for features, slug, field in CREATIONS:
        problem = await create(client, name, 422, **features)
        assert (slug_of(problem), problem["field"]) == (slug, f"features.{field}"), problem
    assert (await client.get(f"/models/{name}")).status_code == 404


PAIRS = [[["a", "b"]], [["a", "a"]], [["a", "b"], ["b", "a"]], [["a", "a"], ["b", "b"], ["a", "b"]]]


@pytest.mark.parametrize("pairs", PAIRS, ids=str)
@pytest.mark.parametrize("sizes", [(1, 0), (7, 0), (4, 5), (2, 40), (90, 0), (40, 40)])
def test_the_cost_of_a_context_covers_its_products(pairs: list[list[str]], sizes: tuple[int, int]) -> None:
    """Whatever the pairs, the cost of reading a context of n features is enough for all products that it may have."""
    kind = NamedKind(NamedFeatures(kind="named", interactions=pairs))
    context = {space: {f"x{i}": 1.5 for i in range(n)} for space, n in zip("ab", sizes, strict=True)}
    products = len(kind.feature_entries(kind.checked(context))) - sum(sizes)
    least = sum(sizes) * costs.CONTEXT_FEATURE + products * costs.CONTEXT_PRODUCT
    assert kind.cost_of(sum(sizes)) >= least


async def test_a_learner_with_a_dense_state_is_refused_with_advice(client: httpx2.AsyncClient, name: str) -> None:
    """A state for 2^18 indices is too large for most learners; the problem says what to do."""
    body: dict[str, Any] = {"name": name, "labels": ["a", "b"], "learner": "epsilon-greedy-ridge"}
    problem = await post(client, "/models", 422, **body, features={"kind": "named"})
    assert slug_of(problem) == "model-too-large"
    assert problem["detail"].endswith(" or choose a smaller features.size")
    await post(client, "/models", 201, **body, features={"kind": "named", "size": 64})
