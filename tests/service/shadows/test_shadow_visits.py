"""The laws of visits: a lease keeps other workers away, and two workers that fold the same rounds count them once."""

import asyncio
import time
from typing import Any

import numpy as np
import pytest

from learners.compiled_learner import CompiledLearner
from learners.evaluation import progressive
from learners.registry import LEARNERS
from service.background.due_models import DueModels
from service.background.shadow_folds import shadow_folds
from service.environment import Environment
from service.errors import InvalidInputError, StoreError, StoreFullError, StoreUnavailableError
from service.store.redis.redis_store import RedisStore
from service.store.values import Due
from tests.service.sample_models import COMPUTE, make_model, play
from tests.service.shadows.test_shadow_folds import SQUARECB, caught_up, give_shadow, plain_fold
from tests.service.workers import Clock, numbered

_ALL = 1000
"""More models than other tests leave in the store."""


def shadowing(store: RedisStore, clock: Clock) -> DueModels:
    """Return the visits of one worker."""
    rng, new_id = np.random.default_rng(1), numbered("w")
    return shadow_folds(Environment(store, COMPUTE, clock, rng, new_id, store_offset=lambda: clock.now - time.time()))


async def test_a_claimed_model_is_left_to_one_worker(store: RedisStore, name: str) -> None:
    """Of two workers that ask at once, one gets the model; the other gets it when the lease is over."""
    model = await make_model(store, name)
    await give_shadow(store, model)
    claims = await asyncio.gather(*(store.claim(Due.SHADOWS, 0.0, _ALL, 10.0) for _ in range(8)))
    assert sum(each.count(model.key) for each in claims) == 1
    assert model.key not in await store.claim(Due.SHADOWS, 9.0, _ALL, 10.0)
    assert model.key in await store.claim(Due.SHADOWS, 11.0, _ALL, 10.0)


async def test_workers_that_overrun_their_leases_count_each_round_once(store: RedisStore, name: str) -> None:
    """Both fold the same rounds; the snapshot is that of a plain fold, and later visits continue from it."""
    model, clock = await make_model(store, name), Clock()
    await give_shadow(store, model)
    for seed in (1, 2, 3):
        await play(store, model, 400, seed)
        visits = [shadowing(store, clock) for _ in range(2)]
        stored = await store.get_model(name)
        assert stored is not None
        await asyncio.gather(*(each._visit(model.key) for each in visits))
        _, sums = await plain_fold(store, model, SQUARECB)
        comparison = await caught_up(store, model)
        assert comparison.sums == sums
        assert comparison.sums.rounds == 400 * seed


async def test_a_visit_by_another_worker_continues(store: RedisStore, name: str) -> None:
    """A worker that dies after its claim delays the shadow by its lease, and costs nothing else."""
    model, clock = await make_model(store, name), Clock()
    await give_shadow(store, model)
    await play(store, model, 300)
    assert model.key in await store.claim(Due.SHADOWS, clock.now - time.time(), _ALL, 10.0)  # and its worker dies
    await shadowing(store, clock).run()
    assert (await store.read_shadows(model.key))[0].rounds is None
    clock.now += 11.0
    await shadowing(store, clock).run()
    assert (await store.read_shadows(model.key))[0].rounds == 300


@pytest.mark.parametrize("error", [StoreUnavailableError, StoreFullError])
@pytest.mark.parametrize("method", ["read_shadows", "save_shadow"])
async def test_a_store_that_refuses_delays_a_shadow_by_its_lease(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch, method: str, error: type[StoreError]
) -> None:
    """An error that every model meets is not held against the one that met it first."""
    model, clock = await make_model(store, name), Clock()
    await give_shadow(store, model)
    await play(store, model, 300)

    async def fail(*_: object, **__: object) -> None:
        raise error("the store refuses")

    with monkeypatch.context() as patched:
        patched.setattr(store, method, fail)
        await shadowing(store, clock).run()
    clock.now += 11.0
    await shadowing(store, clock).run()
    assert (await store.read_shadows(model.key))[0].rounds == 300


SINGLE = sorted(name for name, learner in LEARNERS.items() if issubclass(learner, CompiledLearner))


@pytest.mark.parametrize("algorithm", SINGLE)
async def test_no_shadow_waits_for_a_compilation(store: RedisStore, name: str, algorithm: str) -> None:
    """`python -m learners` has compiled the loop for the rounds of a log, whatever the learner.

    A worker that compiles it answers no request of the model for some ten seconds.
    """
    model = await make_model(store, name)
    try:
        await give_shadow(store, model, {"algorithm": algorithm})
    except InvalidInputError:
        pytest.skip("cannot shadow this model")
    await play(store, model, 20)
    loop: Any = progressive._progress_compiled
    before = loop.stats.cache_misses.copy()
    assert (await caught_up(store, model)).sums.rounds == 20
    missed = loop.stats.cache_misses - before
    assert not missed, "run python -m learners"
