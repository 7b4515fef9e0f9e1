"""Evaluations of flags: what they answer, how long they stick, what they refuse, and the bulk of them."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from service.access.keys import Scope
from service.rounds.flags import MOST_FLAGS
from service.store import keys
from service.store.access_tables import ApiKeyTable
from service.store.redis.redis_store import RedisStore
from tests.service.actions.catalogue import definition as with_actions
from tests.service.api.http_api import Api, body_of, chi_square, problem_of
from tests.service.evaluations import FLAGS, failure_of
from tests.service.keyed import bearer, key_admin_at
from tests.service.rounds.clicks import close_expired
from tests.service.sample_models import LABEL_SET, RANKING, definition
from tests.service.workers import START, Clock, worker

DOCS = Path(__file__).parents[3] / "docs/guides"
LABELS = ["red", "green", "blue"]
NAMED = {"kind": "named"}
N = 600


async def evaluate(client: httpx2.AsyncClient, key: str, **context: Any) -> httpx2.Response:
    return await client.post(f"{FLAGS}/{quote(key, safe='')}", json={"context": context})


async def value_of(client: httpx2.AsyncClient, key: str, **context: Any) -> dict[str, Any]:
    found = body_of(await evaluate(client, key, **context), 200)
    assert (found["key"], found["reason"], set(found["metadata"])) == (
        key,
        "SPLIT",
        {"predictionId", "propensity", "holdout"},
    )
    return found


async def ids(client: httpx2.AsyncClient, key: str, *contexts: dict[str, Any]) -> list[str]:
    return [(await value_of(client, key, **each))["metadata"]["predictionId"] for each in contexts]


async def bulk(client: httpx2.AsyncClient, headers: dict[str, str] | None = None, **context: Any) -> httpx2.Response:
    return await client.post(FLAGS, json={"context": context}, headers=headers)


class Flagged:
    """A worker with its clock, and the models that a test made."""

    def __init__(self, client: httpx2.AsyncClient, clock: Clock, name: str) -> None:
        self.client, self.clock, self.name, self._made = client, clock, name, list[str]()

    async def create(self, key: str = "", **fields: Any) -> str:
        key = f"{self.name}{key}"
        made = await self.client.post("/models", json={"name": key, "labels": LABELS} | fields)
        assert made.status_code == 201, made.text
        self._made.append(key)
        return key

    async def change(self, key: str, **fields: Any) -> dict[str, Any]:
        return body_of(await self.client.patch(f"/models/{key}", json=fields, headers={"If-Match": "*"}), 200)

    async def predictions(self, key: str) -> int:
        count: int = body_of(await self.client.get(f"/models/{key}"), 200)["predictions"]
        return count

    async def end(self) -> None:
        for key in self._made:
            await self.client.delete(f"/models/{key}")


@pytest.fixture
def flagged(store_url: str, name: str, runner: asyncio.Runner) -> Iterator[Flagged]:
    clock = Clock()
    context = worker(store_url, clock)
    found = Flagged(runner.run(context.__aenter__()), clock, name)
    yield found
    runner.run(found.end())
    runner.run(context.__aexit__(None, None, None))


@asynccontextmanager
async def another(store_url: str, clock: Clock) -> AsyncIterator[httpx2.AsyncClient]:
    async with worker(store_url, clock, seed=2) as client:
        yield client


async def test_a_flag_is_drawn_with_its_propensity_and_learns_from_feedback(flagged: Flagged) -> None:
    client, key = flagged.client, await flagged.create(ofrep={"sticky_seconds": 0}, rules={"floor": {"blue": 0.5}})
    made = [await value_of(client, key) for _ in range(N)]
    p = {each["variant"]: each["metadata"]["propensity"] for each in made}
    assert sum(p.values()) == pytest.approx(1.0)
    assert p["blue"] == pytest.approx(0.5)
    assert chi_square([each["variant"] for each in made], p) < 20.0
    assert all(each["value"] == each["variant"] and each["metadata"]["holdout"] is False for each in made)
    for each in made[:50]:
        body = {"prediction_id": each["metadata"]["predictionId"], "correct": each["variant"] == "red"}
        assert (await client.post("/feedback", json=body)).json()["status"] == "recorded"
    assert (await value_of(client, key))["metadata"]["propensity"] not in p.values()


async def test_values_replace_labels_in_every_type_and_after_changes(flagged: Flagged) -> None:
    client, values = flagged.client, {"red": {"color": "#f00", "deep": [1, None]}, "green": {"color": "#0f0"}}
    key = await flagged.create(ofrep={"sticky_seconds": 0}, values=values)
    found = [await value_of(client, key) for _ in range(60)]
    assert {each["variant"] for each in found} == set(LABELS)
    assert all(each["value"] == values.get(each["variant"], each["variant"]) for each in found)
    model = body_of(await client.get(f"/models/{key}"), 200)
    assert [each.partition(":")[0] for each in model["warnings"]] == ["values"]
    assert (await flagged.change(key, labels={"retire": ["blue"]}))["warnings"] == []
    for few, types in (
        ({"red": 1, "green": 2.5}, float),
        ({"red": 1, "green": 2}, int),
        ({"red": True, "green": False}, bool),
        (None, str),
    ):
        changed = await flagged.change(key, values=few)
        assert (changed["values"], changed["warnings"]) == (few, [])
        answers = [await value_of(client, key) for _ in range(20)]
        assert {type(each["value"]) for each in answers} == {types}  # numbers of one flag have one type in JSON, too
        assert all(each["value"] == (few or {}).get(each["variant"], each["variant"]) for each in answers)
    assert len((await flagged.change(key, values={"red": 1}))["warnings"]) == 1


async def test_policies_of_flags_survive_copies_and_the_list(flagged: Flagged) -> None:
    client, sticky = flagged.client, {"bulk": True, "sticky_seconds": 60.0}
    policies: dict[str, Any] = {"values": {"red": 1.5, "blue": 2.0}, "ofrep": sticky}
    key = await flagged.create(**policies)
    body_of(await client.post(f"/models/{key}/clone", json={"name": f"{key}-copy"}), 201)
    file = (await client.get(f"/models/{key}/export")).content
    headers = {"Content-Type": "application/octet-stream"}
    body_of(await client.post(f"/models/{key}-file/import", content=file, headers=headers), 201)
    names = [key, f"{key}-copy", f"{key}-file"]
    listed = {each["name"]: each for each in body_of(await client.get(f"/models?cursor={key[:-1]}"), 200)["models"]}
    for each in names:
        for model in (body_of(await client.get(f"/models/{each}"), 200), listed[each]):
            assert {name: model[name] for name in policies} == policies
        await flagged.change(each, retain_rounds=7)
    flags = body_of(await bulk(client, targetingKey="u"), 200)["flags"]
    assert [each["key"] for each in flags if each["key"].startswith(key)] == names
    for each in names[1:]:
        await client.delete(f"/models/{each}")


async def test_repeats_stick_until_their_time_ends(flagged: Flagged) -> None:
    client, clock = flagged.client, flagged.clock
    key = await flagged.create(features=NAMED, ofrep={"sticky_seconds": 60.0})
    user: dict[str, Any] = {"targetingKey": "u", "plan": "pro", "user": {"age": 41, "tags": ["a"]}}
    same = {"user": {"tags": ["a"], "age": 41.0}, "plan": "pro", "targetingKey": "u"}
    first = await value_of(client, key, **user)
    clock.now = START + 59.999
    assert await value_of(client, key, **same) == first
    assert await flagged.predictions(key) == 1
    own = first["metadata"]["predictionId"]
    others = [user | {"targetingKey": "v"}, user | {"plan": "free"}, user | {"more": True}]
    assert len({own, *await ids(client, key, *others)}) == 4
    clock.now = START + 60.0
    (later,) = await ids(client, key, user)
    assert later != own
    clock.now = START + 59.0  # a worker whose clock is late answers as before
    assert await ids(client, key, user) == [own]
    assert await flagged.predictions(key) == 5


async def test_concurrent_repeats_are_one_prediction(flagged: Flagged, store_url: str) -> None:
    key = await flagged.create(ofrep={"sticky_seconds": 60.0})
    async with another(store_url, flagged.clock) as other:
        clients = [flagged.client, other] * 10
        made = await asyncio.gather(*(value_of(each, key, targetingKey="u") for each in clients))
    assert all(each == made[0] for each in made)
    assert await flagged.predictions(key) == 1


async def test_a_model_without_features_ignores_attributes(flagged: Flagged) -> None:
    client, key = flagged.client, await flagged.create(ofrep={"sticky_seconds": 60.0})
    contexts: list[dict[str, Any]] = [{}, {"a": 1}, {"list": [[1], None], "deep": {"": {"x": "y"}}}, {"big": 10**400}]
    assert len({*await ids(client, key, *({"targetingKey": "u"} | each for each in contexts))}) == 1


async def test_a_prediction_does_not_stick_beyond_its_window(flagged: Flagged) -> None:
    client, clock = flagged.client, flagged.clock
    key = await flagged.create(window_seconds=5.0, ofrep={"sticky_seconds": 3600.0})
    found = list[str]()
    for second in range(20):
        clock.now = START + second
        found += await ids(client, key, {"targetingKey": "u"})
        answer = await client.post("/feedback", json={"prediction_id": found[-1], "correct": True})
        assert answer.status_code == 200, answer.text  # each evaluation has an open prediction
    assert sorted(Counter(found).values()) == [5] * 4
    (late,) = await ids(client, key, {"targetingKey": "v"})
    clock.now += 6.0
    expired = await client.post("/feedback", json={"prediction_id": late, "correct": True})
    problem_of(expired, 404, "prediction-expired", "prediction_id")


@pytest.mark.parametrize("change", ["retire", "reset", "policy", "rollback", "recreated"])
async def test_a_change_ends_stickiness_in_every_worker(flagged: Flagged, store_url: str, change: str) -> None:
    client, user = flagged.client, {"targetingKey": "u"}
    key = await flagged.create(ofrep={"sticky_seconds": 3600.0})
    async with another(store_url, flagged.clock) as other:
        first = await value_of(client, key, **user)
        assert await value_of(other, key, **user) == first
        path = f"/models/{key}"
        if change == "retire":
            await flagged.change(key, labels={"retire": [first["variant"]]})
        elif change == "policy":
            await flagged.change(key, retain_rounds=7)
        elif change == "recreated":
            await client.delete(path)
            await flagged.create(ofrep={"sticky_seconds": 3600.0})
        else:
            await client.post(f"{path}/snapshots", json={"id": "kept"})
            what, body = ("reset", {}) if change == "reset" else ("rollback", {"snapshot": "kept"})
            body_of(await client.post(f"{path}/{what}", json=body, headers={"If-Match": "*"}), 200)
        found = [await value_of(each, key, **user) for each in (other, client)]  # `other` has not seen the change
        assert found[0] == found[1]
        assert found[0]["metadata"]["predictionId"] != first["metadata"]["predictionId"]
        if change == "retire":
            many = [await value_of(each, key, targetingKey=f"{n}") for n in range(30) for each in (other, client)]
            assert first["variant"] not in {found[0]["variant"], *(each["variant"] for each in many)}
        assert await flagged.predictions(key) == {"retire": 32, "recreated": 1}.get(change, 2)


async def test_another_worker_follows_changes_of_the_policies(flagged: Flagged, store_url: str) -> None:
    key = await flagged.create(ofrep={"sticky_seconds": 3600.0}, values={"red": "a", "green": "b", "blue": "c"})
    async with another(store_url, flagged.clock) as other:
        failure_of(await evaluate(other, key), 400, "TARGETING_KEY_MISSING")
        await flagged.change(key, ofrep={"sticky_seconds": 0}, values={"red": "x", "green": "x", "blue": "x"})
        found = [await value_of(other, key) for _ in range(2)]
        assert [each["value"] for each in found] == ["x", "x"]
        assert found[0]["metadata"]["predictionId"] != found[1]["metadata"]["predictionId"]


async def test_no_client_can_take_the_id_of_an_evaluation(flagged: Flagged) -> None:
    client, key = flagged.client, await flagged.create(ofrep={"sticky_seconds": 60.0})
    (own,) = await ids(client, key, {"targetingKey": "u"})
    body = {"model": key, "prediction_id": own}
    problem_of(await client.post("/predict", json=body), 422, "invalid-name", "prediction_id")


async def test_the_holdout_and_the_modes_answer_flags(flagged: Flagged) -> None:
    client = flagged.client
    holdout = {"fraction": 0.5, "policy": {"label": "green"}}
    key = await flagged.create(holdout=holdout, ofrep={"sticky_seconds": 60.0})
    made = [await value_of(client, key, targetingKey=f"{n}") for n in range(40)]
    again = [await value_of(client, key, targetingKey=f"{n}") for n in range(40)]
    assert made == again
    held = [each for each in made if each["metadata"]["holdout"]]
    assert 5 < len(held) < 35
    assert {(each["variant"], each["metadata"]["propensity"]) for each in held} == {("green", 1.0)}
    for mode in ("logging", "frozen"):
        await flagged.change(key, mode=mode, holdout=None)
        assert (await value_of(client, key, targetingKey="u"))["variant"] in LABELS
    priced = await flagged.create(
        "-priced", costs={"red": 1.0}, budget={"cost": 0.5}, on_expiry="incorrect", window_seconds=60.0
    )
    assert (await value_of(client, priced, targetingKey="u"))["variant"] in LABELS


async def test_silence_counts_as_the_policies_say(flagged: Flagged, store: RedisStore) -> None:
    client, clock, window = flagged.client, flagged.clock, 60.0
    key = await flagged.create(
        on_expiry="incorrect", window_seconds=window, ofrep={"sticky_seconds": 3600.0, "bulk": True}
    )
    (shown,) = await ids(client, key, {"targetingKey": "u"})
    assert await ids(client, key, {"targetingKey": "u"}) == [shown]  # a repeat is not a second silence
    flags = body_of(await bulk(client, targetingKey="u"), 200)["flags"]
    (own,) = [each for each in flags if each["key"] == key]
    assert own["metadata"]["predictionId"] != shown
    clock.now += window + 1.0
    await close_expired(store, clock)
    model = body_of(await client.get(f"/models/{key}"), 200)
    assert (model["rounds_seen"], model["correct"]) == (1, 0)  # the prediction in bulk was never activated


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "dense": ({"features": {"kind": "dense", "size": 3}}, "dense features"),
    "sparse": ({"features": {"kind": "sparse", "size": 3}}, "sparse features"),
    "set": ({"learner": LABEL_SET, "features": {"kind": "dense", "size": 3}}, "several labels"),
    "ranking": ({"learner": RANKING, "features": {"kind": "dense", "size": 3}}, "several labels"),
    "baseline": ({"holdout": {"fraction": 0.5, "policy": "baseline"}}, "holdout answers the client's own choice"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_model_that_is_no_flag_says_why(flagged: Flagged, case: str) -> None:
    fields, reason = REFUSED[case]
    key = await flagged.create(**fields)
    details = failure_of(await evaluate(flagged.client, key, targetingKey="u"), 400, "GENERAL")["errorDetails"]
    assert reason in details
    assert "POST /predict" in details
    for policy, field in (({"values": {"red": 1}}, "values"), ({"ofrep": {"bulk": True}}, "ofrep.bulk")):
        answer = await flagged.client.patch(f"/models/{key}", json=policy, headers={"If-Match": "*"})
        assert reason in problem_of(answer, 422, "invalid-request", field)["detail"]
    assert await flagged.predictions(key) == 0


async def test_a_model_with_actions_is_no_flag(api: Api, client: httpx2.AsyncClient) -> None:
    body_of(await api.post("/models", **with_actions(api.name)), 201)
    assert "actions" in failure_of(await evaluate(client, api.name), 400, "GENERAL")["errorDetails"]
    problem_of(await api.change("*", values={}), 422, "invalid-request", "values")


CONTEXTS: dict[str, tuple[Any, str, str]] = {
    "nested lists": ({"user": {"tags": ["a", [1]]}}, "INVALID_CONTEXT", "context.user.tags.1"),
    "a list of numbers": ({"scores": [1, 2]}, "INVALID_CONTEXT", "context.scores.0"),
    "deep": ({"a": json.loads('{"a":' * 9 + "1" + "}" * 9)}, "INVALID_CONTEXT", "context.a"),
    "an infinity": ({"x": 10**400}, "INVALID_CONTEXT", "context.x"),
    "an empty name": ({"": 1}, "INVALID_CONTEXT", "context"),
    "long": ({"text": "x" * 5000}, "INVALID_CONTEXT", "context.text"),
    "no key": ({"targetingKey": None}, "TARGETING_KEY_MISSING", "context.targetingKey"),
    "an empty key": ({"targetingKey": ""}, "TARGETING_KEY_MISSING", "context.targetingKey"),
    "a number as key": ({"targetingKey": 7}, "INVALID_CONTEXT", "context.targetingKey"),
    "a list as key": ({"targetingKey": ["u"]}, "INVALID_CONTEXT", "context.targetingKey"),
}


@pytest.mark.parametrize("case", CONTEXTS)
async def test_a_wrong_context_is_named(flagged: Flagged, case: str) -> None:
    context, code, field = CONTEXTS[case]
    key = await flagged.create(features=NAMED)
    refused = failure_of(await evaluate(flagged.client, key, **({"targetingKey": "u"} | context)), 400, code)
    assert refused["key"] == key
    assert refused["errorDetails"].startswith(field)
    assert await flagged.predictions(key) == 0


BODIES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "PARSE_ERROR"),
    "half": (b"{", "PARSE_ERROR"),
    "a list": (b"[]", "PARSE_ERROR"),
    "UTF-16": ('{"context": {}}'.encode("utf-16"), "PARSE_ERROR"),
    "null as context": (b'{"context": null}', "INVALID_CONTEXT"),
    "a text as context": (b'{"context": "u"}', "INVALID_CONTEXT"),
    "NaN": (b'{"context": {"targetingKey": "u", "x": NaN}}', "INVALID_CONTEXT"),
    "too many members": (json.dumps({"context": {f"{n}": "x" * 20 for n in range(2000)}}).encode(), "GENERAL"),
}


@pytest.mark.parametrize("case", BODIES)
async def test_a_wrong_body_is_a_failure(flagged: Flagged, case: str) -> None:
    content, code = BODIES[case]
    key = await flagged.create(features=NAMED)
    headers = {"Content-Type": "application/json"}
    answer = await flagged.client.post(f"{FLAGS}/{key}", content=content, headers=headers)
    assert failure_of(answer, 400, code)["key"] == key
    everything = await flagged.client.post(FLAGS, content=content, headers=headers)
    if case != "NaN":  # each flag decides what it does with its context
        assert "key" not in failure_of(everything, 400, code)


async def test_what_later_versions_may_send_is_ignored(flagged: Flagged) -> None:
    key = await flagged.create(ofrep={"sticky_seconds": 0})
    body = {"flagType": "string", "context": {"x": None}}
    body_of(await flagged.client.post(f"{FLAGS}/{key}?later=1&later=2", json=body), 200)
    body_of(await flagged.client.post(f"{FLAGS}/{key}", json={}), 200)
    body_of(await flagged.client.post(f"{FLAGS}?flagConfigEtag=x", json={}), 200)


@pytest.mark.parametrize(
    "key",
    [
        "nobody",
        "",
        "a/b",
        "a b",
        "é∂\u2028",
        '"quoted"',
        "\x00",
        "x" * 10_000,
        "%2F",
        "{x}",
        "-",
        "a" * 65,
        "a\r\nX: 1",
    ],
)
async def test_an_unknown_flag_is_not_found_and_not_made(flagged: Flagged, key: str) -> None:
    before = body_of(await flagged.client.get("/models"), 200)
    refused = failure_of(await evaluate(flagged.client, key, targetingKey="u"), 404, "FLAG_NOT_FOUND")
    assert refused["key"] == key
    assert body_of(await flagged.client.get("/models"), 200) == before


async def test_a_key_does_not_end_at_a_line_break(flagged: Flagged) -> None:
    key = await flagged.create()
    refused = failure_of(await evaluate(flagged.client, f"{key}\n", targetingKey="u"), 404, "FLAG_NOT_FOUND")
    assert refused["key"] == f"{key}\n"


async def test_other_paths_and_methods_of_the_protocol_fail_in_its_shape(client: httpx2.AsyncClient) -> None:
    for path in ("/ofrep/v1/configuration", "/v1/ofrep/v1/configuration", f"{FLAGS}more", FLAGS):
        assert "key" not in failure_of(await client.get(path), 405 if path == FLAGS else 404, "GENERAL")
    assert failure_of(await client.get(f"{FLAGS}/a"), 405, "GENERAL")["key"] == "a"
    assert failure_of(await client.get(f"/v1{FLAGS}/a"), 405, "GENERAL")["key"] == "a"
    answer = await client.post(f"{FLAGS}/a", content=b"x" * (5 * 2**20), headers={"Content-Type": "application/json"})
    assert failure_of(answer, 413, "GENERAL")["key"] == "a"
    assert failure_of(await client.post(f"{FLAGS}/a", content=b"{}"), 415, "GENERAL")["key"] == "a"


async def test_full_and_unavailable_stores_fail_with_a_time_to_retry(store_url: str, name: str) -> None:
    async with worker(store_url, max_open_bytes=1) as client:
        body = {"name": name, "labels": LABELS, "ofrep": {"bulk": True}}
        body_of(await client.post("/models", json=body), 201)
        refused = await evaluate(client, name, targetingKey="u")
        assert failure_of(refused, 429, "GENERAL")["key"] == name
        assert int(refused.headers["retry-after"]) >= 1
        flags = body_of(await bulk(client, targetingKey="u"), 200)["flags"]
        assert [each["errorCode"] for each in flags if each["key"] == name] == ["GENERAL"]
        await client.delete(f"/models/{name}")
    async with worker("unix:///nowhere/valkey.sock", store_timeout_seconds=0.1) as client:
        for path in (f"{FLAGS}/a", FLAGS):
            refused = await client.post(path, json={})
            failure_of(refused, 503, "GENERAL")
            assert int(refused.headers["retry-after"]) >= 1


async def test_bulk_predictions_wait_for_activation(flagged: Flagged) -> None:
    client, key = flagged.client, await flagged.create(ofrep={"bulk": True, "sticky_seconds": 60.0})
    quiet = await flagged.create("-quiet")
    flags = {each["key"]: each for each in body_of(await bulk(client, targetingKey="u"), 200)["flags"]}
    assert quiet not in flags
    own = {"prediction_id": flags[key]["metadata"]["predictionId"]}
    problem_of(await client.post("/feedback", json=own | {"correct": True}), 409, "not-activated", "prediction_id")
    assert body_of(await client.post("/activate", json=own), 200)["status"] == "activated"
    assert body_of(await client.post("/feedback", json=own | {"correct": True}), 200)["status"] == "recorded"
    assert await ids(client, key, {"targetingKey": "u"}) != [own["prediction_id"]]
    again = {each["key"]: each for each in body_of(await bulk(client, targetingKey="u"), 200)["flags"]}
    assert again[key] == flags[key]


async def test_an_object_of_a_value_has_at_most_1000_members(flagged: Flagged) -> None:
    client, key = flagged.client, await flagged.create()
    values = {"a": {str(i): i for i in range(1_001)}}
    model = {"name": f"{key}-2", "labels": ["a", "b"], "values": values}
    problem_of(await client.post("/models", json=model), 422, "invalid-request", "values.a")
    change = await client.patch(f"/models/{key}", json={"values": values}, headers={"If-Match": "*"})
    problem_of(change, 422, "invalid-request", "values.a")


async def test_an_unchanged_bulk_is_not_sent_again(flagged: Flagged) -> None:
    client, key = flagged.client, await flagged.create(ofrep={"bulk": True, "sticky_seconds": 60.0})
    first = await bulk(client, targetingKey="u")
    tag = first.headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        same = await bulk(client, {"If-None-Match": known}, targetingKey="u")
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert (await bulk(client, {"If-None-Match": f'"x{tag}y"'}, targetingKey="u")).status_code == 200
    for context in ({"targetingKey": "v"}, {"targetingKey": "u", "later": True}):
        flagged.clock.now += 60.0 * ("later" in context)
        other = await bulk(client, {"If-None-Match": tag}, **context)
        assert (other.status_code, other.headers["etag"] != tag) == (200, True)
    await flagged.change(key, ofrep={"bulk": False})
    assert (await bulk(client, {"If-None-Match": tag}, targetingKey="u")).status_code == 200


async def test_every_worker_lists_the_bulk_flags(flagged: Flagged, store_url: str) -> None:
    names = [await flagged.create(f"-{n}", ofrep={"bulk": n != 1}) for n in range(3)]

    async def listed(client: httpx2.AsyncClient) -> list[str]:
        flags = body_of(await bulk(client, targetingKey="u"), 200)["flags"]
        return [each["key"] for each in flags if each["key"] in names]

    async with another(store_url, flagged.clock) as other:
        for each in (flagged.client, other):
            assert await listed(each) == [names[0], names[2]]
        await value_of(other, names[1], targetingKey="u")  # `other` has loaded it, without the change
        await flagged.change(names[1], ofrep={"bulk": True})
        await flagged.change(names[2], ofrep={"bulk": False})
        for each in (other, flagged.client):
            assert await listed(each) == names[:2]
        await flagged.client.delete(f"/models/{names[0]}")
        await flagged.create("-0")
        for each in (other, flagged.client):
            assert await listed(each) == names[1:2]


async def test_a_worker_that_has_not_seen_a_change_answers_no_bulk_flag_that_ended(
    flagged: Flagged, store_url: str
) -> None:
    key, store = await flagged.create(ofrep={"bulk": True}), RedisStore(store_url, timeout=10.0)
    async with another(store_url, flagged.clock) as other:
        assert key in {each["key"] for each in body_of(await bulk(other, targetingKey="u"), 200)["flags"]}
        await flagged.change(key, ofrep={"bulk": False})
        await store.command("ZADD", keys.FLAGS, 0, key)  # as if the list were read before the change
        assert key not in {each["key"] for each in body_of(await bulk(other, targetingKey="u"), 200)["flags"]}
    await store.command("ZREM", keys.FLAGS, key)
    await store.close()


async def test_a_flag_that_fails_does_not_hide_the_others(flagged: Flagged) -> None:
    sticky = await flagged.create("-a", ofrep={"bulk": True})
    free = await flagged.create("-b", ofrep={"bulk": True, "sticky_seconds": 0})
    named = await flagged.create("-c", features=NAMED, ofrep={"bulk": True, "sticky_seconds": 0})
    flags = {each["key"]: each for each in body_of(await bulk(flagged.client, tags=[[1]]), 200)["flags"]}
    assert flags[free]["variant"] in LABELS
    assert (flags[sticky]["errorCode"], flags[named]["errorCode"]) == ("TARGETING_KEY_MISSING", "INVALID_CONTEXT")
    assert flags[named]["errorDetails"].startswith("context.tags.0")


async def test_a_bulk_has_a_limit_that_the_next_flag_reports(store_url: str, name: str) -> None:
    store = RedisStore(store_url, timeout=10.0)
    async with worker(store_url, auth="required") as client:  # with a key that covers no flags of other tests
        key = bearer(await key_admin_at(ApiKeyTable(store.command)).create("flags", ["admin"], f"{name}-*"))
        names = [f"{name}-{n:03}" for n in range(MOST_FLAGS + 2)]
        for each in names:
            body = {"name": each, "labels": LABELS, "ofrep": {"bulk": True}}
            body_of(await client.post("/models", json=body, headers=key), 201)
        flags = body_of(await bulk(client, key, targetingKey="u"), 200)["flags"]
        assert [each["key"] for each in flags] == names[: MOST_FLAGS + 1]
        assert [each["key"] for each in flags if "errorCode" in each] == names[MOST_FLAGS : MOST_FLAGS + 1]
        assert str(MOST_FLAGS) in flags[-1]["errorDetails"]
        for each in names:
            await client.delete(f"/models/{each}", headers=key)
    await store.close()


async def test_a_key_evaluates_its_own_flags(store_url: str, name: str) -> None:
    store = RedisStore(store_url, timeout=10.0)
    async with worker(store_url, auth="required") as client:
        admin_of_keys = key_admin_at(ApiKeyTable(store.command))

        async def headers(scope: Scope, models: str = "*") -> dict[str, str]:
            return bearer(await admin_of_keys.create("flags", [scope], models))

        admin = await headers("admin")
        mine, foreign = f"{name}-mine", f"{name}-foreign"
        for each in (mine, foreign):
            body = {"name": each, "labels": LABELS, "ofrep": {"bulk": True, "sticky_seconds": 0}}
            body_of(await client.post("/models", json=body, headers=admin), 201)
        own = await headers("predict", f"{name}-*e")
        for header in (own, {"X-API-Key": own["Authorization"].partition(" ")[2]}):
            body_of(await client.post(f"{FLAGS}/{mine}", json={}, headers=header), 200)
            flags = body_of(await client.post(FLAGS, json={}, headers=header), 200)["flags"]
            assert [each["key"] for each in flags] == [mine]
        hidden = failure_of(await client.post(f"{FLAGS}/{foreign}", json={}, headers=own), 404, "FLAG_NOT_FOUND")
        absent = failure_of(await client.post(f"{FLAGS}/{name}-absent", json={}, headers=own), 404, "FLAG_NOT_FOUND")
        assert json.dumps(hidden).replace(foreign, "") == json.dumps(absent).replace(f"{name}-absent", "")
        for wrong, status in ((await headers("feedback"), 403), ({}, 401)):
            assert (
                failure_of(await client.post(f"{FLAGS}/{mine}", json={}, headers=wrong), status, "GENERAL")["key"]
                == mine
            )
            failure_of(await client.post(FLAGS, json={}, headers=wrong), status, "GENERAL")
        slow = bearer(await admin_of_keys.create("slow", ["predict"], budgets={"requests": "1/day"}))
        await client.post(FLAGS, json={}, headers=slow)
        refused = await client.post(f"{FLAGS}/{mine}", json={}, headers=slow)
        assert failure_of(refused, 429, "GENERAL")["key"] == mine
        assert int(refused.headers["retry-after"]) >= 1
        for each in (mine, foreign):
            await client.delete(f"/models/{each}", headers=admin)
    await store.close()


async def test_a_page_of_a_listed_origin_evaluates_flags(store_url: str) -> None:
    origin = "https://shop.example"
    async with worker(store_url, cors_origins=origin) as client:
        asked = {
            "Origin": origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type,if-none-match",
        }
        allowed = (await client.options(FLAGS, headers=asked)).headers
        assert {"content-type", "if-none-match"} <= set(allowed["access-control-allow-headers"].lower().split(", "))
        answer = await client.post(FLAGS, json={}, headers={"Origin": origin})
        assert answer.headers["access-control-allow-origin"] == origin
        assert {"etag", "retry-after"} <= set(answer.headers["access-control-expose-headers"].lower().split(", "))


VALUES: dict[str, tuple[Any, str]] = {
    "null": ({"red": None}, "values.red"),
    "a list": ({"red": [1]}, "values.red"),
    "an unknown label": ({"violet": 1}, "values.violet"),
    "a large integer": ({"red": {"x": [2**53 + 1]}}, "values.red"),
    "deep": ({"red": json.loads('{"a":' * 17 + "1" + "}" * 17)}, "values.red"),
    "too many": ({f"{n}": 1 for n in range(1001)}, "values"),
    "too long": ({"red": "é" * 40_000}, "values"),
    "no object": ("red", "values"),
}


@pytest.mark.parametrize("case", VALUES)
async def test_a_wrong_value_is_named(flagged: Flagged, case: str) -> None:
    values, field = VALUES[case]
    key = await flagged.create()
    before = body_of(await flagged.client.get(f"/models/{key}"), 200)
    answer = await flagged.client.patch(f"/models/{key}", json={"values": values}, headers={"If-Match": "*"})
    assert answer.status_code == 422
    assert answer.json()["field"] == field
    assert body_of(await flagged.client.get(f"/models/{key}"), 200) == before
    made = await flagged.client.post("/models", json=definition(f"{key}-new", features={"kind": "none"}, values=values))
    assert (made.status_code, made.json()["field"]) == (422, field)


def blocks(page: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in re.findall(r"```json\n(.*?)\n```", (DOCS / page).read_text(), re.DOTALL)]


async def test_the_examples_of_the_page_work(flagged: Flagged) -> None:
    asked, answered, values, sticky, in_bulk, activation, failure = blocks("openfeature.md")
    client = flagged.client
    key = await flagged.create(labels=["photos", "table", "video"], features=NAMED)
    found = body_of(await client.post(f"{FLAGS}/{key}", json=asked), 200)
    assert (found.keys(), found["metadata"].keys()) == (answered.keys(), answered["metadata"].keys())
    assert found["metadata"]["propensity"] == pytest.approx(answered["metadata"]["propensity"], abs=1e-4)
    assert len(found["metadata"]["predictionId"]) - len(key) == len(answered["metadata"]["predictionId"]) - len("page")
    assert (await flagged.change(key, **values, **sticky))["warnings"] == []
    found = body_of(await client.post(f"{FLAGS}/{key}", json=asked), 200)
    assert found["value"] == values["values"][found["variant"]]
    await flagged.change(key, **in_bulk)
    flags = {each["key"]: each for each in body_of(await client.post(FLAGS, json=asked), 200)["flags"]}
    activation["prediction_id"] = flags[key]["metadata"]["predictionId"]
    assert body_of(await client.post("/activate", json=activation), 200)["status"] == "activated"
    refused = failure_of(await evaluate(client, key, targetingKey="u", user={"tags": [[1]]}), 400, failure["errorCode"])
    assert refused["errorDetails"].startswith(failure["errorDetails"])
