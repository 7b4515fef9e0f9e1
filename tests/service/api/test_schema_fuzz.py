"""Schemathesis on the whole API as openapi.json describes it, with a service that requires keys.

No answer is 5xx, every answer matches the description, and protected operations refuse requests without a key.
"""

import asyncio
import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
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
from tests.service.keyed import bearer, key_admin_at
from tests.service.sample_models import definition
from tests.service.workers import worker

SCHEMA = schemathesis.openapi.from_dict(copy.deepcopy(api_description()))
OPERATIONS: list[Any] = [each.ok() for each in list[Any](SCHEMA.get_all_operations())]
FUZZ = settings(
    deadline=None,
    derandomize=True,
    max_examples=15,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
MODEL = "schema-fuzz"


class Keyed(NamedTuple):
    """A worker that requires keys, and an admin key."""

    runner: asyncio.Runner
    client: httpx2.AsyncClient
    key: IssuedKey


@pytest.fixture(scope="module")
def keyed(store_url: str) -> Iterator[Keyed]:
    """Run one worker for all examples, with a model in its store."""
    with asyncio.Runner() as runner:
        context, store = worker(store_url, auth="required"), RedisStore(store_url, timeout=10.0)
        client = runner.run(context.__aenter__())
        key = runner.run(key_admin_at(ApiKeyTable(store.command)).create("fuzz", ["admin"]))
        runner.run(client.post("/models", json=definition(MODEL), headers=bearer(key)))
        yield Keyed(runner, client, key)
        runner.run(context.__aexit__(None, None, None))
        runner.run(store.close())


def answer_of(keyed: Keyed, case: Any, headers: dict[str, str]) -> httpx2.Response | None:
    """Return the answer to a generated case, or None if no client can send it."""
    request = case.as_transport_kwargs(base_url="http://localhost")
    own = {str(name): str(value) for name, value in request.get("headers", {}).items() if name.lower() != "user-agent"}
    body = {name: request[name] for name in ("json", "data") if name in request}
    content = {"json": body["json"]} if "json" in body else {"content": body.get("data")}
    try:
        built = keyed.client.build_request(
            case.method, request["url"], params=request.get("params"), headers=own | headers, **content
        )
    except (UnicodeError, ValueError, TypeError, httpx2.InvalidURL):
        return None
    return keyed.runner.run(keyed.client.send(built))


def refutable(operation: Any) -> bool:
    """Check whether a request of the operation can be invalid."""
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
    """With a key, valid and invalid requests get no 5xx, and a described status and body."""

    @FUZZ
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
    """Without a valid key, every request to a protected operation gets 401."""

    @settings(FUZZ, max_examples=5)  # the key is checked before the rest of the request
    @given(st.data())
    def check(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
        response = answer_of(keyed, case, {"Authorization": "Bearer wk_none"})
        if response is not None and need_of(case.method.upper(), operation.path) is not None:
            assert response.status_code in {401, 429}, response.text  # 429 after too many wrong keys
            check_described(operation.definition.raw["responses"], response)

    check()


BODIES: dict[str, tuple[int, dict[str, Any]]] = {
    "not JSON": (400, {"content": b"{", "headers": {"content-type": "application/json"}}),
    "as text": (415, {"content": b"{}", "headers": {"content-type": "text/plain"}}),
    "too large": (413, {"content": b" " * (4 * 2**20 + 1), "headers": {"content-type": "application/json"}}),
    "another type": (422, {"json": []}),
    "empty": (422, {"json": {}}),
    "nothing": (422, {"content": b"", "headers": {"content-type": "application/json"}}),
    "many wrong fields": (422, {"json": dict.fromkeys("abcdefghijklmnopqrstuvwxyz")}),
}


def takes_json(operation: Any) -> bool:
    """Check whether an operation has a body of JSON; other laws concern the file of a model."""
    return "application/json" in operation.definition.raw.get("requestBody", {}).get("content", {})


@pytest.mark.parametrize("case", BODIES)
@pytest.mark.parametrize("operation", [each for each in OPERATIONS if takes_json(each)], ids=str)
def test_a_wrong_body_is_answered_as_described(keyed: Keyed, operation: Any, case: str) -> None:
    """Every kind of invalid body gets a described answer, for each operation with a body."""
    status, request = BODIES[case]
    headers = request.get("headers", {}) | bearer(keyed.key)
    method, path = operation.method.upper(), operation.path.replace("{name}", "nobody")
    response = keyed.runner.run(keyed.client.request(method, path, **request | {"headers": headers}))
    if case == "empty" and (method == "PATCH" or path.endswith("/reset")):
        status = 428  # all members of a change are optional
    if case == "empty" and path.endswith(("/explain", "/snapshots")):
        status = 404  # all members are optional
    assert response.status_code in ({status} if need_of(method, path) else {401, 413})
    check_described(operation.definition.raw["responses"], response)
    for wrong in response.json().get("errors", ()):
        assert wrong.keys() == {"field", "detail"}
