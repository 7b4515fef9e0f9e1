"""The laws of renamed algorithms: models with the old name can be created, opened and continued."""

import httpx2
import pytest

from learners.codec import encode_state
from learners.registry import ALIASES, ALL_LEARNERS
from service.models.learner_choice import hyperparameters
from service.models.model import Model
from service.models.reading import stored_model
from service.replicas.replica import Replica
from service.store.base import Snapshot
from service.store.redis.redis_store import RedisStore
from tests.service.sample_models import COMPUTE, bits, definition, make_model, play, sequential_fold, whole_log

EACH_ALIAS = pytest.mark.parametrize("alias", ALIASES)


async def model_of_an_older_version(store: RedisStore, name: str, alias: str, monkeypatch: pytest.MonkeyPatch) -> Model:
    """Return a model with ten rounds, six of them in a snapshot, written by a version that used the old name."""
    with monkeypatch.context() as older:
        older.setattr(ALL_LEARNERS[ALIASES[alias]], "algorithm", alias)
        model = await make_model(store, name, learner={"algorithm": alias})
        await play(store, model, 6)
        state = encode_state(model.learner, sequential_fold(model, await whole_log(store, model.key)))
        await store.save_snapshot(model.key, Snapshot(6, bytes(state)), 100)
        await play(store, model, 4, seed=2)
    return model


@EACH_ALIAS
async def test_a_model_can_be_created_by_either_name(client: httpx2.AsyncClient, name: str, alias: str) -> None:
    """Answers and stored definitions have the new name; the list of learners shows the alias with its algorithm."""
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
    """A stored definition with the old name opens, and is answered with the new name."""
    await model_of_an_older_version(store, name, alias, monkeypatch)
    stored = await store.get_model(name)
    assert stored is not None
    assert alias in stored.definition
    assert hyperparameters(stored_model(stored).learner)["algorithm"] == ALIASES[alias]
    assert (await client.get(f"/models/{name}")).json()["learner"]["algorithm"] == ALIASES[alias]


@EACH_ALIAS
async def test_a_replica_continues_from_a_snapshot_of_an_older_version(
    store: RedisStore, name: str, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot written under the old name is valid; with the later rounds it gives the fold of the whole log."""
    left = await model_of_an_older_version(store, name, alias, monkeypatch)
    stored = await store.get_model(name)
    assert stored is not None
    replica = Replica(stored_model(stored), store, COMPUTE)
    await replica.catch_up()
    assert bits(replica.state) == bits(sequential_fold(left, await whole_log(store, left.key)))
    assert (await store.read_damage(left.key)).found == []
