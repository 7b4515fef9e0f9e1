"""The laws of logs with entries of several versions: they fold to the same bits as entries of one version."""

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
from tests.service.sample_models import COMPUTE, SIZE, bits, make_model, play, whole_log

PARTS = [(3, 4), (4, 3), (3, 2), (3, 3), (4, 5), (4, 1), (3, 1)]  # version, rounds
N = sum(n for _, n in PARTS)


async def mixed(store: RedisStore, name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> Model:
    """Create a model with a log of both versions."""
    model = await make_model(store, name, **KINDS[kind])
    for seed, (version, n) in enumerate(PARTS):
        if version == format_3.VERSION:
            await play_3(store, model, n, seed, monkeypatch)
        else:
            await (play_sparse if kind == "sparse" else play)(store, model, n, seed, blocks=min(n, 2))
    return model


def fold(model: Model, entries: list[LogEntry], bad: set[int] = frozenset()) -> list[bytes]:  # type: ignore[assignment]
    """Return the state after all rounds except `bad`, decoded and folded one at a time."""
    state, after = model.learner.init(), 0
    for entry in entries:
        bounds = model.format.reader(entry.version).bounds(entry.payload)
        for start, stop in itertools.pairwise(bounds):
            after += 1
            if after not in bad:
                raw = model.format.reader(entry.version).read([entry.payload[start:stop]])
                state = model.learner.fold(state, model.rounds_of(model.format.joined([raw])))
    return bits(state)


async def caught_up(store: RedisStore, model: Model, limit: int | None = None) -> Replica:
    """Return a replica that has caught up."""
    replica = Replica(model, store, COMPUTE)
    replica._limit = limit or replica._limit
    await replica.catch_up()
    return replica


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 2, 5, None])
async def test_a_mixed_log_folds_to_the_same_bits(
    store: RedisStore, name: str, kind: str, limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of both versions folds to the same bits, however many rounds are read together."""
    model = await mixed(store, name, kind, monkeypatch)
    entries = await whole_log(store, model.key)
    assert {entry.version for entry in entries} == {format_3.VERSION, layout.VERSION}
    replica = await caught_up(store, model, limit)
    assert replica.round_count == N
    assert bits(replica.state) == fold(model, entries)
    assert replica.statistics.counts().rounds == N


@pytest.mark.parametrize("kind", KINDS)
async def test_the_version_changes_no_bit(
    store: RedisStore, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rounds in either version give the same state and statistics."""
    states, counts = [], []
    for i, older in enumerate((True, False)):
        # Version 3 stores contexts after the norm policy, so the policy must not change any.
        features = {"kind": "dense", "size": SIZE} | KINDS[kind].get("features", {})
        within = {"features": features | {"norm": "scale", "norm_bound": 100.0, "intercept": False}}
        model = await make_model(store, f"{name}-{i}", **KINDS[kind] | within)
        if older:
            await play_3(store, model, 9, 1, monkeypatch)
        else:
            await (play_sparse if kind == "sparse" else play)(store, model, 9, 1, blocks=2)
        replica = await caught_up(store, model)
        states.append(bits(replica.state))
        counts.append(replica.statistics.counts())
    assert states[0] == states[1]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("kind", KINDS)
async def test_damage_in_a_mixed_log_costs_no_other_round(
    store: RedisStore, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any entry damaged, every worker folds all other rounds to the same state."""
    model = await mixed(store, name, kind, monkeypatch)
    whole = await whole_log(store, model.key)
    for place, entry in enumerate(whole):
        await store.command("DEL", keys.damage(*model.key))
        await store.command("HDEL", keys.model(name), "damage", "damaged")
        at = (layout if entry.version == layout.VERSION else format_3).ROUND.place("truth")
        damaged = [*whole[:place], changed(entry, at, b"\x7e"), *whole[place + 1 :]]
        await rewrite(store, model, damaged)
        replica, other = await caught_up(store, model), await caught_up(store, model, 2)
        (bad,) = (await store.read_damage(model.key)).found
        assert bad.first == bad.last
        assert whole[place - 1].last_round * (place > 0) < bad.first <= entry.last_round
        assert bits(replica.state) == bits(other.state) == fold(model, whole, {bad.first})
    assert read_entries(model.format, whole, 0).damaged == []
