"""The laws of a shadow's fold: its state and its comparison are those of a plain fold of the log, to the bit."""

from typing import Any

import httpx2
import numpy as np
import pytest

from learners.base import Rounds
from learners.mathematics.limits import obey
from service.errors import ShadowNotFoundError
from service.models.changes import Change, StoredLabels
from service.models.model import Limits, Model
from service.schemas.models import LearnerChoice
from service.shadows.comparison import Sums, decode_sums
from service.shadows.definition import Definition, complete_choice
from service.shadows.replica import ShadowReplica
from service.store import keys
from service.store.capabilities import Store
from service.store.redis.redis_store import RedisStore
from service.store.values import StoredShadow
from tests.servers import raw
from tests.service.replicas.altering import current, fresh
from tests.service.sample_models import COMPUTE, GAPTRON, bits, make_model, one_by_one, play, whole_log

LIMITS = Limits(2**30, 10**12, 2**30)
SQUARECB = {"algorithm": "squarecb"}
CHOICES = [SQUARECB, GAPTRON]


def always() -> bool:
    return True


async def give_shadow(store: Store, model: Model, choice: dict[str, Any] = SQUARECB, id_: str = "s1") -> StoredShadow:
    learner = complete_choice(model, LearnerChoice(**choice), LIMITS)
    assert await store.put_shadow(model.key, "rival", id_, Definition(learner=learner, at=1.0).encode())
    return await stored_shadow(store, model)


async def stored_shadow(store: Store, model: Model) -> StoredShadow:
    (found,) = await store.read_shadows(model.key)
    return found


async def caught_up(store: Store, model: Model, compute: Any = COMPUTE) -> ShadowReplica:
    replica = ShadowReplica(model, store, compute, await stored_shadow(store, model))
    assert await replica.advance(always)
    await replica.snapshot()
    return replica


async def plain_fold(store: Store, model: Model, choice: dict[str, Any], since: int = 1) -> tuple[Any, Sums]:
    learner = model.shadowed_by(LearnerChoice(**choice)).learner
    state, sums = learner.init(), Sums(since_round=since)
    for record in one_by_one(await whole_log(store, model.key)):
        rounds: Rounds = model.rounds_of(model.choice.records.rows([record]))
        decisions = learner.decide(state, rounds.contexts, rounds.eligible)
        obey(model.choice.limits, rounds.eligible[0], decisions.distributions[0])
        p = decisions.distributions[0, rounds.labels]
        sums = sums.plus(p, rounds.propensities, rounds.rewards, np.ones(1, np.bool_))
        state = learner.fold(state, rounds._replace(evidence=decisions.evidence))
    return state, sums


RULES = {"floor": {"none": 0.3}, "groups": {"warm": ["red", "green"]}, "cap": {"warm": 0.5}}


@pytest.mark.parametrize("rules", [None, RULES], ids=["free", "ruled"])
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: str(choice["algorithm"]))
async def test_a_shadow_is_a_plain_fold(store: RedisStore, name: str, choice: dict[str, Any], rules: Any) -> None:
    model = await make_model(store, name, rules=rules)
    await give_shadow(store, model, choice)
    for seed, n in enumerate((600, 3, 40)):
        await play(store, model, n, seed)
        replica = await caught_up(store, model)
        state, sums = await plain_fold(store, model, choice)
        assert bits(replica.state) == bits(state)
        assert replica.sums == sums
        assert replica.sums.rounds == replica.round_count


async def test_trimming_keeps_the_rounds_that_a_shadow_needs(store: RedisStore, name: str) -> None:
    model = await make_model(store, name, retain_rounds=0)
    await give_shadow(store, model)
    await play(store, model, 300)
    state, sums = await plain_fold(store, model, SQUARECB)
    own = await fresh(store, model)
    await own.snapshot()
    assert len(await whole_log(store, model.key)) == 300
    shadow = await caught_up(store, model)
    assert (bits(shadow.state), shadow.sums) == (bits(state), sums)
    await play(store, model, 1000, seed=2)
    await own.catch_up()
    await own.snapshot()
    assert 1000 <= len(await whole_log(store, model.key)) < 1300
    assert (await caught_up(store, model)).sums.rounds == 1300
    assert (await stored_shadow(store, model)).restarts == 0


async def test_a_shadow_that_lost_rounds_begins_again(store: RedisStore, store_url: str, name: str) -> None:
    model = await make_model(store, name)
    await give_shadow(store, model)
    await play(store, model, 20)
    await caught_up(store, model)
    await play(store, model, 30, seed=2)
    with raw(store_url) as client:
        client.xtrim(keys.log(*model.key), minid="36-0", approximate=False)
    replica = await caught_up(store, model)
    state, sums = await plain_fold(store, model, SQUARECB, since=36)
    assert (bits(replica.state), replica.sums) == (bits(state), sums)
    shadow = await stored_shadow(store, model)
    assert (shadow.since_rounds, shadow.restarts, shadow.rounds) == (35, 1, 50)


async def test_a_damaged_snapshot_begins_again(store: RedisStore, store_url: str, name: str) -> None:
    model = await make_model(store, name)
    shadow = await give_shadow(store, model)
    await play(store, model, 50)
    good = await caught_up(store, model)
    with raw(store_url) as client:
        client.hset(keys.shadow(*model.key, shadow.slot), "tally", "{}")
    again = await caught_up(store, model)
    assert (bits(again.state), again.sums) == (bits(good.state), good.sums)
    assert (await stored_shadow(store, model)).restarts == 1


async def test_a_key_of_another_type_hides_no_shadow(
    client: httpx2.AsyncClient, store: RedisStore, store_url: str, name: str
) -> None:
    model = await make_model(store, name)
    shadow = await give_shadow(store, model)
    with raw(store_url) as connection:
        connection.set(keys.shadow(*model.key, shadow.slot), "noise")
    answer = await client.get(f"/models/{name}/shadows")
    assert [(each["name"], each["since_round"]) for each in answer.json()["shadows"]] == [("rival", 1)]


async def test_added_labels_reach_shadows(store: RedisStore, name: str) -> None:
    for choice in (SQUARECB, GAPTRON):
        model = await make_model(store, f"{name}-{choice['algorithm']}", learner=SQUARECB)
        await give_shadow(store, model, choice)
        await play(store, model, 40)
        before = await caught_up(store, model)
        begins_again = not before.model.learner.labels_grow
        change = Change(at=1.0, labels=StoredLabels(add=("new",)))
        assert await store.change_model(model.key, model.digest, change.encode(), "{}")
        later = await current(store, model.name)
        await play(store, later, 40, seed=2)
        after = await caught_up(store, later)
        assert after.sums.since_round == (41 if begins_again else 1)
        assert after.sums.rounds == (40 if begins_again else 80)
        assert after.model.learner.problem.n_labels == 5


async def test_another_learner_in_its_place_begins_anew(store: RedisStore, name: str) -> None:
    model = await make_model(store, name)
    old = await give_shadow(store, model)
    await play(store, model, 30)
    replica = ShadowReplica(model, store, COMPUTE, old)
    assert await replica.advance(always)
    await give_shadow(store, model, GAPTRON, "s2")
    with pytest.raises(ShadowNotFoundError):
        await replica.snapshot()
    now = await caught_up(store, model)
    state, _ = await plain_fold(store, model, GAPTRON)
    assert bits(now.state) == bits(state)
    assert await store.drop_shadow(model.key, "rival")
    assert not await store.drop_shadow(model.key, "rival")
    with pytest.raises(ShadowNotFoundError):
        await now.snapshot()


async def test_a_model_has_at_most_four_shadows(store: RedisStore, name: str) -> None:
    model = await make_model(store, name)
    for each in "abcd":
        assert await store.put_shadow(model.key, each, f"id-{each}", "{}")
    assert not await store.put_shadow(model.key, "e", "id-e", "{}")
    assert await store.drop_shadow(model.key, "b")
    assert await store.put_shadow(model.key, "e", "id-e", "{}")
    slots = {each.name: each.slot for each in await store.read_shadows(model.key)}
    assert slots == {"a": 1, "c": 3, "d": 4, "e": 2}


def test_rounds_without_a_weight_are_skipped() -> None:
    """Rankings may have propensities whose weights overflow: the sums stay finite, and can be read again.

    A round that was not learned either is skipped once.
    """
    p = np.array([1e-160, 0.5, 5e-324, 1e-149])
    sums = Sums().plus(np.full(4, 0.5), p, np.ones(4), np.array([False, False, True, True]))
    assert (sums.rounds, sums.skipped) == (2, 3)
    assert decode_sums(sums.encode()) == sums


async def test_sums_do_not_depend_on_parts() -> None:
    rng = np.random.default_rng(3)
    pi, p, r = rng.random(500), rng.random(500) + 1e-3, rng.random(500)
    learnt = rng.random(500) < 0.9
    whole, parts = Sums().plus(pi, p, r, learnt), Sums()
    for start, stop in [(0, 1), (1, 77), (77, 500)]:
        parts = parts.plus(pi[start:stop], p[start:stop], r[start:stop], learnt[start:stop])
    assert whole == parts == decode_sums(whole.encode())
