"""The laws of snapshots, rollback, clone, export and import: the state is restored, and a bad file changes nothing."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import getitem
from typing import Any

import httpx2
import numpy as np
import pytest
from safetensors.numpy import load

from learners.algorithms.improper.folklore import Folklore
from learners.algorithms.regression.fastcb import FastCb
from learners.base import Problem
from learners.codec import encode_state
from learners.registry import ALL_LEARNERS
from service.errors import ModelFileError
from service.lifecycle.import_validation import foreign_state
from service.models.model import Model
from service.rounds.sessions import SessionCache
from service.store.redis.redis_store import RedisStore
from service.store.values import MOST_KEPT, Snapshot
from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.rounds.test_every_learner import create, play, truth_of
from tests.service.sample_models import LABELS, definition
from tests.service.workers import Clock, worker
from toolkit.repair import search


async def taught(api: Api, n: int = 6, **fields: Any) -> None:
    body_of(await api.create(freshness={"max_lag_seconds": 1e-9}, **fields), 201)
    await api.learn(n)
    body_of(await api.change("*", window_seconds=7.0), 200)
    body_of(await api.change("*", labels={"add": ["purple"], "retire": ["red"]}), 200)
    await api.learn(2)


def model_in(content: bytes) -> dict[str, Any]:
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    assert (header["format"], header["version"]) == ("wager-model", "1")
    return dict(json.loads(header["model"]))


@pytest.mark.parametrize("how", ["clone", "import"])
@pytest.mark.parametrize("rounds", [0, 6])
async def test_a_copy_continues_where_the_model_was(api: Api, store: RedisStore, how: str, rounds: int) -> None:
    await taught(api, rounds)
    copy = api.named(f"{api.name}-copy")
    if how == "clone":
        answer = await api.post(f"/models/{api.name}/clone", name=copy.name)
        problem_of(await api.post(f"/models/{api.name}/clone", name=copy.name), 409, "model-exists", "name")
    else:
        content = await api.exported()
        answer = await copy.imported(content)
        problem_of(await copy.imported(content), 409, "model-exists", "name")
    made = body_of(answer, 201)
    assert answer.headers["location"] == f"/models/{copy.name}"
    assert made == await copy.model()
    source = await api.model()
    (first,) = [note for note in made["changes"]["latest"] if note["kind"] == how]
    assert (first["number"], first["model"]) == (3, api.name)
    assert all(made[key] == source[key] for key in set(source) - {"name", "predictions", "changes", "created_at"})
    assert await copy.distribution() == await api.distribution()
    assert await copy.rounds() == []
    lag = rounds
    while lag:  # until a worker has published the statistics, without another request
        lag = body_of(await copy.get(f"/models/{copy.name}/statistics"), 200)["fold_lag"]
    assert [each async for each in search(store, copy.name)] == []
    for each in (api, copy):
        await each.learn(3)  # the answers are random, so each learns its own
    assert [line["round"] for line in await copy.rounds(limit=1)] == [rounds + 3]
    before, any_version = await api.distribution(), {"If-Match": "*"}
    body_of(await copy.request("POST", f"/models/{copy.name}/reset", json={}, headers=any_version), 200)
    assert await api.distribution() == before


async def weight_of(api: Api) -> float:
    """Return λ in a new decision."""
    made = body_of(await api.predict(), 200)["prediction_id"]
    found: float = body_of(await api.get(f"/predictions/{made}"), 200)["cost_weight"]
    return found


@pytest.mark.parametrize("learner", ["fastcb", "squarecb", "epsilon-greedy-ridge"])
async def test_copies_keep_costs_budget_and_weight(api: Api, learner: str) -> None:
    """A rollback restores λ, and a reset forgets it."""
    costs, silence = dict.fromkeys(LABELS, 1.0), {"on_expiry": "incorrect", "window_seconds": 600}
    paced = {"costs": costs, "budget": {"cost": 0.4}, **silence, "learn": "on_arrival"}
    body_of(await api.create(learner=learner, freshness={"max_lag_seconds": 1e-9}, **paced), 201)
    first = await weight_of(api)
    await api.learn(8)
    body_of(await api.post(f"/models/{api.name}/snapshots", id="kept"), 201)
    kept = await weight_of(api)
    await api.learn(8)
    later = await weight_of(api)
    assert first == pytest.approx(0.1 / 0.4)
    assert first < kept < later
    body_of(await api.post(f"/models/{api.name}/clone", name=f"{api.name}-clone"), 201)
    body_of(await api.named(f"{api.name}-file").imported(await api.exported()), 201)
    source, weights = await api.model(), set[float]()
    for copy in (api.named(f"{api.name}-clone"), api.named(f"{api.name}-file")):
        made = await copy.model()
        assert all(made[key] == source[key] for key in ("costs", "budget", "cost_weight", "on_expiry"))
        assert await weight_of(copy) == later
    for each in (api, api.named(f"{api.name}-clone"), api.named(f"{api.name}-file")):
        await each.learn(3)  # all labels cost the same
        weights.add(await weight_of(each))
    assert len(weights) == 1
    any_version = {"If-Match": "*"}
    for how, body, expected in [("rollback", {"snapshot": "kept"}, kept), ("reset", {}, first)]:
        path = f"/models/{api.name}/{how}"
        body_of(await api.request("POST", path, json=body, headers=any_version), 200)
        assert await weight_of(api) == expected


async def test_a_copy_keeps_costs_without_a_budget(api: Api) -> None:
    body_of(await api.create(learner="fastcb", costs={"red": 2.0}, cost_weight=0.5), 201)
    body_of(await api.post(f"/models/{api.name}/clone", name=f"{api.name}-clone"), 201)
    body_of(await api.named(f"{api.name}-file").imported(await api.exported()), 201)
    for copy in (api.named(f"{api.name}-clone"), api.named(f"{api.name}-file")):
        assert [(await copy.model())[key] for key in ("costs", "cost_weight", "budget")] == [{"red": 2.0}, 0.5, None]
        assert await weight_of(copy) == 0.5


@pytest.mark.parametrize("algorithm", ["fastcb", "soba", "gaptron"])
async def test_other_workers_fold_the_copy(store_url: str, name: str, algorithm: str) -> None:
    async with worker(store_url, Clock()) as one, worker(store_url, Clock()) as two:
        api = Api(one, "", name)
        body_of(await api.create(learner={"algorithm": algorithm}), 201)
        await api.learn(5)
        other = Api(two, "", f"{name}-copy")
        body_of(await api.post(f"/models/{name}/clone", name=other.name), 201)
        await api.named(other.name).learn(3)
        assert await other.distribution() == await api.named(other.name).distribution()


async def test_a_file_is_safetensors_with_the_whole_model(api: Api) -> None:
    await taught(api)
    content = await api.exported()
    arrays, copy = load(content), api.named(f"{api.name}-copy")
    body_of(await copy.imported(content), 201)
    again = load(await copy.exported())
    assert arrays.keys() == again.keys()
    assert all(np.array_equal(arrays[key], again[key]) for key in arrays)
    model = model_in(content)
    assert (model["name"], model["rounds"], len(model["changes"])) == (api.name, 8, 2)


async def add(api: Api, offset: int, n: int) -> dict[str, Any]:
    rounds = [{"context": X, "label": "red", "propensity": 0.5, "correct": True}] * n
    return body_of(await api.post(f"/models/{api.name}/rounds", source="file", offset=offset, rounds=rounds), 200)


@pytest.mark.parametrize("how", ["clone", "import"])
async def test_a_copy_imports_no_round_again(client: httpx2.AsyncClient, name: str, how: str) -> None:
    api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
    body_of(await api.create(), 201)
    await add(api, 0, 3)
    if how == "clone":
        body_of(await api.post(f"/models/{name}/clone", name=copy.name), 201)
    else:
        body_of(await copy.imported(await api.exported()), 201)
    listed = [body_of(await each.get(f"/models/{each.name}/imports"), 200) for each in (api, copy)]
    assert listed[0] == listed[1]
    assert (await add(copy, 0, 3))["status"] == "duplicate"
    assert ((await add(copy, 2, 4))["imported"], (await copy.model())["rounds_seen"]) == (3, 6)
    assert (await add(api, 3, 1))["position"] == 4


async def test_positions_of_imports_belong_to_the_state(
    client: httpx2.AsyncClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, moments = Api(client, "", name), iter(range(3))
    current = SessionCache.current
    body_of(await api.create(), 201)

    async def while_importing(sessions: SessionCache, model: str) -> tuple[Model, Snapshot]:
        found = await current(sessions, model)
        for place in itertools.islice(moments, 1):
            await add(api, place, 1)
        return found

    monkeypatch.setattr(SessionCache, "current", while_importing)
    content = await api.exported()
    model = model_in(content)
    assert (model["rounds"], [each["position"] for each in model["imports"]]) == (3, [3])


def edited(content: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    edit(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def _metadata(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header["__metadata__"].update(fields)


def _json(entry: str, *path: str | int, **fields: Any) -> Callable[[dict[str, Any]], None]:
    """Return an edit of an object in the JSON of a metadata entry."""

    def edit(header: dict[str, Any]) -> None:
        whole = json.loads(header["__metadata__"][entry])
        reduce(getitem, path, whole).update(fields)
        header["__metadata__"][entry] = json.dumps(whole)

    return edit


def _array(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: next(entry for entry in header.values() if entry.get("shape")).update(fields)


SOURCE = {"source": "file", "position": 1, "at": 1.0}
SOURCES = [SOURCE | {"source": str(i)} for i in range(101)]
WIDE = {"kind": "dense", "size": 10_000}
HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "another format": (_metadata(format="pt"), "invalid-model-file"),
    "a newer version": (_metadata(version="2"), "newer-model-file"),
    "a version in words": (_metadata(version="one"), "invalid-model-file"),
    "further metadata": (_metadata(code="x"), "invalid-model-file"),
    "metadata that is no text": (_metadata(model=1), "invalid-model-file"),
    "a huge shape": (_array(shape=[2**40, 2**40]), "invalid-model-file"),
    "a negative shape": (_array(shape=[-1, -12]), "invalid-model-file"),
    "overlapping arrays": (_array(data_offsets=[0, 8]), "invalid-model-file"),
    "another dtype": (_array(dtype="F32"), "invalid-model-file"),
    "another learner": (_metadata(learner="{}"), "invalid-model-file"),
    "deep JSON": (_metadata(model="[" * 100_000), "invalid-model-file"),
    "a member twice": (_metadata(model='{"name":"a","name":"b"}'), "invalid-model-file"),
    "NaN in the model": (_metadata(model='{"rounds":NaN}'), "invalid-model-file"),
    "a source twice": (_json("model", imports=[SOURCE, SOURCE]), "invalid-model-file"),
    "a source before its begin": (_json("model", imports=[SOURCE | {"position": -1}]), "invalid-model-file"),
    "too many sources": (_json("model", imports=SOURCES), "invalid-model-file"),
    "negative rounds": (_json("model", rounds=-1), "invalid-model-file"),
    "a further field": (_json("model", later=1), "newer-model-file"),
    "too few labels": (_json("model", "definition", labels=["a"]), "invalid-model-file"),
    "an unknown algorithm": (_json("model", "definition", learner={"algorithm": "later"}), "newer-model-file"),
    "another learner's definition": (_json("model", "definition", learner={"algorithm": "uniform"}),
        "invalid-model-file"),
    "a huge model": (_json("model", "definition", learner={"algorithm": "soba"}, features=WIDE), "model-too-large"),
    "a change that is none": (_json("model", changes=[{"at": "now"}]), "invalid-model-file"),
    "a change of no year": (_json("model", changes=[{"at": 1e300}]), "invalid-model-file"),
    "a newer change": (_json("model", changes=[{"at": 1.0, "later": 1}]), "newer-model-file"),
    "a change of no window": (_json("model", changes=[{"at": 1.0, "policies": {"window_seconds": -1.0}}]),
        "invalid-model-file"),
    "an unknown retired label": (_json("model", changes=[{"at": 1.0, "labels": {"retire": ["x"]}}]),
        "invalid-model-file"),
    "statistics that are none": (_metadata(statistics="[]"), "invalid-model-file"),
    "statistics of more rounds": (_json("statistics", rounds=10**9), "invalid-model-file"),
    **{f"statistics of more {field}": (_json("statistics", **{field: 3}), "invalid-model-file")
       for field in ("correct", "abstained", "answered", "holdout_rounds")},
    "statistics of more reward": (_json("statistics", reward=2.5), "invalid-model-file"),
    "statistics of texts": (_json("statistics", delays=["x"] * 10), "invalid-model-file"),
    "newer statistics": (_json("statistics", version=99), "newer-model-file"),
    "statistics of huge numbers": (_json("statistics", rounds=10**40), "invalid-model-file"),
    "a huge position": (_json("model", imports=[SOURCE | {"position": 2**63}]), "invalid-model-file"),
    "a flag as rounds": (_json("model", rounds=True), "invalid-model-file"),
    "statistics without time": (_json("statistics", slot_seconds=0.0), "invalid-model-file"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_hostile_file_is_refused(client: httpx2.AsyncClient, name: str, case: str) -> None:
    api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
    body_of(await api.create(), 201)
    await api.learn(2)
    content, (edit, slug) = await api.exported(), HOSTILE[case]
    field = "learner.algorithm" if slug == "model-too-large" else None
    problem_of(await copy.imported(edited(content, edit)), 422, slug, field)
    problem_of(await copy.get(f"/models/{copy.name}"), 404, "model-not-found", "name")
    body_of(await copy.imported(content), 201)


async def with_shadows(api: Api) -> None:
    """Let a model have two shadows and learn; its last change comes after its last round."""
    body_of(await api.create(), 201)
    for shadow, learner in (("rival", "gaptron"), ("other", "squarecb")):
        body_of(await api.request("PUT", f"/models/{api.name}/shadows/{shadow}", json={"learner": learner}), 200)
    await api.learn(6)
    body_of(await api.change("*", labels={"add": ["purple"]}), 200)


async def shadows_of(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(await api.get(f"/models/{api.name}/shadows"), 200)["shadows"]
    return found


async def test_a_file_has_the_shadows_with_what_they_know(api: Api) -> None:
    """They have seen every round and change, however little they had folded; a clone has none."""
    await with_shadows(api)
    content, copy = await api.exported(), api.named(f"{api.name}-copy")
    assert [each["rounds"] for each in model_in(content)["shadows"]] == [6, 6]
    body_of(await copy.imported(content), 201)
    assert await shadows_of(copy) == (known := await shadows_of(api))
    assert [(each["rounds_seen"], each["compared_rounds"], each["restarts"]) for each in known] == [(6, 6, 0)] * 2
    for each in (api, copy):
        body_of(await replace(each, "promote", shadow="rival"), 200)
    assert await copy.distribution() == await api.distribution()
    assert [each["name"] for each in await shadows_of(copy)] == ["other"]
    body_of(await api.post(f"/models/{api.name}/clone", name=f"{api.name}-clone"), 201)
    assert await shadows_of(api.named(f"{api.name}-clone")) == []


async def test_rounds_that_a_shadow_lacks_count_as_skipped(api: Api) -> None:
    await with_shadows(api)
    content = edited(await api.exported(), _json("model", "shadows", 0, rounds=4))
    copy = api.named(f"{api.name}-copy")
    body_of(await copy.imported(content), 201)
    (other, rival) = await shadows_of(copy)
    assert [(each["rounds_seen"], each["lag"], each["skipped_rounds"]) for each in (other, rival)] == [
        (6, 0, 2),
        (6, 0, 0),
    ]


def _renamed(header: dict[str, Any]) -> None:
    header["shadow:unknown"] = header.pop("shadow:rival")


HOSTILE_SHADOWS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "more rounds than the model": (_json("model", "shadows", 0, rounds=7), "invalid-model-file"),
    "a comparison of more rounds": (_json("model", "shadows", 0, "comparison", rounds=7), "invalid-model-file"),
    "a comparison of texts": (_json("model", "shadows", 0, "comparison", reward="1"), "invalid-model-file"),
    "a comparison without sums": (_json("model", "shadows", 0, comparison=None), "invalid-model-file"),
    "a newer comparison": (_json("model", "shadows", 0, "comparison", version=9), "newer-model-file"),
    "a fold from a round that is not there": (_json("model", "shadows", 0, "comparison", since_round=8),
        "invalid-model-file"),
    "a state that nobody describes": (_json("model", shadows=[]), "invalid-model-file"),
    "a state of another name": (_renamed, "invalid-model-file"),
    "a description without its state": (_json("model", "shadows", 0, rounds=None), "invalid-model-file"),
    "two of one name": (_json("model", "shadows", 0, name="rival"), "invalid-model-file"),
    "another learner": (_json("model", "shadows", 0, learner={"algorithm": "newtron"}), "invalid-model-file"),
    "an unknown algorithm": (_json("model", "shadows", 0, learner={"algorithm": "later"}), "newer-model-file"),
    "an unknown hyperparameter": (_json("model", "shadows", 0, learner={"algorithm": "squarecb", "later": 1}),
        "newer-model-file"),
    "a learner without a name": (_json("model", "shadows", 0, learner={}), "invalid-model-file"),
    "a further field": (_json("model", "shadows", 0, later=1), "newer-model-file"),
}  # fmt: skip


async def test_hostile_shadows_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
    await with_shadows(api)
    content = await api.exported()
    for case, (edit, slug) in HOSTILE_SHADOWS.items():
        answer = await copy.imported(edited(content, edit))
        assert (case, answer.status_code, answer.json()["type"]) == (case, 422, f"urn:wager:problem:{slug}")
    problem_of(await copy.get(f"/models/{copy.name}"), 404, "model-not-found", "name")


async def test_a_damaged_file_is_refused(client: httpx2.AsyncClient, name: str) -> None:
    api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
    body_of(await api.create(), 201)
    await api.learn(2)
    content = await api.exported()
    nan, header = np.array(np.nan).tobytes(), 8 + int.from_bytes(content[:8], "little")
    broken = [b"", b"\0", content[:7], content[:100], content[:-8], content + b"\0" * 8, bytes(1000), b"\xff" * 1000]
    broken += [content[:-8] + nan, content[:8] + b"\xff" + content[9:], content[header:], b"{}", b"PK\3\4" + content]
    for each in broken:
        problem_of(await copy.imported(each), 422, "invalid-model-file")
    problem_of(await copy.get(f"/models/{copy.name}"), 404, "model-not-found", "name")


async def test_a_file_may_be_larger_than_other_bodies(store_url: str, name: str) -> None:
    async with worker(store_url, max_body_bytes=2000, max_import_bytes=20_000) as client:
        api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
        features = {"kind": "dense", "size": 100}
        body_of(await api.post("/models", **definition(name, features=features)), 201)
        content = await api.exported()
        assert len(content) > 2000
        body_of(await copy.imported(content), 201)
        problem_of(await api.named(f"{name}-2").imported(bytes(20_001)), 413, "body-too-large")
        problem_of(await api.predict(X * 1000), 413, "body-too-large")


async def learn(api: Api, n: int = 3) -> None:
    """Add correct rounds for X."""
    for made in await api.batch(n):
        body_of(await api.judge(made["prediction_id"], correct=True), 200)


async def take(api: Api, **body: Any) -> dict[str, Any]:
    return body_of(await api.post(f"/models/{api.name}/snapshots", **body), 201)


async def replace(api: Api, how: str, tag: str | None = "*", **body: Any) -> httpx2.Response:
    headers = {} if tag is None else {"If-Match": tag}
    return await api.request("POST", f"/models/{api.name}/{how}", json=body, headers=headers)


async def test_a_rollback_restores_what_the_model_knew(api: Api) -> None:
    body_of(await api.create(), 201)
    new = await api.distribution()
    await learn(api)
    known = await api.distribution()
    kept = await take(api, id="mine", note="n")
    assert (kept["rounds"], kept["changes"], kept["by"], kept["note"]) == (3, 0, None, "n")
    await learn(api)
    assert await api.distribution() != known
    model = body_of(await replace(api, "rollback", snapshot="mine"), 200)
    assert await api.distribution() == known
    assert (model["rounds_seen"], model["correct"]) == (6, 6)
    assert {k: v for k, v in model["changes"]["latest"][0].items() if k != "at"} == {
        "number": 1, "kind": "rollback", "by": None, "added": [], "retired": [], "policies": {}, "snapshot": "mine",
        "model": None, "shadow": None, "learner": None, "replaced": None,
    }  # fmt: skip
    model = body_of(await replace(api, "reset"), 200)
    assert await api.distribution() == new
    assert [note["kind"] for note in model["changes"]["latest"]] == ["reset", "rollback"]
    await learn(api, 1)
    body_of(await replace(api, "rollback", snapshot="mine"), 200)
    assert await api.distribution() == known


async def test_creation_returns_the_tag_of_the_definition(api: Api) -> None:
    tags = {api.name: await api.create()}
    copy, imported = f"{api.name}.copy", f"{api.name}.imported"
    tags[copy] = await api.post(f"/models/{api.name}/clone", name=copy)
    file = (await api.get(f"/models/{api.name}/export")).content
    headers = {"Content-Type": "application/octet-stream"}
    tags[imported] = await api.request("POST", f"/models/{imported}/import", content=file, headers=headers)
    for name, created in tags.items():
        body_of(created, 201)
        path, tag = f"/models/{name}", created.headers["etag"]
        assert created.headers["location"] == path
        assert (await api.get(path)).headers["etag"] == tag
        body_of(await api.request("PATCH", path, json={"mode": "frozen"}, headers={"If-Match": tag}), 200)


async def test_a_repeated_request_is_answered_once(api: Api) -> None:
    body_of(await api.create(), 201)
    first = await take(api, id="mine")
    assert await take(api, id="mine") == first
    problem_of(await api.post(f"/models/{api.name}/snapshots", id="mine", note="x"), 409, "snapshot-exists", "id")
    tag = await api.tag()
    for _ in range(2):
        answer = await replace(api, "rollback", tag, snapshot="mine")
        assert body_of(answer, 200)["changes"]["count"] == 1
        assert answer.headers["etag"] == await api.tag() != tag
    problem_of(await replace(api, "reset", tag), 412, "precondition-failed", "If-Match")
    problem_of(await replace(api, "reset", None), 428, "precondition-required", "If-Match")
    assert (await api.model())["changes"]["count"] == 1


async def test_snapshots_are_listed_and_deleted(api: Api) -> None:
    body_of(await api.create(), 201)
    path = f"/models/{api.name}/snapshots"
    taken = [await take(api) for _ in range(MOST_KEPT)]
    listed = body_of(await api.get(path), 200)
    assert listed["most"] == MOST_KEPT
    assert sorted(listed["snapshots"], key=str) == sorted(taken, key=str)
    problem_of(await api.post(path, id="more"), 409, "too-many-snapshots")
    used, unused = (each["id"] for each in taken[:2])
    body_of(await replace(api, "rollback", snapshot=used), 200)
    problem_of(await api.delete(f"{path}/{used}"), 409, "snapshot-needed", "snapshot")
    assert (await api.delete(f"{path}/{unused}")).status_code == 204
    problem_of(await api.delete(f"{path}/{unused}"), 404, "snapshot-not-found", "snapshot")
    problem_of(await replace(api, "rollback", snapshot=unused), 404, "snapshot-not-found", "snapshot")
    assert len(body_of(await api.get(path), 200)["snapshots"]) == MOST_KEPT - 1


async def test_another_worker_continues_from_the_same_state(store_url: str, name: str) -> None:
    async with worker(store_url, Clock()) as one, worker(store_url, Clock()) as two:
        a, b = Api(one, "", name), Api(two, "", name)
        body_of(await a.create(), 201)
        await learn(a)
        known = await b.distribution()
        await take(b, id="mine")
        await learn(b)
        opened = body_of(await a.predict(X), 200)["prediction_id"]
        body_of(await replace(b, "rollback", snapshot="mine"), 200)
        assert await a.distribution() == await b.distribution() == known
        body_of(await a.judge(opened, correct=False), 200)
        assert await a.distribution() == await b.distribution() != known


Y = [0.2, -0.5, 0.8]
QUICK = ["bandit-perceptrons-kernel", "folklore"]
FLOATS = [np.nan, np.inf, -1.0, 1e-300, 1e30, 1e60, -1e60, 1e100, 1.7e308, -1.7e308]
COUNTS = [-1, 1, 1000, 2**31, 2**53, 2**62, -(2**63), 2**63 - 1]


def corrupted(content: bytes, floats: Sequence[float] = FLOATS) -> Iterator[tuple[str, bytes]]:
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    for name, entry in sorted(header.items()):
        if name == "__metadata__" or entry["data_offsets"][0] == entry["data_offsets"][1]:
            continue
        start, stop = (begin + place for place in entry["data_offsets"])
        dtype, values = (np.int64, COUNTS) if entry["dtype"] == "I64" else (np.float64, floats)
        for value in values:
            for where in (slice(None), 0, -1):
                array = np.frombuffer(content[start:stop], dtype).copy()
                array[where] = value
                yield f"{name}{where} = {value}", content[:start] + array.tobytes() + content[stop:]


async def use(api: Api, kind: Any) -> None:
    for i in range(3):
        context = list(np.roll(Y, i))
        answer = await api.predict(context, include_distribution=kind != "ranking")
        if answer.status_code == 500:
            problem_of(answer, 500, "learner-failed")
            continue
        made = body_of(answer, 200)
        assert 0.0 < made["propensity"] <= 1.0
        assert all(0.0 <= p <= 1.0 for p in (made["distribution"] or {}).values())
        body_of(await api.judge(made["prediction_id"], **truth_of(kind, context)), 200)


@pytest.mark.parametrize(
    "algorithm", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in sorted(ALL_LEARNERS)]
)
async def test_no_state_stops_a_worker(store_url: str, name: str, algorithm: str, request: Any) -> None:
    thorough = "slow" in request.config.option.markexpr
    async with worker(store_url) as client:
        kind = await create(client, name, algorithm)
        await play(client, name, kind)
        content = await Api(client, "", name).exported()
        copy = Api(client, "", f"{name}-copy")
        body_of(await copy.imported(content), 201)
        await use(copy, kind)
        cases = list(corrupted(content))
        for case, broken in cases if thorough else cases[:: max(1, len(cases) // 8)]:
            await copy.delete(f"/models/{copy.name}")
            answer = await copy.imported(broken)
            assert answer.status_code in (201, 422), f"{case}: {answer.text}"
            if answer.status_code == 201:
                await use(copy, kind)
                assert (await copy.get(f"/models/{copy.name}/statistics")).status_code == 200, case
        assert (await client.get("/readyz")).status_code == 200


async def refused(client: httpx2.AsyncClient, name: str, array: str, value: float) -> None:
    api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
    body_of(await api.create(learner={"algorithm": "folklore"}), 201)
    cases = dict(corrupted(await api.exported(), [value]))
    problem_of(await copy.imported(cases[f"{array}{slice(None)} = {value}"]), 422, "invalid-model-file")


@pytest.mark.parametrize("place", [2, 3, 4])
def test_a_state_with_an_impossible_pace_is_refused(place: int) -> None:
    """A mean lag, a number of rounds or a budget below 0 could divide by 0."""
    learner = FastCb(problem=Problem(3, 2))
    state = learner.init()
    state.pacing[place] = -1.0
    with pytest.raises(ModelFileError, match="its state: pacing"):
        foreign_state(learner, memoryview(encode_state(learner, state)), decides=True)


UNBOUNDED = ["fastcb", "squarecb", "epsilon-greedy-ridge", "folklore", "folklore-bandit", "soba-low-rank", "uniform"]


@pytest.mark.parametrize("size", [1e31, 1e61, 1.7e308])
@pytest.mark.parametrize("algorithm", UNBOUNDED)
async def test_a_model_of_any_numbers_can_be_copied(api: Api, algorithm: str, size: float) -> None:
    """A feature that occurs once, a usual one, and one that is always as large."""
    features = {"kind": "named", "size": 64, "norm": "none"}
    body_of(await api.post("/models", name=api.name, labels=["a", "b"], learner=algorithm, features=features), 201)
    for n in range(150):
        context = {"usual": size if n in (0, 20) else 1.0, "large": size * (-1) ** n, f"only {n}": size}
        made = body_of(await api.post("/predict", model=api.name, context=context), 200)
        body_of(await api.judge(made["prediction_id"], true_label="ab"[n % 3 == 0]), 200)
    assert (await api.model())["damaged_rounds"] == 0
    body_of(await api.named(f"{api.name}-copy").imported(await api.exported()), 201)


async def test_huge_numbers_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    await refused(client, name, "solution", 1e61)


async def test_numbers_with_which_a_learner_cannot_decide_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    await refused(client, name, "inverse", 1e59)


@pytest.mark.parametrize("n_features", [10, 100])
def test_a_state_of_any_size_that_learns_no_finite_numbers_is_refused(n_features: int) -> None:
    learner = Folklore(problem=Problem(8, n_features))
    state = learner.init()
    encoded = encode_state(learner, state._replace(inverse=np.full_like(state.inverse, 1e20)))
    with pytest.raises(ModelFileError, match="cannot decide and learn"):
        foreign_state(learner, memoryview(encoded), decides=True)
