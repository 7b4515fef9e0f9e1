"""The log keeps what the client sent: every kind of context x every norm policy x extreme numbers x batches."""

import json
from typing import Any

import httpx2
import numpy as np
import pytest

from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import bits, post, true_state
from tests.service.workers import worker

EXTREME = [3, -0.0, 1e300, -1.7976931348623157e308, 5e-324, 0.1, 2**53, 1, 0]
NUMBERS = np.random.default_rng(8).normal(size=(100, 9)) * 10.0 ** np.random.default_rng(9).integers(-3, 4, (100, 9))
KINDS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "dense": ({"size": 9}, [EXTREME, *NUMBERS.tolist()]),
    "sparse": (
        {"size": 50},
        [
            {"indices": [7, 2, 49, 0], "values": EXTREME[:4]},
            *({"indices": [i % 50, (i + 7) % 50], "values": row[:2]} for i, row in enumerate(NUMBERS.tolist())),
        ],
    ),
    "none": ({}, [{}] * 20),
    "named": (
        {"interactions": [["user", "tags"]]},
        [
            {},
            {"n": 10**30, "z": -0.0, "big": 1e300, "whole": 3, "yes": True, "no": False, "nothing": None},
            {"user": {"name": "Zoë ✓", "tags": [], "deep": {"x": {"y": -1.5}}}, "tags": ["a", "b", "a"], "empty": {}},
            *(
                {"user": {"age": row[0], "id": f"u{i}"}, "tags": ["x"] * (i % 3)}
                for i, row in enumerate(NUMBERS.tolist())
            ),
        ],
    ),
}
POLICIES = ["none", "scale", "unit", "reject"]


async def logged(client: httpx2.AsyncClient, name: str) -> dict[str, Any]:
    text = (await client.get(f"/models/{name}/rounds?limit=10000")).text
    lines = map(json.loads, text.splitlines())
    return {line["prediction_id"]: line["context"] for line in lines}


def same(one: Any, other: Any) -> bool:
    return bool(one == other) and str(one).count("-0.0") == str(other).count("-0.0")


@pytest.mark.parametrize("norm", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
async def test_the_log_shows_what_was_sent(
    client: httpx2.AsyncClient, store: RedisStore, store_url: str, name: str, kind: str, norm: str
) -> None:
    features, contexts = KINDS[kind]
    intercept = kind == "none" or norm in ("none", "unit")
    declared = {"kind": kind, "norm": norm, "norm_bound": 1e6, "intercept": intercept} | features
    await post(client, "/models", name=name, labels=["a", "b"], features=declared, learner="fastcb")
    if norm == "reject":
        contexts = [each for each in contexts if "e+" not in json.dumps(each) and 10**30 not in _values(each)]
        contexts = [each for each in contexts if str(2**53) not in json.dumps(each)]
    half = len(contexts) // 2
    alone = [await post(client, "/predict", model=name, context=each) for each in contexts[: min(half, 20)]]
    batch = (await post(client, "/predict/batch", model=name, contexts=contexts[half:]))["predictions"]
    sent = dict(zip([each["prediction_id"] for each in alone], contexts, strict=False))
    sent |= dict(zip([each["prediction_id"] for each in batch], contexts[half:], strict=True))
    feedback = [{"prediction_id": id_, "correct": i % 3 == 0} for i, id_ in enumerate(sent)]
    await post(client, "/feedback/batch", feedback=feedback)
    found = await logged(client, name)
    assert found.keys() == sent.keys()
    assert [id_ for id_ in sent if not same(found[id_], sent[id_])] == []
    expected = bits(await true_state(store, name))
    async with worker(store_url, seed=2) as other:
        answer = await post(other, f"/models/{name}/explain", context=contexts[-1])
        assert answer["rounds_seen"] == len(sent)
    assert bits(await true_state(store, name)) == expected


def _values(context: Any) -> list[Any]:
    return list(context.values()) if isinstance(context, dict) else list(context)


async def test_the_intercept_and_the_norm_are_applied_at_the_fold(client: httpx2.AsyncClient, name: str) -> None:
    features = {"kind": "dense", "size": 2, "norm": "scale"}
    await post(client, "/models", name=name, labels=["a", "b"], features=features, learner="perceptron")
    answers = [await post(client, "/predict", model=name, context=each) for each in ([30.0, 40.0], [60.0, 80.0])]
    await post(client, "/feedback", prediction_id=answers[0]["prediction_id"], true_label="b")
    explained = [(await post(client, f"/models/{name}/explain", context=each)) for each in ([3.0, 4.0], [6.0, 8.0])]
    assert explained[0] == explained[1]
    assert [each["value"] for each in explained[0]["features"]] == pytest.approx(
        [0.75**0.5 * 0.6, 0.75**0.5 * 0.8, 0.5]
    )
    assert list((await logged(client, name)).values()) == [[30.0, 40.0]]
