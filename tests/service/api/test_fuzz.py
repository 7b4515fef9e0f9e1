"""The law of arbitrary input: no answer is 5xx, and the model stays sound."""

import asyncio
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.store.redis.redis_store import RedisStore
from tests.service.error_messages.plain_words import check_problem
from tests.service.sample_models import definition, true_state
from tests.service.workers import worker

MODEL = "fuzzed"
SPARSE = "fuzzed-sparse"
FUZZ = settings(
    deadline=None, derandomize=True, max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture]
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


class Fuzzed(NamedTuple):
    """A worker with a model that receives arbitrary requests."""

    runner: asyncio.Runner
    client: httpx2.AsyncClient

    def send(self, path: str, content: bytes) -> httpx2.Response:
        """Post bytes as JSON."""
        headers = {"content-type": "application/json"}
        return self.runner.run(self.client.post(path, content=content, headers=headers))


@pytest.fixture(scope="module")
def fuzzed(store_url: str) -> Iterator[Fuzzed]:
    """Run one worker for all examples."""
    with asyncio.Runner() as runner:
        context = worker(store_url)
        built = Fuzzed(runner, runner.run(context.__aenter__()))
        for path, body in VALID[:2]:
            assert built.send(path, json.dumps(body).encode()).status_code == 201
        yield built
        runner.run(context.__aexit__(None, None, None))


@st.composite
def wrong_bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    """Draw a route and a valid body for it, with one part replaced or added."""
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
    """Check that an answer is JSON, and either a success or a 4xx problem."""
    assert response.status_code < 500
    assert response.headers["content-type"] in {"application/json", "application/problem+json"}
    assert "status" in response.json() or response.status_code < 300
    if response.status_code >= 400:
        check_problem(response.json())


@FUZZ
@given(wrong_bodies())
def test_a_body_with_any_part_replaced_is_answered(fuzzed: Fuzzed, request_: tuple[str, bytes]) -> None:
    """A valid body with any part replaced by any JSON, even NaN or huge numbers, gets no 5xx."""
    assert_answered(fuzzed.send(*request_))


@FUZZ
@given(st.sampled_from(VALID), st.data())
def test_damaged_bytes_are_answered(fuzzed: Fuzzed, valid: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    """A valid body with bytes removed and others inserted gets no 5xx."""
    path, content = valid[0], json.dumps(valid[1]).encode()
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, len(content)))
    assert_answered(fuzzed.send(path, content[:start] + data.draw(st.binary(max_size=6)) + content[stop:]))


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@FUZZ
@given(st.lists(FINITE, min_size=3, max_size=3), st.booleans())
def test_any_finite_context_can_be_learned_from(fuzzed: Fuzzed, context: list[float], correct: bool) -> None:
    """For zero, subnormal and enormous contexts the propensity is in (0, 1], and feedback is accepted."""
    answer = fuzzed.send("/predict", json.dumps({"model": MODEL, "context": context}).encode())
    assert answer.status_code == 200
    assert 0.0 < answer.json()["propensity"] <= 1.0
    feedback = {"prediction_id": answer.json()["prediction_id"], "correct": correct}
    assert fuzzed.send("/feedback", json.dumps(feedback).encode()).status_code == 200


def test_the_fuzzed_model_is_sound(fuzzed: Fuzzed, store_url: str) -> None:
    """After all examples the model still answers, and its state is finite."""
    answer = fuzzed.send("/predict", json.dumps({"model": MODEL, "context": [1.0, 2.0, 3.0]}).encode())
    assert math.isfinite(answer.json()["propensity"])

    async def state() -> Any:
        store = RedisStore(store_url, timeout=5.0)
        try:
            return await true_state(store, MODEL)
        finally:
            await store.close()

    assert all(np.isfinite(array).all() for array in fuzzed.runner.run(state()))
