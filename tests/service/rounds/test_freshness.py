"""The laws of `freshness`: how old the state of a prediction may be. Each worker has its own clock."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.base import Contexts
from service.background.upkeep import FOLD_EVERY, FOLD_EVERY_IF_LATE
from service.choice.requests import PredictionRequest
from service.errors import StoreUnavailableError
from service.models.changes import FromSnapshot, StoredLabels
from service.replicas.replica import Replica
from service.rounds.sessions import ModelSession, SessionCache
from service.schemas.rounds import PredictAnswer
from service.store.redis.redis_store import RedisStore
from service.store.values import KeptNote
from tests.service.replicas.altering import alter
from tests.service.rounds.sessions import LARGE, environment, judge, predict, settled
from tests.service.sample_models import (
    COMPUTE,
    GAPTRON,
    bits,
    distribution_of,
    make_model,
    play,
    sequential_fold,
    some_contexts,
    true_state,
    whole_log,
)
from tests.service.workers import START, Clock, numbered

LAGS = [0.0, 0.25, 60.0]
HOUR = 3_600.0


class Served(NamedTuple):
    """One worker's session, and its clock."""

    session: ModelSession
    clock: Clock


async def serve(store: RedisStore, name: str, lag: float, workers: int = 2, **fields: Any) -> list[Served]:
    await make_model(store, name, freshness={"max_lag_seconds": lag}, **fields)
    served = list[Served]()
    for i in range(workers):
        clock = Clock(1e3 * (i + 1))
        own = replace(environment(store, monotonic=clock), new_id=numbered(f"w{i}"), rng=np.random.default_rng(i))
        served.append(Served(await SessionCache(own, LARGE).find(name, "model"), clock))
    return served


async def ask(served: Served, context: list[float] | None = None) -> PredictAnswer:
    request = PredictionRequest(context or some_contexts(1, 1)[0], None, include_distribution=True)
    answer = await served.session.predictor.predict(request)
    await settled(served.session)
    return answer


def advance(workers: list[Served], seconds: float) -> None:
    for each in workers:
        each.clock.now += seconds


@pytest.mark.parametrize("lag", LAGS)
async def test_a_prediction_includes_every_round_acknowledged_before_the_lag(
    store: RedisStore, name: str, lag: float
) -> None:
    workers, rng = await serve(store, name, lag, workers=3), np.random.default_rng(7)
    acknowledged, now, behind = list[float](), 0.0, 0
    for step in range(120):
        pause = float(rng.choice([0.0, 0.01, 0.1, 0.3, 70.0], p=[0.4, 0.3, 0.15, 0.1, 0.05]))
        advance(workers, pause)
        now += pause
        answer = await ask(workers[rng.integers(3)])
        assert answer.rounds_seen >= sum(at < now - lag for at in acknowledged), step
        if lag == 0.0:
            assert answer.rounds_seen == len(acknowledged)
        behind += answer.rounds_seen < len(acknowledged)
        await judge(workers[rng.integers(3)].session, [answer.prediction_id])
        acknowledged.append(now)
    assert (behind > 20) is (lag > 0.0)


@pytest.mark.parametrize("lag", LAGS)
async def test_a_propensity_is_that_of_the_rounds_seen(store: RedisStore, name: str, lag: float) -> None:
    workers, made = await serve(store, name, lag), list[tuple[list[float], PredictAnswer]]()
    for i, context in enumerate(some_contexts(5, 30)):
        answer = await ask(workers[i % 2], context)
        made.append((context, answer))
        await judge(workers[i % 2].session, [answer.prediction_id])
        advance(workers, 0.02)
    model = workers[0].session.model
    log = await whole_log(store, model.key)
    for context, answer in made:
        state = sequential_fold(model, log[: answer.rounds_seen])
        expected = distribution_of(model.learner, state, model.choice.prepared(Contexts.dense([context])))
        assert answer.distribution == dict(zip(model.definition.labels, expected, strict=True))
        assert answer.propensity == answer.distribution[str(answer.label)]
    for each in workers:
        await each.session.replica.catch_up()
        assert bits(each.session.replica.state) == bits(await true_state(store, name))


async def test_an_idle_worker_catches_up_before_it_predicts(store: RedisStore, name: str) -> None:
    first, second = await serve(store, name, 0.25)
    await judge(first.session, await predict(first.session, 1))
    assert (await ask(second)).rounds_seen == 1
    for _ in range(40):
        await judge(first.session, await predict(first.session, 1))
    assert (await ask(second)).rounds_seen == 1
    advance([first, second], HOUR)
    assert (await ask(second)).rounds_seen == 41


async def test_upkeep_reads_the_log_before_the_state_is_too_old(store: RedisStore, name: str) -> None:
    first, second = await serve(store, name, 1.0)
    await ask(second)
    await judge(first.session, await predict(first.session, 3))
    advance([second], 0.7)
    await ask(second)
    assert second.session.replica.round_count == 0
    advance([second], 0.1)
    assert (await ask(second)).rounds_seen == 0
    assert second.session.replica.round_count == 3


async def test_upkeep_of_a_model_without_requests_reads_nothing(store: RedisStore, name: str) -> None:
    first, second = await serve(store, name, 1.0)
    await ask(second)
    await judge(first.session, await predict(first.session, 3))
    advance([second], HOUR)
    await second.session.upkeep.run()
    assert second.session.replica.round_count == 0


@pytest.mark.parametrize(("lag", "many"), [(0.0, FOLD_EVERY), (60.0, FOLD_EVERY_IF_LATE)])
async def test_recorded_rounds_are_folded_in_longer_stretches_if_predictions_may_lag(
    store: RedisStore, name: str, lag: float, many: int
) -> None:
    (one,) = await serve(store, name, lag, workers=1)
    ids = await predict(one.session, many)
    await settled(one.session)
    await judge(one.session, ids[:-1])
    await settled(one.session)
    assert one.session.replica.round_count == 0
    await judge(one.session, ids[-1:])
    await settled(one.session)
    assert one.session.replica.round_count == many


@pytest.mark.parametrize("lag", [0.25, 60.0])
async def test_a_change_of_the_policy_is_in_force_at_once(store: RedisStore, name: str, lag: float) -> None:
    first, second = await serve(store, name, lag)
    await ask(second)
    await judge(first.session, await predict(first.session, 1))
    assert (await ask(second)).rounds_seen == 0
    await alter(store, second.session.model, 1, policies={"freshness": {"max_lag_seconds": 0.0}})
    assert (await ask(second)).rounds_seen == 1
    await judge(first.session, await predict(first.session, 1))
    assert (await ask(second)).rounds_seen == 2


CHANGES: dict[str, dict[str, Any]] = {
    "reset": {"state": "initial"},
    "rollback": {"state": FromSnapshot(snapshot="first")},
    "labels": {"labels": StoredLabels(retire=("red", "green"))},
    "mode": {"policies": {"mode": "logging"}},
}


@pytest.mark.parametrize("change", CHANGES)
async def test_no_prediction_misses_a_change(store: RedisStore, name: str, change: str) -> None:
    first, second = await serve(store, name, 60.0, learner=GAPTRON)
    untaught = (await ask(second)).distribution
    key, (_, snapshot) = second.session.model.key, await first.session.replica.current()
    await store.keep_snapshot(key, KeptNote("first", 0, 0, START), snapshot)
    await judge(second.session, await predict(second.session, 40))
    await second.session.replica.catch_up()
    taught = (await ask(second)).distribution
    await alter(store, second.session.model, 1, **CHANGES[change])
    found = (await ask(second)).distribution
    assert untaught is not None
    assert set(found or ()) == ({"blue", "none"} if change == "labels" else set(untaught))
    assert (found == taught, found == untaught) == (False, change in ("reset", "rollback", "mode"))


async def test_a_state_that_failed_to_catch_up_is_not_new(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = await make_model(store, name)
    await play(store, model, 3)
    replica = Replica(model, store, COMPUTE, Clock())
    assert not replica.is_newer_than(60.0)
    await replica.catch_up()
    assert replica.is_newer_than(60.0)

    async def fail(*_: object) -> None:
        raise StoreUnavailableError("the store does not answer")

    monkeypatch.setattr(store, "read_tail", fail)
    with pytest.raises(StoreUnavailableError):
        await replica.catch_up()
    assert not replica.is_newer_than(60.0)


async def test_the_age_of_a_state_counts_from_before_the_read(
    store: RedisStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, read = Clock(), store.read_tail

    async def slow(*args: Any) -> Any:
        tail = await read(*args)
        clock.now += 10.0
        return tail

    monkeypatch.setattr(store, "read_tail", slow)
    replica = Replica(await make_model(store, name), store, COMPUTE, clock)
    await replica.catch_up()
    assert not replica.is_newer_than(10.0)
    assert replica.is_newer_than(10.1)


async def test_a_state_that_was_freed_is_not_new(store: RedisStore, name: str) -> None:
    replica = Replica(await make_model(store, name), store, COMPUTE, Clock())
    await replica.catch_up()
    replica.release()
    assert not replica.is_newer_than(60.0)
