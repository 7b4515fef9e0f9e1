"""The law of arbitrary input: no answer is 5xx, every answer is described, and the model stays sound."""

import copy
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import numpy as np
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from service.access.key_admin import IssuedKey
from service.api.middleware.access import need_of
from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.api_description import api_description
from tests.service.described import check_described
from tests.service.error_messages.plain_words import check_problem
from tests.service.keyed import bearer, key_admin_at
from tests.service.sample_models import definition, true_state
from tests.service.workers import Running, running

MODEL = "fuzzed"
SPARSE = "fuzzed-sparse"
FUZZ = settings(
    deadline=None, derandomize=True, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SOME = {"indices": [0, 2**31 - 2], "values": [1.0, 2.0]}
SPARSE_FEATURES = {"kind": "sparse", "size": 2**31 - 1}
VALID: list[tuple[str, dict[str, Any]]] = [
    ("/models", definition(MODEL)),
    ("/models", definition(SPARSE, features=SPARSE_FEATURES, learner={"algorithm": "uniform"})),
    ("/predict", {"model": MODEL, "context": [1.0, 2.0, 3.0], "prediction_id": "a", "include_distribution": True}),
    ("/predict", {"model": SPARSE, "context": SOME}),
    ("/predict/batch", {"model": MODEL, "contexts": [[1.0, 2.0, 3.0], [0.0] * 3], "prediction_ids": ["b", None]}),
    ("/predict/batch", {"model": SPARSE, "contexts": [SOME, SOME]}),
    ("/feedback", {"prediction_id": f"{MODEL}:a", "correct": True, "true_label": "red"}),
    ("/feedback/batch", {"feedback": [{"prediction_id": f"{MODEL}:a", "correct": True}]}),
]
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(10**400)
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))


@pytest.fixture(scope="module")
def fuzzed(store_url: str) -> Iterator[Running]:
    with running(store_url) as one:
        for path, body in VALID[:2]:
            one.send("DELETE", f"/models/{body['name']}")  # pytest-xdist may set the module up again
            assert one.post(path, body).status_code == 201
        yield one


@st.composite
def wrong_bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    path, valid = draw(st.sampled_from(VALID))
    body = json.loads(json.dumps(valid))
    place: Any = body
    key = draw(st.sampled_from(sorted(place)))
    while isinstance(place[key], (dict, list)) and place[key] and draw(st.booleans()):
        place = place[key]
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    if isinstance(place, dict) and draw(st.booleans()):
        key = draw(st.text(max_size=8))
    place[key] = draw(JSON)
    return path, json.dumps(body).encode()


def assert_answered(response: httpx2.Response) -> None:
    assert response.status_code < 500
    assert response.headers["content-type"] in {"application/json", "application/problem+json"}
    assert "status" in response.json() or response.status_code < 300
    if response.status_code >= 400:
        check_problem(response.json())


@FUZZ
@given(wrong_bodies())
def test_a_body_with_any_part_replaced_is_answered(fuzzed: Running, request_: tuple[str, bytes]) -> None:
    assert_answered(fuzzed.post(*request_))


@FUZZ
@given(st.sampled_from(VALID), st.data())
def test_damaged_bytes_are_answered(fuzzed: Running, valid: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    path, content = valid[0], json.dumps(valid[1]).encode()
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, len(content)))
    assert_answered(fuzzed.post(path, content[:start] + data.draw(st.binary(max_size=6)) + content[stop:]))


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@FUZZ
@given(st.lists(FINITE, min_size=3, max_size=3), st.booleans())
def test_any_finite_context_can_be_learned_from(fuzzed: Running, context: list[float], correct: bool) -> None:
    answer = fuzzed.post("/predict", {"model": MODEL, "context": context})
    assert answer.status_code == 200
    assert 0.0 < answer.json()["propensity"] <= 1.0
    feedback = {"prediction_id": answer.json()["prediction_id"], "correct": correct}
    assert fuzzed.post("/feedback", feedback).status_code == 200


def test_the_fuzzed_model_is_sound(fuzzed: Running, store_url: str) -> None:
    answer = fuzzed.post("/predict", {"model": MODEL, "context": [1.0, 2.0, 3.0]})
    assert math.isfinite(answer.json()["propensity"])

    async def state() -> Any:
        store = RedisStore(store_url, timeout=5.0)
        try:
            return await true_state(store, MODEL)
        finally:
            await store.close()

    assert all(np.isfinite(array).all() for array in fuzzed.runner.run(state()))


SCHEMA = schemathesis.openapi.from_dict(copy.deepcopy(api_description()))
OPERATIONS: list[Any] = [each.ok() for each in list[Any](SCHEMA.get_all_operations())]
GENERATED = settings(
    deadline=None,
    derandomize=True,
    max_examples=15,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
GENERATED_MODEL = "schema-fuzz"


class Keyed(NamedTuple):
    """A worker that requires keys, and an admin key."""

    worker: Running
    key: IssuedKey


@pytest.fixture(scope="module")
def keyed(store_url: str) -> Iterator[Keyed]:
    with running(store_url, auth="required") as one:
        store = RedisStore(store_url, timeout=10.0)
        key = one.runner.run(key_admin_at(ApiKeyTable(store.command)).create("fuzz", ["admin"]))
        one.post("/models", definition(GENERATED_MODEL), **bearer(key))
        yield Keyed(one, key)
        one.runner.run(store.close())


def answer_of(keyed: Keyed, case: Any, headers: dict[str, str]) -> httpx2.Response | None:
    request = case.as_transport_kwargs(base_url="http://localhost")
    own = {str(name): str(value) for name, value in request.get("headers", {}).items() if name.lower() != "user-agent"}
    body = {name: request[name] for name in ("json", "data") if name in request}
    content = {"json": body["json"]} if "json" in body else {"content": body.get("data")}
    try:
        built = keyed.worker.client.build_request(
            case.method, request["url"], params=request.get("params"), headers=own | headers, **content
        )
    except (UnicodeError, ValueError, TypeError, httpx2.InvalidURL):
        return None
    return keyed.worker.runner.run(keyed.worker.client.send(built))


def refutable(operation: Any) -> bool:
    raw = operation.definition.raw
    return bool(raw.get("parameters") or raw.get("requestBody"))


MODES = [
    pytest.param(operation, mode, id=f"{operation.label}-{mode.value}")
    for operation in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or refutable(operation)
]


@pytest.mark.parametrize(("operation", "mode"), MODES)
def test_every_answer_is_described(keyed: Keyed, operation: Any, mode: GenerationMode) -> None:
    @GENERATED
    @given(st.data())
    def check(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        response = answer_of(keyed, case, bearer(keyed.key))
        if response is None:
            return
        assert response.status_code < 500, response.text
        check_described(operation.definition.raw["responses"], response)

    check()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.label)
def test_protected_operations_require_a_key(keyed: Keyed, operation: Any) -> None:
    @settings(GENERATED, max_examples=5)  # the key is checked before the rest of the request
    @given(st.data())
    def check(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
        response = answer_of(keyed, case, {"Authorization": "Bearer wk_none"})
        if response is not None and need_of(case.method.upper(), operation.path) is not None:
            assert response.status_code in {401, 429}, response.text  # 429 after too many wrong keys
            check_described(operation.definition.raw["responses"], response)

    check()
