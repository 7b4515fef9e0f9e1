"""The laws of imported rounds: exactly once, all or nothing, and ordinary afterwards."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from tests.service.sample_models import post, slug_of
from tests.service.workers import worker

LOGGED = {"context": [1.0, 0.5], "label": "b", "propensity": 0.25, "correct": True}
MODEL: dict[str, Any] = {"labels": ["a", "b", "c"], "features": {"kind": "dense", "size": 2}}


async def create(client: httpx2.AsyncClient, name: str, **fields: Any) -> None:
    await post(client, "/models", 201, **{"name": name} | MODEL | fields)


async def add(
    client: httpx2.AsyncClient, name: str, offset: int, *rounds: Any, status: int = 200, source: str = "file"
) -> Any:
    return await post(client, f"/models/{name}/rounds", status, source=source, offset=offset, rounds=rounds)


async def lines(client: httpx2.AsyncClient, name: str) -> list[Any]:
    response = await client.get(f"/models/{name}/rounds", params={"limit": 10_000})
    return [json.loads(line) for line in response.text.splitlines()]


def field_of(problem: dict[str, Any]) -> Any:
    return problem["errors"][0]["field"] if problem.get("errors") else problem["field"]


def logged(n: int) -> list[dict[str, Any]]:
    return [{**LOGGED, "context": [i / n, 1.0], "label": "abc"[i % 3], "correct": i % 2 == 0} for i in range(n)]


def labelled(n: int) -> list[dict[str, Any]]:
    """Return n labelled rounds: the true label depends on the context."""
    return [{"context": [float(i % 3 == 0), float(i % 3 == 1)], "true_label": "abc"[i % 3]} for i in range(n)]


async def test_imported_rounds_are_in_the_log_as_given(client: httpx2.AsyncClient, name: str) -> None:
    """Imported rounds have ids, but no stored predictions, so no feedback reaches them."""
    await create(client, name)
    given = {**LOGGED, "eligible": ["a", "b"], "at": "2026-01-02T03:04:05Z", "true_label": "b"}
    answer = await add(client, name, 0, given, LOGGED | {"reward": 0.5, "holdout": True} | {"correct": None})
    expected = {"source": "file", "status": "recorded", "imported": 2, "position": 2, "rounds_seen": 2}
    assert answer | {"rounds_seen": 2} == expected
    first, second = await lines(client, name)
    assert [first[key] for key in ("label", "propensity", "true_label", "eligible")] == ["b", 0.25, "b", ["a", "b"]]
    assert first["predicted_at"] == "2026-01-02T03:04:05Z"
    assert (second["reward"], second["correct"], second["holdout"]) == (0.5, None, True)
    await post(client, "/feedback", 404, prediction_id=first["prediction_id"], correct=False)


async def test_labelled_rounds_teach_the_model(client: httpx2.AsyncClient, store_url: str, name: str) -> None:
    """The model draws labels itself with true propensities; every worker computes the same state."""
    await create(client, name)
    for start in range(0, 900, 300):
        await add(client, name, start, *labelled(900)[start : start + 300])
    log = await lines(client, name)
    assert len(log) == 900
    assert sum(line["correct"] for line in log[600:]) > 240
    assert log[0]["propensity"] == pytest.approx(1 / 3)
    lags = [(before - line["rounds_seen"], line["rounds_seen"]) for before, line in enumerate(log)]
    assert all(lag < max(1, seen // 32) for lag, seen in lags), "it learns about as if from one after the other"
    assert max(lag for lag, _ in lags) > 15
    assert all((line["label"] == line["true_label"]) == line["correct"] for line in log)
    asked = {"model": name, "context": [1.0, 0.0], "include_distribution": True}
    async with worker(store_url) as other:
        one, two = [await post(each, "/predict", **asked) for each in (client, other)]
    assert (one["rounds_seen"], one["distribution"]) == (900, two["distribution"])
    assert one["distribution"]["a"] > 0.6


async def test_each_round_is_imported_once(client: httpx2.AsyncClient, store_url: str, name: str) -> None:
    """Repeated, overlapping and concurrent requests, also to two workers, import each round of a source once."""
    await create(client, name)
    rounds = logged(600)
    async with worker(store_url) as other:
        answers = await asyncio.gather(*(add(one, name, 0, *rounds[:400]) for one in (client, other, client, other)))
        assert sum(answer["imported"] for answer in answers) == 400
        overlapping = await add(other, name, 300, *rounds[300:])
        repeated = await add(client, name, 0, *rounds[:500])
    assert (overlapping["imported"], overlapping["position"]) == (200, 600)
    assert (repeated["status"], repeated["imported"], repeated["position"]) == ("duplicate", 0, 600)
    assert [line["context"] for line in await lines(client, name)] == [each["context"] for each in rounds]
    model = (await client.get(f"/models/{name}")).json()
    assert (model["rounds_seen"], model["predictions"], model["correct"]) == (600, 600, 300)
    (progress,) = (await client.get(f"/models/{name}/imports")).json()["imports"]
    assert (progress["source"], progress["position"]) == ("file", 600)


async def test_an_import_leaves_out_no_round(client: httpx2.AsyncClient, name: str) -> None:
    await create(client, name)
    await add(client, name, 0, *logged(2))
    refused = await add(client, name, 3, LOGGED, status=409)
    assert slug_of(refused) == "import-position"
    assert (
        refused["detail"] == 'offset: got 3; must be at most 2, the number of rounds imported from source "file" so far'
    )
    assert (await add(client, name, 0, LOGGED, source="another"))["position"] == 1


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no propensity": ({"propensity": None}, "propensity"),
    "no outcome": ({"correct": None}, "correct"),
    "propensity 0": ({"propensity": 0}, "propensity"),
    "propensity below 1e-12": ({"propensity": 9e-13}, "propensity"),
    "propensity above 1": ({"propensity": 1.5}, "propensity"),
    "unknown label": ({"label": "z"}, "label"),
    "unknown truth": ({"true_label": "z"}, "true_label"),
    "contradiction": ({"true_label": "a", "correct": True}, "correct"),
    "reward and bit": ({"reward": 0.5}, "reward"),
    "reward above 1": ({"reward": 2, "correct": None}, "reward"),
    "context": ({"context": [1.0]}, "context"),
    "not eligible": ({"eligible": ["a", "c"]}, "label"),
    "unknown eligible": ({"eligible": ["b", "z"]}, "eligible.1"),
    "future": ({"at": "2199-01-01T00:00:00Z"}, "at"),
    "no time zone": ({"at": "2020-01-01T00:00:00"}, "at"),
    "actions": ({"actions": [{"id": "x", "features": {}}]}, "actions"),
    "nothing": ({"label": None, "propensity": None, "correct": None}, "true_label"),
    "propensity without label": ({"label": None, "correct": None, "true_label": "a"}, "propensity"),
    "wrong type": ({"correct": "yes"}, "correct"),
    "unknown field": ({"weight": 2}, "weight"),
}


async def test_a_wrong_round_stops_the_whole_request(client: httpx2.AsyncClient, name: str) -> None:
    """If one round is wrong, the problem names its number and field, and no round is imported."""
    await create(client, name)
    for what, (change, field) in WRONG.items():
        refused = await add(client, name, 0, *logged(500), {**LOGGED, **change}, status=422)
        assert field_of(refused) == f"rounds.500.{field}", (what, refused)
    assert (await client.get(f"/models/{name}/imports")).json() == {"imports": []}
    assert (await client.get(f"/models/{name}")).json()["rounds_seen"] == 0


async def test_rounds_with_actions_are_imported(client: httpx2.AsyncClient, name: str) -> None:
    """A logged round keeps its chosen action; of a labelled one, the model chooses, and learns."""
    named = {"features": {"kind": "named"}}
    await post(client, "/models", 201, name=name, **named, actions=named | {"log_actions": "all"})
    actions = [{"id": each, "features": {"colour": each}} for each in ("red", "blue", "green")]
    given = {"context": {"hour": 3}, "actions": actions}
    chosen = {**given, "label": "blue", "propensity": 0.2, "reward": 0.7, "eligible": ["red", "blue"]}
    await add(client, name, 0, chosen, {**given, "label": "red", "propensity": 1, "correct": False})
    first, second = await lines(client, name)
    assert (first["label"], first["reward"], first["propensity"], first["action_count"]) == ("blue", 0.7, 0.2, 2)
    assert [each["id"] for each in second["actions"]] == ["red", "blue", "green"]
    await add(client, name, 2, *[{**given, "true_label": "green"}] * 300)
    log = await lines(client, name)
    assert sum(line["label"] == "green" for line in log[202:]) > 80
    assert all(line["correct"] == (line["label"] == "green") for line in log[2:])
    unknown = await add(client, name, 302, {**given, "true_label": "black"}, status=422)
    assert field_of(unknown) == "rounds.0.true_label"


async def weight_of(client: httpx2.AsyncClient, name: str, **asked: Any) -> Any:
    """Return λ in a new decision."""
    made = await post(client, "/predict", 200, model=name, **asked)
    return (await client.get(f"/predictions/{made['prediction_id']}")).raise_for_status().json()["cost_weight"]


async def test_imported_rounds_have_their_costs(client: httpx2.AsyncClient, name: str) -> None:
    """A logged round has no λ, because another policy decided it. If the model draws the label, its λ counts."""
    await create(client, name, costs={"a": 1.0, "b": 0.5}, cost_weight=0.25)
    (given,) = labelled(1)
    rounds = LOGGED, LOGGED | {"costs": {"b": 3, "c": 2.0}}, given, given | {"costs": {"a": 2, "b": 2, "c": 2}}
    await add(client, name, 0, *rounds)
    first, second, third, fourth = [
        [line[key] for key in ("cost", "cost_weight", "costs")] for line in await lines(client, name)
    ]
    assert (first, second) == ([0.5, None, None], [3.0, None, {"b": 3.0, "c": 2.0}])
    label = (await lines(client, name))[2]["label"]
    assert third == [{"a": 1.0, "b": 0.5, "c": 0.0}[label], 0.25, None]
    assert fourth == [2.0, 0.25, {"a": 2.0, "b": 2.0, "c": 2.0}]


async def test_rounds_of_another_policy_do_not_move_a_budget(
    client: httpx2.AsyncClient, store_url: str, name: str
) -> None:
    """Every worker computes the same λ."""
    paced = {"costs": {"a": 1.0, "b": 1.0, "c": 1.0}, "budget": {"cost": 0.5}, "on_expiry": "incorrect"}
    await create(client, name, window_seconds=600, **paced)
    context = {"context": [1.0, 0.5]}
    first = await weight_of(client, name, **context)
    await add(client, name, 0, *logged(200))
    assert await weight_of(client, name, **context) == first == pytest.approx(0.1 / 0.5)
    await add(client, name, 200, *labelled(200))
    assert await weight_of(client, name, **context) > 1.5 * first
    async with worker(store_url) as other:
        assert await weight_of(other, name, **context) == await weight_of(client, name, **context)


async def test_imported_actions_have_their_costs(client: httpx2.AsyncClient, name: str) -> None:
    named = {"features": {"kind": "named"}}
    await post(client, "/models", 201, name=name, actions=named | {"log_actions": "all"}, cost_weight=0.5)
    actions = [{"id": "red", "features": {"f": 1}, "cost": 2.0}, {"id": "blue", "features": {"f": 2}, "tag": "t"}]
    await add(client, name, 0, {"actions": actions, "label": "red", "propensity": 0.5, "correct": True})
    await add(client, name, 1, {"actions": actions, "true_label": "blue"})
    logged, drawn = await lines(client, name)
    assert (logged["cost"], logged["cost_weight"], logged["costs"]) == (2.0, None, None)
    assert [each["cost"] for each in logged["actions"]] == [2.0, None]
    assert (drawn["cost"], drawn["cost_weight"]) == ({"red": 2.0, "blue": 0.0}[drawn["label"]], 0.5)


WRONG_COSTS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown label": ({"z": 1.0}, ".z"),
    "negative": ({"a": -1.0}, ".a"),
    "above the limit": ({"b": 1e7}, ".b"),
    "a text": ({"b": "1"}, ".b"),
    "null": ({"b": None}, ".b"),
    "retired": ({"old": 1.0}, ".old"),
    "a list": ([1.0], ""),  # type: ignore[dict-item]
}


async def test_wrong_costs_stop_the_whole_request(client: httpx2.AsyncClient, name: str) -> None:
    await create(client, name, labels=["a", "b", "c", "old"])
    retired = await client.patch(f"/models/{name}", json={"labels": {"retire": ["old"]}}, headers={"if-match": "*"})
    assert retired.status_code == 200
    for what, (costs, field) in WRONG_COSTS.items():
        for given in (LOGGED, labelled(1)[0]):
            refused = await add(client, name, 0, *logged(500), given | {"costs": costs}, status=422)
            assert field_of(refused) == f"rounds.500.costs{field}", (what, refused)
    for number in ("1e999", "-1e999", "NaN"):
        body = json.dumps({"source": "file", "offset": 0, "rounds": [LOGGED | {"costs": {"a": 0}}]})
        content = body.replace('"a": 0', f'"a": {number}')
        answer = await client.post(
            f"/models/{name}/rounds", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code in {400, 422}, number
    for field, value in (("cost_weight", 1.0), ("cost", 1.0)):
        assert field_of(await add(client, name, 0, LOGGED | {field: value}, status=422)) == f"rounds.0.{field}"
    assert (await client.get(f"/models/{name}/imports")).json() == {"imports": []}
    assert (await client.get(f"/models/{name}")).json()["rounds_seen"] == 0


async def test_costs_that_no_learner_weighs_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    await create(client, name, learner="gaptron")
    refused = await add(client, name, 0, LOGGED, LOGGED | {"costs": {"a": 1.0}}, status=422)
    assert field_of(refused) == "rounds.1.costs"
    assert "gaptron estimates no rewards to weigh costs against" in refused["detail"]
    named, chosen = {"features": {"kind": "named"}}, {"label": "x", "propensity": 1.0, "correct": True}
    dear: list[dict[str, Any]] = [{"id": "w", "features": {}}, {"id": "x", "features": {}, "cost": -1.0}]
    await post(client, "/models", 201, name=f"{name}-actions", actions=named)
    for actions, more, field in [
        (dear, {}, "rounds.0.actions.1.cost"),
        ([*dear[:1], {"id": "x", "features": {}}], {"costs": {"x": 1.0}}, "rounds.0.costs"),
    ]:
        refused = await add(client, f"{name}-actions", 0, {"actions": actions, **chosen, **more}, status=422)
        assert field_of(refused) == field
    paced = {"budget": {"cost": 1.0}, "on_expiry": "incorrect", "window_seconds": 600}
    await post(client, "/models", 201, name=f"{name}-paced", actions=named, **paced)
    dear[1]["cost"] = 1.0
    refused = await add(client, f"{name}-paced", 0, {"actions": dear, **chosen}, status=422)
    assert field_of(refused) == "rounds.0.actions.0.cost"
    for each in (name, f"{name}-actions", f"{name}-paced"):
        assert (await client.get(f"/models/{each}")).json()["rounds_seen"] == 0


async def test_an_import_follows_changes(client: httpx2.AsyncClient, store_url: str, name: str) -> None:
    """Labels that another worker added are known, and retired ones are refused."""
    await create(client, name)
    await add(client, name, 0, LOGGED)
    async with worker(store_url) as other:
        patch = {"labels": {"add": ["d"], "retire": ["a"]}}
        changed = await other.patch(f"/models/{name}", json=patch, headers={"if-match": "*"})
        assert changed.status_code == 200, changed.text
    await add(client, name, 1, {**LOGGED, "label": "d"})
    assert field_of(await add(client, name, 2, {**LOGGED, "label": "a"}, status=422)) == "rounds.0.label"


async def test_learners_without_rewards_refuse_them(client: httpx2.AsyncClient, name: str) -> None:
    """A learner of bits refuses rewards, one of true labels rounds without them, and one of sets all rounds."""
    await create(client, name, learner={"algorithm": "gaptron"})
    refused = await add(client, name, 0, {**LOGGED, "correct": None, "reward": 0.5}, status=422)
    assert field_of(refused) == "rounds.0.reward"
    await create(client, f"{name}-full", learner={"algorithm": "fenchel-young"})
    refused = await add(client, f"{name}-full", 0, {**LOGGED, "correct": False}, status=422)
    assert field_of(refused) == "rounds.0.true_label"
    await add(client, f"{name}-full", 0, {**LOGGED, "correct": None, "true_label": "a"})
    await create(client, f"{name}-sets", learner={"algorithm": "fenchel-young-multilabel"})
    await add(client, f"{name}-sets", 0, LOGGED, status=422)


async def test_the_smallest_propensity_leaves_every_number_finite(client: httpx2.AsyncClient, name: str) -> None:
    """A round with the largest weight counts in statistics, estimates and shadows, which warn of it."""
    await create(client, name)
    await client.put(f"/models/{name}/shadows/rival", json={"learner": "gaptron"})
    await add(client, name, 0, *logged(300), {**LOGGED, "propensity": 1e-12})
    paths = [f"/models/{name}/{part}" for part in ("statistics", "evaluation", "shadows/rival")]
    statistics, evaluation, _ = [(await client.get(path)).raise_for_status().json() for path in paths]
    assert statistics["rounds"] == 301
    uniform = next(each for each in evaluation["policies"] if each["policy"] == "uniform")
    assert uniform["largest_weight"] == pytest.approx(1e12 / 3)
    assert any("of all weight" in each for each in uniform["warnings"])
