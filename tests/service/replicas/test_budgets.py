"""The laws of λ under a budget: all workers compute the same from the log, and only the learner's answers move it."""

from collections.abc import Sequence
from typing import Any

import httpx2
import numpy as np
import pytest

from service.replicas import log_fold, tails
from service.replicas.replica import Replica
from service.shadows.replica import ShadowReplica
from service.store.redis.redis_store import RedisStore
from tests.service.replicas.altering import current, fresh
from tests.service.sample_models import COMPUTE, bits, definition, one_by_one, post, some_contexts, whole_log
from tests.service.workers import worker
from tests.simulation.pace import Pace

ANY = {"If-Match": "*"}
BUDGET = {"cost": 0.2}
SILENCE = {"on_expiry": "incorrect", "learn": "on_arrival", "window_seconds": 600.0}
COSTS = {"red": 1.0, "green": 0.3}
LEARNERS = ["fastcb", "squarecb", "epsilon-greedy-ridge"]
EACH_LEARNER = pytest.mark.parametrize("learner", LEARNERS)
FIRST = 0.1 / BUDGET["cost"]


def paced(name: str, **fields: Any) -> dict[str, Any]:
    """Return a definition with a budget."""
    policies = {**SILENCE, "costs": COSTS, "budget": BUDGET}
    return definition(name, learner={"algorithm": "squarecb"}, **policies) | fields


async def predicted(client: httpx2.AsyncClient, name: str, n: int, seed: int = 1, **options: Any) -> list[Any]:
    return [await post(client, "/predict", model=name, context=x, **options) for x in some_contexts(seed, n)]


async def judge(client: httpx2.AsyncClient, answers: Sequence[Any]) -> None:
    for answer in answers:
        await post(client, "/feedback", prediction_id=answer["prediction_id"], correct=answer["label"] == "red")


async def played(client: httpx2.AsyncClient, name: str, n: int, seed: int = 1, **options: Any) -> None:
    await judge(client, await predicted(client, name, n, seed, **options))


async def change(client: httpx2.AsyncClient, name: str, **fields: Any) -> None:
    answer = await client.patch(f"/models/{name}", json=fields, headers=ANY)
    assert answer.is_success, answer.text


async def replace(client: httpx2.AsyncClient, name: str, how: str, **body: str) -> None:
    answer = await client.post(f"/models/{name}/{how}", json=body, headers=ANY)
    assert answer.is_success, answer.text


async def rounds_of(client: httpx2.AsyncClient, name: str) -> list[Any]:
    answer = await client.get(f"/models/{name}/rounds", params={"limit": 10_000})
    return [httpx2.Response(200, text=line).json() for line in answer.text.splitlines()]


async def folded(store: RedisStore, name: str) -> Replica:
    """Return a new replica of the model as it is now."""
    return await fresh(store, await current(store, name))


def weight_of(replica: Replica | ShadowReplica) -> float:
    return replica.model.choice.cost_weight(replica.state)


async def weight(store: RedisStore, name: str) -> float:
    return weight_of(await folded(store, name))


async def shadow_of(store: RedisStore, name: str) -> ShadowReplica:
    model = await current(store, name)
    (stored,) = await store.read_shadows(model.key)
    replica = ShadowReplica(model, store, COMPUTE, stored)
    assert await replica.advance(lambda: True)
    return replica


def pace_after(lines: Sequence[Any], budget: dict[str, float] = BUDGET) -> Pace:
    """Return the pace after the rounds of a log."""
    pace = Pace()
    for line in lines:
        if line["cost_weight"] is not None and not line["holdout"]:
            pace = pace.after(budget, line["cost"], line["cost_weight"], line["round"] - 1.0 - line["rounds_seen"])
    return pace


async def test_lambda_follows_the_rounds_in_order(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    """Each decision has the λ of the rounds that it has seen, however late its own feedback comes."""
    await post(client, "/models", **paced(name))
    late = await predicted(client, name, 3)
    await played(client, name, 30, 2)
    await judge(client, late)
    await change(client, name, budget={"cost": 0.4})
    await played(client, name, 5, 3)
    lines, pace = await rounds_of(client, name), Pace()
    weights = [pace.weight(BUDGET)]
    for line in lines:
        budget = BUDGET if line["round"] <= 33 else {"cost": 0.4}
        if line["round"] == 34:
            weights[-1] = pace.weight(budget)
        pace = pace.after(budget, line["cost"], line["cost_weight"], line["round"] - 1.0 - line["rounds_seen"])
        weights.append(pace.weight(budget))
    assert [line["cost_weight"] for line in lines] == pytest.approx([weights[line["rounds_seen"]] for line in lines])
    assert await weight(store, name) == pytest.approx(weights[-1])
    assert len(set(weights)) > 30


@EACH_LEARNER
async def test_any_batching_of_the_log_gives_the_same_lambda(
    client: httpx2.AsyncClient, store: RedisStore, name: str, learner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has rounds without prices, with costs of their own, of the holdout, and before and after the budget."""
    await post(client, "/models", **definition(name, learner={"algorithm": learner}, **SILENCE))
    answer = await client.put(f"/models/{name}/shadows/rival", json={"learner": "squarecb"})
    assert answer.is_success, answer.text
    unpriced = await predicted(client, name, 6)
    own = await predicted(client, name, 6, 2, costs={"red": 3.0}, cost_weight=0.1)
    await change(client, name, costs=COSTS, budget=BUDGET, holdout={"fraction": 0.3, "policy": "uniform"})
    paid = await predicted(client, name, 12, 3)
    given = await predicted(client, name, 12, 4, costs={"none": 2.0})
    await judge(client, [each for four in zip(unpriced, own, paid[:6], paid[6:], strict=True) for each in four])
    await judge(client, given)
    found = set[tuple[Any, ...]]()
    for limit in (512, 1, 2, 5, 16):
        monkeypatch.setattr(tails, "TAIL_LIMIT", limit)
        monkeypatch.setattr(log_fold, "steps_in_slice", lambda *_, size=limit % 13: size)
        for replica in (await folded(store, name), await shadow_of(store, name)):
            found.add((type(replica), weight_of(replica), *bits(replica.state)))
    assert len(found) == 2
    expected = pace_after(await rounds_of(client, name)).weight(BUDGET)
    assert [found_weight for kind, found_weight, *_ in found if kind is Replica] == [pytest.approx(expected)]


@EACH_LEARNER
async def test_a_snapshot_has_lambda(client: httpx2.AsyncClient, store: RedisStore, name: str, learner: str) -> None:
    await post(client, "/models", **paced(name, learner={"algorithm": learner}, retain_rounds=0))
    for seed in range(3):
        await played(client, name, 7, seed)
        replica = await folded(store, name)
        await replica.snapshot()
        again = await folded(store, name)
        assert again.snapshot_rounds == again.round_count == 7 * (seed + 1)
        assert weight_of(again) == weight_of(replica) != FIRST
        assert bits(again.state) == bits(replica.state)
    assert weight_of(again) == pytest.approx(pace_after(await rounds_of(client, name)).weight(BUDGET))


async def test_added_labels_leave_lambda(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    await post(client, "/models", **paced(name))
    await played(client, name, 8)
    before = await weight(store, name)
    await change(client, name, labels={"add": ["purple"], "retire": ["blue"]})
    assert await weight(store, name) == before
    await played(client, name, 8, 2)
    assert await weight(store, name) == pytest.approx(pace_after(await rounds_of(client, name)).weight(BUDGET))


# --- what does not move λ


@pytest.mark.parametrize("policy", ["uniform", {"label": "red"}], ids=str)
async def test_the_holdout_does_not_move_lambda(
    client: httpx2.AsyncClient, store: RedisStore, name: str, policy: Any
) -> None:
    await post(client, "/models", **paced(name, holdout={"fraction": 0.5, "policy": policy}))
    await played(client, name, 40)
    lines = await rounds_of(client, name)
    held = [line for line in lines if line["holdout"]]
    assert 5 < len(held) < 35
    assert {line["cost_weight"] for line in held} == {None}
    assert {line["cost"] for line in held} <= {1.0, 0.3, 0.0}
    assert await weight(store, name) == pytest.approx(pace_after(lines).weight(BUDGET))


async def test_logging_does_not_move_lambda(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    """In this mode, the policy of the client decides what is spent. The model learns from the rounds all the same."""
    await post(client, "/models", **paced(name, mode="logging"))
    replica = await folded(store, name)
    await played(client, name, 20, policy={"red": 0.9, "none": 0.1})
    assert {line["cost_weight"] for line in await rounds_of(client, name)} == {None}
    assert await weight(store, name) == pytest.approx(FIRST)
    assert replica.state.weights.tobytes() != (await folded(store, name)).state.weights.tobytes()
    await change(client, name, mode="online")
    await played(client, name, 5, 2)
    assert await weight(store, name) == pytest.approx(pace_after(await rounds_of(client, name)).weight(BUDGET)) != FIRST


async def test_imported_rounds_do_not_move_lambda(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    await post(client, "/models", **paced(name))
    await played(client, name, 4)
    before = await weight(store, name)
    made = {"label": "red", "propensity": 0.5, "correct": True}
    rounds = [{**made, "context": x, "costs": {"red": 5.0}} for x in some_contexts(5, 6)]
    rounds += [{**made, "context": x} for x in some_contexts(6, 6)]
    await post(client, f"/models/{name}/rounds", source="file", offset=0, rounds=rounds)
    lines = await rounds_of(client, name)
    assert [(line["cost"], line["cost_weight"]) for line in lines[4:]] == [(5.0, None)] * 6 + [(1.0, None)] * 6
    assert await weight(store, name) == before
    await played(client, name, 1, 2)
    assert (await rounds_of(client, name))[-1]["cost_weight"] == before
    assert await weight(store, name) != before


async def test_imported_rounds_without_costs_have_no_price(
    client: httpx2.AsyncClient, store: RedisStore, name: str
) -> None:
    """The price of a round does not depend on the others of its batch."""
    await post(client, "/models", **definition(name, learner={"algorithm": "squarecb"}))
    made = {"label": "red", "propensity": 0.5, "correct": True}
    costs: list[dict[str, Any]] = [{}, {"costs": {"red": 5.0}}, {}]
    rounds = [made | {"context": x} | own for x, own in zip(some_contexts(5, 3), costs, strict=True)]
    await post(client, f"/models/{name}/rounds", source="file", offset=0, rounds=rounds)
    await post(client, "/predict/batch", model=name, items=[{"context": [1.0, 0.0, 0.0]} | own for own in costs])
    assert [line["cost"] for line in await rounds_of(client, name)] == [None, 5.0, None]
    assert (await folded(store, name)).round_count == 3


async def test_a_frozen_model_keeps_lambda(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    await post(client, "/models", **paced(name))
    await played(client, name, 8)
    before = await weight(store, name)
    await change(client, name, mode="frozen")
    await played(client, name, 8, 2)
    assert await weight(store, name) == before
    assert {line["cost_weight"] for line in (await rounds_of(client, name))[8:]} == {before}
    await change(client, name, mode="online")
    assert await weight(store, name) == before
    await played(client, name, 1, 3)
    assert await weight(store, name) != before


# --- replaced states


async def test_a_reset_starts_lambda_again(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    await post(client, "/models", **paced(name))
    await played(client, name, 8)
    late = await predicted(client, name, 2, 2)
    await replace(client, name, "reset")
    assert await weight(store, name) == pytest.approx(FIRST)
    await judge(client, late)
    await played(client, name, 3, 3)
    lines = await rounds_of(client, name)
    assert lines[-3]["cost_weight"] != FIRST
    assert await weight(store, name) == pytest.approx(pace_after(lines[8:]).weight(BUDGET))


async def test_a_rollback_returns_to_the_lambda_of_the_snapshot(
    client: httpx2.AsyncClient, store: RedisStore, name: str
) -> None:
    """Later rounds move that λ."""
    await post(client, "/models", **paced(name))
    await played(client, name, 8)
    await post(client, f"/models/{name}/snapshots", id="mine")
    before = await weight(store, name)
    await played(client, name, 8, 2)
    assert await weight(store, name) != before
    await replace(client, name, "rollback", snapshot="mine")
    assert await weight(store, name) == before
    await played(client, name, 3, 3)
    lines = await rounds_of(client, name)
    assert [line["cost_weight"] for line in lines[16:17]] == [before]
    assert await weight(store, name) == pytest.approx(pace_after([*lines[:8], *lines[16:]]).weight(BUDGET))


async def expected_cost(store: RedisStore, name: str, n: int) -> tuple[Pace, Any]:
    """Return the pace and the state of a shadow after n rounds, one by one, by what it would have answered."""
    replica = await shadow_of(store, name)
    learner, choice = replica.model.learner, replica.model.choice
    state, pace = learner.init(), Pace()
    for record in one_by_one(await whole_log(store, replica.model.key))[:n]:
        rows = choice.records.rows([record])
        one, costs = replica.model.rounds_of(rows), choice.label_costs[np.newaxis]
        prices = type(choice.bills(rows).prices)(np.array([pace.weight(BUDGET)]), costs)  # type: ignore[union-attr]
        decisions = learner.decide(state, one.contexts, one.eligible, prices)
        lag = float(rows.table["round"][0]) - 1.0 - float(rows.table["rounds_seen"][0])
        pace = pace.after(BUDGET, float(decisions.distributions[0] @ costs[0]), pace.weight(BUDGET), lag)
        state = learner.fold(state, one._replace(evidence=decisions.evidence))
    return pace, state


async def test_a_promotion_continues_with_the_lambda_of_the_shadow(
    store_url: str, store: RedisStore, name: str
) -> None:
    """A shadow pays the mean cost of what it would have answered. Late feedback for the old learner counts so, too."""
    async with worker(store_url) as client:
        await post(client, "/models", **paced(name))
        learner = {"algorithm": "squarecb", "gap_scale": 1.0}
        put = await client.put(f"/models/{name}/shadows/rival", json={"learner": learner})
        assert put.is_success, put.text
        await played(client, name, 20)
        late = await predicted(client, name, 2, 2)
        pace, own = (await expected_cost(store, name, 20))[0], await weight(store, name)
        shadow = weight_of(await shadow_of(store, name))
        assert shadow == pytest.approx(pace.weight(BUDGET))
        await replace(client, name, "promote", shadow="rival")
        assert await weight(store, name) == shadow != own
        await judge(client, late)
        await played(client, name, 3, 3)
        replica = await folded(store, name)
        await replica.snapshot()
        assert weight_of(await folded(store, name)) == weight_of(replica)
        assert (await rounds_of(client, name))[22]["cost_weight"] not in (shadow, own)
