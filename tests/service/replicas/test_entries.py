"""The law of logs whose entries have different sizes: they fold to the same bits, however they are read."""

import pytest

from service.replicas.replica import Replica
from service.store.redis.redis_store import RedisStore
from tests.service.damaging import KINDS, play_sparse, sound_fold
from tests.service.sample_models import COMPUTE, bits, make_model, play, whole_log

ROUNDS = [4, 3, 2, 3, 5, 1, 1]  # of each call


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 2, 5, None])
async def test_a_log_folds_to_the_same_bits(store: RedisStore, name: str, kind: str, limit: int | None) -> None:
    """The state and the statistics do not depend on how many rounds are read together."""
    model = await make_model(store, name, **KINDS[kind])
    for seed, n in enumerate(ROUNDS):
        await (play_sparse if kind == "sparse" else play)(store, model, n, seed, blocks=min(n, 2))
    replica = Replica(model, store, COMPUTE)
    replica._limit = limit or replica._limit
    await replica.catch_up()
    assert replica.round_count == sum(ROUNDS)
    assert bits(replica.state) == sound_fold(model, await whole_log(store, model.key), set())
    assert replica.statistics.counts().rounds == sum(ROUNDS)
