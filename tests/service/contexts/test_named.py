"""The laws of named features through the service: what is allowed, what is refused, and with which problem."""

from typing import Any

import httpx2
import pytest

from service.contexts.named_reader import NamedReader
from service.errors import InvalidInputError

FIELDS = {
    "age": {"type": "number", "minimum": 0, "maximum": 150, "required": True},
    "user.country": {"type": "string", "values": ["FR", "DE"]},
    "user.premium": {"type": "boolean"},
    "tags": {"type": "strings", "values": ["new", "old"]},
}
GOOD = {"age": 41, "user": {"country": "FR", "premium": False}, "tags": ["new"]}


async def create(client: httpx2.AsyncClient, name: str, **features: Any) -> httpx2.Response:
    """Create a model with named features."""
    body = {"name": name, "labels": ["a", "b"], "features": {"kind": "named"} | features}
    return await client.post("/models", json=body)


async def predict(client: httpx2.AsyncClient, name: str, context: Any) -> dict[str, Any]:
    """Predict; return the answer or the problem."""
    answer: dict[str, Any] = (await client.post("/predict", json={"model": name, "context": context})).json()
    return answer


async def test_a_new_model_has_the_defaults(client: httpx2.AsyncClient, name: str) -> None:
    """The default size is 2^18, and the recommended learner takes contexts as they are, with an intercept."""
    created = (await create(client, name)).json()
    assert created["features"] == {
        "kind": "named",
        "size": 2**18,
        "norm": "none",
        "norm_bound": 1.0,
        "intercept": True,
        "fields": None,
        "closed": False,
        "interactions": None,
    }
    assert "label" in await predict(client, name, {})


@pytest.mark.parametrize(
    ("context", "slug", "field"),
    [
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
    ],
)
async def test_a_bad_context_is_refused(
    client: httpx2.AsyncClient, name: str, context: Any, slug: str, field: str
) -> None:
    """The problem has its own type and names the field; nothing is stored, and items of a batch fail alone."""
    await create(client, name, interactions=[["u", "v"]])
    problem = await predict(client, name, context)
    assert (problem["type"], problem["field"]) == (f"urn:wager:problem:{slug}", field), problem
    batch = await client.post("/predict/batch", json={"model": name, "contexts": [context, {"a": 1}]})
    first, second = batch.json()["predictions"]
    assert (first["type"], "label" in second) == (problem["type"], True)
    assert (await client.get(f"/models/{name}")).json()["predictions"] == 1


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("limits", [None, {}, {"minimum": 0}, {"maximum": 0}])
async def test_numbers_are_finite(client: httpx2.AsyncClient, name: str, number: str, limits: Any) -> None:
    """NaN and infinities are refused as in dense contexts, wherever they are, and whatever the limits of the field."""
    fields = None if limits is None else {"a.b": {"type": "number"} | limits}
    assert (await create(client, name, fields=fields)).status_code == 201
    body = f'{{"model":"{name}","context":{{"a":{{"b":{number}}}}}}}'.encode()
    problem = (await client.post("/predict", content=body, headers={"content-type": "application/json"})).json()
    assert (problem["type"], problem["field"]) == ("urn:wager:problem:not-finite", "context.a.b")
    assert "must be a finite number" in problem["detail"]


@pytest.mark.parametrize(
    ("context", "field"),
    [({"a": "\ud800"}, "context.a"), ({"a": ["b", "\udc00"]}, "context.a.1"), ({"\udc00": 1}, "context")],
)
def test_half_a_surrogate_pair_is_refused(context: dict[str, Any], field: str) -> None:
    """Strings that UTF-8 cannot encode have no hash; no request has them, but a program may."""
    with pytest.raises(InvalidInputError, match="without half a surrogate pair") as found:
        NamedReader({}, closed=False).read(context)
    assert found.value.field == field


async def test_a_missing_context_is_refused(client: httpx2.AsyncClient, name: str) -> None:
    """A model with features needs a context, though it may be empty."""
    await create(client, name)
    problem = (await client.post("/predict", json={"model": name})).json()
    assert (problem["type"], problem["field"]) == ("urn:wager:problem:missing-field", "context")


@pytest.mark.parametrize(
    ("change", "slug", "field", "detail"),
    [
        ({"age": "41"}, "wrong-feature-type", "context.age", 'got "41"; must be a number'),
        ({"age": True}, "wrong-feature-type", "context.age", "got true; must be a number"),
        ({"age": -1}, "wrong-feature-value", "context.age", "got -1; must be at least 0 and at most 150"),
        ({"age": 151.0}, "wrong-feature-value", "context.age", "got 151.0; must be at least 0 and at most 150"),
        ({"age": None}, "missing-feature", "context.age", "missing"),
        ({"user": {"country": 1}}, "wrong-feature-type", "context.user.country", "got 1; must be a string"),
        ({"user": {"country": "fr"}}, "wrong-feature-value", "context.user.country", 'got "fr"; '),
        ({"user": {"premium": "yes"}}, "wrong-feature-type", "context.user.premium", "must be true or false"),
        ({"user": "u1"}, "unknown-feature", "context.user", "the model has no such feature"),
        ({"user": {"county": "FR"}}, "unknown-feature", "context.user.county", 'did you mean "user.country"?'),
        ({"tags": "new"}, "wrong-feature-type", "context.tags", 'got "new"; must be a list of strings'),
        ({"tags": ["new", "odd"]}, "wrong-feature-value", "context.tags", 'got "odd"; '),
        ({"size": 1}, "unknown-feature", "context.size", "the model has no such feature"),
        ({"size": None}, "unknown-feature", "context.size", "the model has no such feature"),
        ({"age": {"years": 41}}, "wrong-feature-type", "context.age", "must be a number"),
    ],
)
async def test_fields_say_what_is_allowed(
    client: httpx2.AsyncClient, name: str, change: Any, slug: str, field: str, detail: str
) -> None:
    """Declared features have their type and their values, and a closed model has no others."""
    assert (await create(client, name, fields=FIELDS, closed=True)).status_code == 201
    assert "label" in await predict(client, name, GOOD)
    assert "label" in await predict(client, name, {"age": 0})
    problem = await predict(client, name, GOOD | change)
    assert (problem["type"], problem["field"]) == (f"urn:wager:problem:{slug}", field), problem
    assert detail in problem["detail"]


@pytest.mark.parametrize(("limit", "detail"), [({"minimum": 0}, "at least 0"), ({"maximum": -2}, "at most -2")])
async def test_a_field_may_have_one_limit(
    client: httpx2.AsyncClient, name: str, limit: dict[str, Any], detail: str
) -> None:
    """A number beyond the only limit is refused, and the limit named."""
    await create(client, name, fields={"age": NUMBER | limit})
    problem = await predict(client, name, {"age": -1})
    assert (problem["type"], problem["field"]) == ("urn:wager:problem:wrong-feature-value", "context.age")
    assert problem["detail"].endswith(f"got -1; must be {detail}")


@pytest.mark.parametrize("absent", [{"tags": None}, {"user": None}, {"user": {"country": None}}])
async def test_null_is_absent(client: httpx2.AsyncClient, name: str, absent: dict[str, Any]) -> None:
    """A closed model allows null in the place of a feature or a namespace that it knows."""
    await create(client, name, fields=FIELDS, closed=True)
    assert "label" in await predict(client, name, {"age": 1} | absent)
    problem = await predict(client, name, {"age": None})
    assert problem["type"] == "urn:wager:problem:missing-feature"


@pytest.mark.parametrize("digits", [310, 4000, 5000])
async def test_an_integer_beyond_doubles_is_refused(client: httpx2.AsyncClient, name: str, digits: int) -> None:
    """An integer that is infinite as a double is refused like the double."""
    await create(client, name)
    content = f'{{"model": "{name}", "context": {{"age": {"9" * digits}}}}}'
    response = await client.post("/predict", content=content, headers={"content-type": "application/json"})
    assert response.status_code in {400, 422}, response.text
    assert "label" in await predict(client, name, {"age": 10**300})


@pytest.mark.parametrize(("first", "second"), [({"x": 1}, {"x": 1.0}), ({"u": {"x": 0}}, {"u": {"x": -0.0}})])
async def test_equal_contexts_are_one_request(
    client: httpx2.AsyncClient, name: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """A repeated request may write a number in another way; true is another value than 1."""
    await create(client, name)
    body = {"model": name, "prediction_id": "mine"}
    answers = [(await client.post("/predict", json=body | {"context": each})).json() for each in (first, second)]
    assert answers[0] == answers[1]
    other = await client.post("/predict", json=body | {"context": {"x": True}})
    assert other.status_code == 409
    large = [
        await client.post("/predict", json=body | {"prediction_id": "l", "context": {"x": 2**53 + i}}) for i in (0, 1)
    ]
    assert [each.status_code for each in large] == [200, 409]


async def test_an_open_model_allows_other_features(client: httpx2.AsyncClient, name: str) -> None:
    """Without `closed`, undeclared features are allowed, and declared ones are still checked."""
    await create(client, name, fields=FIELDS)
    assert "label" in await predict(client, name, GOOD | {"size": 1, "user": {"id": "u1"}})
    problem = await predict(client, name, GOOD | {"age": "old"})
    assert problem["field"] == "context.age"


NUMBER = {"type": "number"}
CLOSED: dict[str, Any] = {"fields": {"a": NUMBER}, "closed": True}
CREATIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"size": 0}, "out-of-range", "features.size"),
    ({"closed": True}, "invalid-features", "features.closed"),
    ({"closed": True, "fields": {}}, "invalid-features", "features.closed"),
    ({"fields": {"a..b": NUMBER}}, "invalid-features", "features.fields.a..b"),
    ({"fields": {"a": NUMBER | {"minimum": 2, "maximum": 1}}}, "invalid-features", "features.fields.a.minimum"),
    ({"fields": {"a": {"type": "text"}}}, "unknown-choice", "features.fields.a.type"),
    ({"fields": {"a": {}}}, "missing-field", "features.fields.a.type"),
    ({"fields": {"a": {"type": "boolean", "minimum": 1}}}, "unknown-field", "features.fields.a.minimum"),
    ({"fields": {"a": {"type": "string", "values": []}}}, "out-of-range", "features.fields.a.values"),
    (CLOSED | {"interactions": [["a", "b"]]}, "unknown-namespace", "features.interactions.0.1"),
    ({"interactions": [["a", "b"], ["a.c", "b"]]}, "unknown-namespace", "features.interactions.1.0"),
    ({"interactions": [["a", "b"], ["a", "b"]]}, "invalid-features", "features.interactions.1"),
    ({"interactions": [["a"]]}, "out-of-range", "features.interactions.0"),
    ({"interactions": [["a", "b", "c"]]}, "out-of-range", "features.interactions.0"),
    ({"interactions": [["a", ""]]}, "out-of-range", "features.interactions.0.1"),
    ({"interactions": ["ab"]}, "wrong-type", "features.interactions.0"),
    ({"norm": "clip"}, "unknown-choice", "features.norm"),
    ({"intercept": 1}, "wrong-type", "features.intercept"),
]


@pytest.mark.parametrize(("features", "slug", "field"), CREATIONS)
async def test_bad_features_are_refused(
    client: httpx2.AsyncClient, name: str, features: dict[str, Any], slug: str, field: str
) -> None:
    """The problem has its own type and names the field; no model is created."""
    body = {"name": name, "labels": ["a", "b"], "features": {"kind": "named"} | features}
    refused = await client.post("/models", json=body)
    problem = refused.json()
    assert refused.status_code == 422, problem
    assert (problem["type"], problem["field"]) == (f"urn:wager:problem:{slug}", field), problem
    assert (await client.get(f"/models/{name}")).status_code == 404


async def test_a_learner_with_a_dense_state_is_refused_with_advice(client: httpx2.AsyncClient, name: str) -> None:
    """A state for 2^18 indices is too large for most learners; the problem says what to do."""
    body = {"name": name, "labels": ["a", "b"], "features": {"kind": "named"}, "learner": "epsilon-greedy-ridge"}
    problem = (await client.post("/models", json=body)).json()
    assert problem["type"] == "urn:wager:problem:model-too-large"
    assert problem["detail"].endswith("choose a smaller features.size, or omit learner")
    small = body | {"features": {"kind": "named", "size": 64}}
    assert (await client.post("/models", json=small)).status_code == 201


async def test_the_same_context_in_another_order_is_the_same(client: httpx2.AsyncClient, name: str) -> None:
    """A repeated id returns the stored prediction if the members are equal, in any order; else it conflicts."""
    await create(client, name)
    body = {"model": name, "prediction_id": "x", "context": {"a": 1, "b": "c"}}
    first = (await client.post("/predict", json=body)).json()
    assert (await client.post("/predict", json=body | {"context": {"b": "c", "a": 1}})).json() == first
    other = await client.post("/predict", json=body | {"context": {"a": 1, "b": "d"}})
    assert other.status_code == 409
