"""The laws of algorithms that had another name: a model by the old one is made, opened and goes on by the new one."""

import httpx2
import pytest

from learners.codec import encode_state
from learners.registry import ALIASES, ALL_LEARNERS
from service.models.model import Model, hyperparameters, stored_model
from service.replicas.replica import Replica
from service.store.base import Snapshot
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import COMPUTE, bits, definition, make_model, play, sequential_fold, whole_log

EACH_ALIAS = pytest.mark.parametrize("alias", ALIASES)


async def left_by_an_older_version(store: RedisStore, name: str, alias: str, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model of ten rounds, six of them in a snapshot, written where the algorithm still had that name."""
    with monkeypatch.context() as older:
        older.setattr(ALL_LEARNERS[ALIASES[alias]], "algorithm", alias)
        model = await make_model(store, name, learner={"algorithm": alias})
        await play(store, model, 6)
        state = encode_state(model.learner, sequential_fold(model, await whole_log(store, model.key)))
        await store.save_snapshot(model.key, Snapshot(6, bytes(state)), 100)
        await play(store, model, 4, seed=2)
    return model


@EACH_ALIAS
async def test_a_model_is_made_by_either_name(client: httpx2.AsyncClient, name: str, alias: str) -> None:
    """The name of today is answered, and stored; the alias is listed with it, and only there."""
    created = await client.post("/models", json=definition(name, learner={"algorithm": alias, "radius": 2.0}))
    assert created.status_code == 201, created.text
    assert created.json()["learner"]["algorithm"] == ALIASES[alias]
    assert created.json()["learner"]["radius"] == 2.0
    listed = {each["algorithm"]: each["aliases"] for each in (await client.get("/learners")).json()["learners"]}
    assert [algorithm for algorithm, aliases in listed.items() if alias in aliases] == [ALIASES[alias]]
    assert alias not in listed


@EACH_ALIAS
async def test_a_definition_of_an_older_version_opens(
    client: httpx2.AsyncClient, store: RedisStore, name: str, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone and in a list the model is answered with the name of today."""
    await left_by_an_older_version(store, name, alias, monkeypatch)
    stored = await store.get_model(name)
    assert stored is not None
    assert alias in stored.definition
    assert hyperparameters(stored_model(stored).learner)["algorithm"] == ALIASES[alias]
    assert (await client.get(f"/models/{name}")).json()["learner"]["algorithm"] == ALIASES[alias]


@EACH_ALIAS
async def test_a_snapshot_of_an_older_version_is_gone_on_from(
    store: RedisStore, name: str, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no damage, and the rounds after it lead to the state of the whole log."""
    left = await left_by_an_older_version(store, name, alias, monkeypatch)
    stored = await store.get_model(name)
    assert stored is not None
    replica = Replica(stored_model(stored), store, COMPUTE)
    await replica.catch_up()
    assert bits(replica.state) == bits(sequential_fold(left, await whole_log(store, left.key)))
    assert (await store.read_damage(left.key)).found == []
