"""The laws of logs that several versions wrote: they fold to the bits of the same rounds written by one."""

import itertools

import pytest

from service.models.model import Model
from service.replicas.replica import Replica
from service.store import keys
from service.store.base import LogEntry
from service.store.log_entries import read_entries
from service.store.records import format_3, layout
from service.store.redis.redis_store import RedisStore
from tests.service.damaging import KINDS, changed, play_3, play_sparse, rewrite
from tests.service.sample_models import COMPUTE, bits, make_model, play, whole_log

PARTS = [(3, 4), (4, 3), (3, 2), (3, 3), (4, 5), (4, 1), (3, 1)]  # version, rounds
N = sum(n for _, n in PARTS)


async def mixed(store: RedisStore, name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model with a log of both versions."""
    model = await make_model(store, name, **KINDS[kind])
    for seed, (version, n) in enumerate(PARTS):
        if version == format_3.VERSION:
            await play_3(store, model, n, seed, monkeypatch)
        else:
            await (play_sparse if kind == "sparse" else play)(store, model, n, seed, blocks=min(n, 2))
    return model


def fold(model: Model, entries: list[LogEntry], bad: set[int] = frozenset()) -> list[bytes]:  # type: ignore[assignment]
    """The state after all rounds but some, one at a time, each read by itself."""
    state, after = model.learner.init(), 0
    for entry in entries:
        bounds = model.format.reader(entry.version).bounds(entry.payload)
        for start, stop in itertools.pairwise(bounds):
            after += 1
            if after not in bad:
                raw = model.format.reader(entry.version).read([entry.payload[start:stop]])
                state = model.learner.fold(state, model.format.rounds_of(*model.format.joined([raw])))
    return bits(state)


async def state_of(store: RedisStore, model: Model, limit: int | None = None) -> Replica:
    """A replica that has caught up."""
    replica = Replica(model, store, COMPUTE)
    replica._limit = limit or replica._limit
    await replica.catch_up()
    return replica


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 2, 5, None])
async def test_a_mixed_log_folds_to_the_same_bits(
    store: RedisStore, name: str, kind: str, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rounds are read at once, all of them or one at a time."""
    model = await mixed(store, name, kind, monkeypatch)
    entries = await whole_log(store, model.key)
    assert {entry.version for entry in entries} == {format_3.VERSION, layout.VERSION}
    replica = await state_of(store, model, limit)
    assert replica.round_count == N
    assert bits(replica.state) == fold(model, entries)
    assert replica.statistics.counts().rounds == N


@pytest.mark.parametrize("kind", KINDS)
async def test_the_version_changes_no_bit(
    store: RedisStore, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rounds, written by either version, are the same to the learner and to those who count."""
    states, counts = [], []
    for i, older in enumerate((True, False)):
        model = await make_model(store, f"{name}-{i}", **KINDS[kind])
        if older:
            await play_3(store, model, 9, 1, monkeypatch)
        else:
            await (play_sparse if kind == "sparse" else play)(store, model, 9, 1, blocks=2)
        replica = await state_of(store, model)
        states.append(bits(replica.state))
        counts.append(replica.statistics.counts())
    assert states[0] == states[1]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("kind", KINDS)
async def test_damage_in_a_mixed_log_costs_no_other_round(
    store: RedisStore, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a number of an entry is destroyed, all other rounds are folded, the same by every worker."""
    model = await mixed(store, name, kind, monkeypatch)
    whole = await whole_log(store, model.key)
    for place, entry in enumerate(whole):
        await store.command("DEL", keys.damage(*model.key))
        await store.command("HDEL", keys.model(name), "damage", "damaged")
        at = (layout if entry.version == layout.VERSION else format_3).ROUND.place("truth")
        damaged = [*whole[:place], changed(entry, at, b"\x7e"), *whole[place + 1 :]]
        await rewrite(store, model, damaged)
        replica, other = await state_of(store, model), await state_of(store, model, 2)
        (bad,) = (await store.read_damage(model.key)).found
        assert bad.first == bad.last
        assert whole[place - 1].last_round * (place > 0) < bad.first <= entry.last_round
        assert bits(replica.state) == bits(other.state) == fold(model, whole, {bad.first})
    assert read_entries(model.format, whole, 0).damaged == []
