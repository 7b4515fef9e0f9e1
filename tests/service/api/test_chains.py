"""The law of chains: requests along the links of openapi.json get described answers, and other models stay sound."""

import asyncio
import copy
import math
from typing import Any

import httpx2
import requests
import schemathesis
from hypothesis import Phase, settings
from schemathesis.core.transport import Response
from schemathesis.generation.stateful import run_state_machine_as_test

from service.store.redis.redis_store import RedisStore
from tests.service.api_description import api_description
from tests.service.damaged_bytes import FUZZ
from tests.service.described import check_described
from tests.service.sample_models import definition, distribution_of, learner_of, prepared, true_state
from tests.service.workers import worker

SCHEMA = schemathesis.openapi.from_dict(copy.deepcopy(api_description()))
CHAINS = settings(FUZZ, max_examples=3, stateful_step_count=20, phases=[Phase.generate])
OTHER, X = "chained-other", [0.6, 0.8, 0.0]


def send(runner: asyncio.Runner, client: httpx2.AsyncClient, case: Any) -> httpx2.Response | None:
    sent = case.as_transport_kwargs(base_url="http://localhost")
    headers = {name: value for name, value in sent.get("headers", {}).items() if name.lower() != "user-agent"}
    content = {"json": sent["json"]} if "json" in sent else {"content": sent.get("data")}
    try:
        request = client.build_request(
            case.method, sent["url"], params=sent.get("params"), headers=dict(headers), **content
        )
    except (UnicodeError, ValueError, TypeError, httpx2.InvalidURL):
        return None
    return None if OTHER in f"{request.url} {request.content!r}" else runner.run(client.send(request))


def machine(runner: asyncio.Runner, client: httpx2.AsyncClient) -> Any:

    class Machine(SCHEMA.as_state_machine()):  # type: ignore[misc]
        def call(self, case: Any, **_: Any) -> Response:
            response, request = send(runner, client, case), requests.Request("GET", "http://localhost/").prepare()
            if response is None:
                return Response(0, {}, b"", request, 0.0, verify=False)
            assert response.status_code < 500, response.text
            check_described(case.operation.definition.raw["responses"], response)
            headers = {name.lower(): [value] for name, value in response.headers.items()}
            return Response(response.status_code, headers, response.content, request, 0.0, verify=False)

        def validate_response(self, *_: Any, **__: Any) -> None:
            """Leave the checks to `call`."""

    return Machine


async def assert_sound(client: httpx2.AsyncClient, store_url: str) -> None:
    body = {"model": OTHER, "context": X, "include_distribution": True}
    answer, model = (await client.post("/predict", json=body)).json(), (await client.get(f"/models/{OTHER}")).json()
    store = RedisStore(store_url, timeout=10.0)
    state = await true_state(store, OTHER)
    await store.close()
    expected = distribution_of(learner_of(model), state, prepared(model, X))
    given = [answer["distribution"][label] for label in model["labels"]]
    assert all(math.isclose(one, other, rel_tol=1e-9) for one, other in zip(given, expected, strict=True))


def test_chains_get_described_answers_and_harm_no_other_model(store_url: str) -> None:
    with asyncio.Runner() as runner:
        context = worker(store_url)
        client = runner.run(context.__aenter__())
        assert runner.run(client.post("/models", json=definition(OTHER))).status_code == 201
        run_state_machine_as_test(machine(runner, client), settings=CHAINS)
        runner.run(assert_sound(client, store_url))
        runner.run(context.__aexit__(None, None, None))
