"""A worker under attack: sends generated requests, some of them led to models and predictions that exist."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import httpx2

from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.fuzz.api.callers import ANYBODY, OWN, Caller, Callers, with_keys
from tests.fuzz.api.checks import Counts, Exchange
from tests.fuzz.api.control import CONTEXT, CONTROL, Control
from tests.service.keyed import key_admin_at
from tests.service.workers import START, Clock, worker

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "QUERY", "OPTIONS")
_CHECK_EVERY = 1000
_KEY_HEADERS = {"authorization", "x-api-key"}
"""Headers that schemathesis generates, of which few are kept: even without keys, a malformed one is refused."""


class Attack:
    """One worker, its callers and its models.

    Args:
        client: calls the worker.
        callers: who sends requests.
        control: the model that must stay sound.
        clock: of the worker; it advances with every request.
        seed: of all choices that schemathesis does not make.
    """

    def __init__(self, client: httpx2.AsyncClient, callers: Callers, control: Control, clock: Clock, seed: int) -> None:
        self._client, self._callers, self._control, self._clock = client, callers, control, clock
        self._random, self._has_keys = Random(seed), bool(callers.owner)
        self._models: deque[dict[str, Any]] = deque(maxlen=20)
        self._predictions: deque[str] = deque(maxlen=50)
        self.counts = Counts()

    async def answer(self, case: Any, led: bool = False) -> httpx2.Response | None:
        """Send a generated case and check the answer; return None if no client can send it.

        Args:
            case: schemathesis' case, which may be changed.
            led: whether to replace random names in it by those of models and predictions.
        """
        caller = self._callers.choose(self._random)
        if led:
            self._lead_path(case, caller)
            self._lead_body(case, caller)
        request = self._built(case, caller)
        if request is None:
            return None
        if _may_destroy_control(request) and caller.name in ("anybody", "admin"):
            return None
        self._clock.now += 0.01
        response = await self._client.send(request)
        self.counts.check(Exchange(case.operation, request.method, caller.name, response))
        self._remember(case, response)
        if self.counts.cases % _CHECK_EVERY == 0:
            await self.check_control()
        return response

    async def check_control(self) -> None:
        """Check that the control model is sound; with keys, that nobody else has taught it."""
        self.counts.checks["control model equals its fold"] += 1
        try:
            await self._control.check(closed=self._has_keys)
        except Exception as error:  # noqa: BLE001  any error is a finding
            self.counts.fail("control model", error)

    def can_lead(self, operation: Any) -> bool:
        """Check whether a case of the operation has variants: other names in it, or other callers."""
        return self._has_keys or "{name}" in operation.path or operation.method == "post"

    async def clear(self) -> None:
        """Delete all models but the control model, so that a long run does not fill the machine."""
        headers = self._callers.senders[0].headers
        while len(found := (await self._client.get("/models", headers=headers)).json()["models"]) > 1:
            for model in found:
                if model["name"] != CONTROL:
                    await self._client.delete(f"/models/{model['name']}", headers=headers)
        self._models.clear()
        self._predictions.clear()

    def _built(self, case: Any, caller: Caller) -> httpx2.Request | None:
        """Return the request of a case; None if its parts are no valid HTTP."""
        if caller.name == "scoped" and isinstance(case.body, dict) and isinstance(case.body.get("name"), str):
            case.body = case.body | {"name": OWN + case.body["name"][:50]}
        sent = case.as_transport_kwargs(base_url="http://localhost")
        own = {str(name): str(value) for name, value in sent.get("headers", {}).items() if name.lower() != "user-agent"}
        content = {"json": sent["json"]} if "json" in sent else {"content": sent.get("data")}
        keys = _KEY_HEADERS if self._random.random() < 0.98 else {name.lower() for name in caller.headers}
        headers = {name: value for name, value in own.items() if name.lower() not in keys} | caller.headers
        try:
            return self._client.build_request(
                self._method(case), sent["url"], params=sent.get("params"), headers=headers, **content
            )
        except (UnicodeError, ValueError, TypeError, httpx2.InvalidURL):
            return None

    def _method(self, case: Any) -> str:
        own: str = case.operation.method.upper()
        if self._random.random() >= 0.02:
            return own
        there = {method.upper() for method in case.operation.schema[case.operation.path]}
        return self._random.choice([method for method in _METHODS if method not in there])

    def _lead_path(self, case: Any, caller: Caller) -> None:
        if "name" in (case.path_parameters or {}):
            model = self._model(caller)
            case.path_parameters = dict(case.path_parameters) | {"name": model["name"]}
        if any(each.name == "if-match" for each in case.operation.headers) and self._random.random() < 0.5:
            case.headers = dict(case.headers or {}) | {"if-match": "*"}

    def _lead_body(self, case: Any, caller: Caller) -> None:
        if not isinstance(case.body, dict):
            return
        if "model" in case.body:
            model = self._model(caller)
            case.body = case.body | {"model": model["name"]}
            if case.operation.path == "/predict" and model["context"] is not None:
                kept = ("prediction_id", "include_distribution", "activated")
                rest = {key: value for key, value in case.body.items() if key in kept}
                case.body = rest | {"model": model["name"], "context": model["context"]}
        if "prediction_id" in case.body and case.operation.path != "/predict" and self._predictions:
            case.body = case.body | {"prediction_id": self._random.choice(self._predictions)}

    def _model(self, caller: Caller) -> dict[str, Any]:
        """Return a model; with keys, the control model only to callers who may not use it."""
        control = {"name": CONTROL, "context": CONTEXT}
        may_attack = not self._has_keys or caller.name != "admin"
        if not self._models or (may_attack and self._random.random() < 0.3):
            return control if may_attack else {"name": "absent", "context": CONTEXT}
        return self._random.choice(self._models)

    def _remember(self, case: Any, response: httpx2.Response) -> None:
        if response.status_code == 201 and "learner" in response.text:
            answer = response.json()
            if "features" in answer:
                self._models.append({"name": answer["name"], "context": _context_of(answer["features"])})
        if response.status_code == 200 and case.operation.path == "/predict":
            self._predictions.append(response.json()["prediction_id"])


def _context_of(features: dict[str, Any] | None) -> Any:
    """Return a context for a model's features; None if the generated one shall stay."""
    match (features or {}).get("kind"):
        case "dense":
            assert features is not None
            return [0.5] * features["size"] if features["size"] <= 1000 else None
        case "sparse":
            return {"indices": [0], "values": [1.0]}
        case "named":
            return {"a": 1, "b": "x"}
        case "none":
            return {}
    return None


def _may_destroy_control(request: httpx2.Request) -> bool:
    """Check whether a request could delete or change the control model."""
    parts = request.url.path.removeprefix("/v1").split("/")
    return request.method != "GET" and parts[1:3] == ["models", CONTROL]


@asynccontextmanager
async def attack(store_url: str, keys: bool, seed: int) -> AsyncIterator[Attack]:
    """Run a worker with a control model; with keys if asked to."""
    clock, store = Clock(START), RedisStore(store_url, timeout=30.0)
    settings: dict[str, Any] = {"auth": "required" if keys else "off", "store_timeout_seconds": 30.0}
    async with worker(store_url, clock, seed, **settings) as client:
        client.event_hooks = {}  # the checks are made, and counted, here
        callers = await with_keys(key_admin_at(ApiKeyTable(store.command), clock)) if keys else ANYBODY
        control = Control(client, store, callers.owner)
        await control.create()
        yield Attack(client, callers, control, clock, seed)
    await store.close()
