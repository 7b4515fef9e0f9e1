"""The laws of `features.precision`: the learner, the log and the store have the same rounded numbers."""

import json
from typing import Any

import httpx2
import numpy as np
import pytest

from service.contexts.kind import ContextKind
from service.contexts.registry import context_kind
from service.errors import NotFiniteError
from service.store.redis.redis_store import RedisStore
from tests.service.contexts.test_as_sent import logged
from tests.service.contexts.test_kinds import READ_CONTEXT, READ_FEATURES
from tests.service.sample_models import bits, post, true_state
from tests.service.workers import worker

NUMBERS = [1 / 3, -0.0, 1e-60, 5e-324, 3.4e38, -1e-45, 0.1, 2.0**24 + 1, 7.0]
SINGLE = np.array(NUMBERS).astype(np.float32).astype(np.float64).tolist()
KINDS: dict[str, Any] = {"dense": list, "sparse": lambda values: {"indices": [8, *range(8)], "values": [*values]}}
every_kind = pytest.mark.parametrize("name", KINDS)


def kind_of(name: str, precision: str) -> ContextKind[Any]:
    return context_kind(READ_FEATURES.validate_python({"kind": name, "size": 9, "precision": precision}))


def checked(kind: ContextKind[Any], values: list[float]) -> Any:
    return kind.check(READ_CONTEXT.validate_json(json.dumps(KINDS[kind.name](values))))


@every_kind
def test_numbers_are_rounded_once(name: str) -> None:
    sizes = []
    for precision, expected in (("float64", NUMBERS), ("float32", SINGLE)):
        kind = kind_of(name, precision)
        context = checked(kind, NUMBERS)
        assert np.array(kind.numbers(context)).tobytes() == np.array(expected).tobytes()
        gathered = kind.to_batch([context, context])
        parts = kind.codec.encode(gathered)
        again = kind.codec.decode(b"".join(parts), np.cumsum([0, *map(len, parts)]))
        assert again.values.tobytes() == gathered.values.tobytes() == np.array(expected * 2).tobytes()
        assert again.indices.tolist() == gathered.indices.tolist()
        assert kind.fingerprinted(context) == kind.fingerprinted(checked(kind, expected))
        sizes.append(sum(map(len, parts)))
    assert sizes[0] - sizes[1] == 2 * 4 * len(NUMBERS)


@every_kind
@pytest.mark.parametrize("number", [3.5e38, -1e300])
def test_a_number_beyond_single_precision_is_named(name: str, number: float) -> None:
    values = [*NUMBERS[:4], number, *NUMBERS[5:]]
    checked(kind_of(name, "float64"), values)
    with pytest.raises(NotFiniteError, match="as the model's features have the precision float32") as refused:
        checked(kind_of(name, "float32"), values)
    assert refused.value.field == ("context.4" if name == "dense" else "context.values.4")


@every_kind
async def test_every_worker_learns_from_the_rounded_numbers(
    client: httpx2.AsyncClient, store: RedisStore, store_url: str, name: str
) -> None:
    model = f"single-{name}"
    features = {"kind": name, "size": 9, "precision": "float32"}
    created = await post(client, "/models", name=model, labels=["a", "b"], features=features)
    assert created["features"]["precision"] == "float32"
    contexts = [KINDS[name](row) for row in np.random.default_rng(4).normal(size=(60, 9)).tolist()]
    made = (await post(client, "/predict/batch", model=model, contexts=contexts))["predictions"]
    first, again = [
        await post(client, "/predict", model=model, context=KINDS[name](values), prediction_id=f"{model}:mine")
        for values in (NUMBERS, SINGLE)
    ]
    assert first == again
    feedback = [
        {"prediction_id": each["prediction_id"], "correct": i % 3 == 0} for i, each in enumerate([*made, first])
    ]
    await post(client, "/feedback/batch", feedback=feedback)
    assert (await logged(client, model))[f"{model}:mine"] == KINDS[name](SINGLE)
    expected = bits(await true_state(store, model))
    async with worker(store_url, seed=2) as other:
        answer = await post(other, f"/models/{model}/explain", context=contexts[0])
        assert answer["rounds_seen"] == 61
    assert bits(await true_state(store, model)) == expected


@pytest.mark.parametrize("where", ["features", "actions.features"])
async def test_models_with_actions_have_double_precision(client: httpx2.AsyncClient, name: str, where: str) -> None:
    plain, single = {"kind": "dense", "size": 2}, {"kind": "dense", "size": 2, "precision": "float32"}
    features, own = (single, plain) if where == "features" else (plain, single)
    response = await client.post("/models", json={"name": name, "features": features, "actions": {"features": own}})
    assert response.status_code == 422
    assert response.json()["field"] == f"{where}.precision"
