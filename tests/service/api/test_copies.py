"""The laws of clone, export and import: the copy behaves as the model did, and a bad file changes nothing."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest
from safetensors.numpy import load

from service.models.model import Model
from service.rounds.sessions import SessionCache
from service.store.base import Snapshot
from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.sample_models import definition, some_contexts
from tests.service.workers import Clock, worker
from toolkit.repair import search

FILE = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def api(client: httpx2.AsyncClient, name: str) -> Api:
    """Return the routes at the root; `test_scopes.py` calls each under /v1 too."""
    return Api(client, "", name)


async def taught(api: Api, n: int = 6, **fields: Any) -> None:
    """Create the test's model, teach it, and change it twice."""
    body_of(await api.create(freshness={"max_lag_seconds": 1e-9}, **fields), 201)
    await learn(api, n)
    body_of(await api.change("*", window_seconds=7.0), 200)
    body_of(await api.change("*", labels={"add": ["purple"], "retire": ["red"]}), 200)
    await learn(api, 2)


async def learn(api: Api, n: int) -> None:
    """Add rounds to the test's model."""
    for i, context in enumerate(some_contexts(n, n)):
        made = body_of(await api.predict(context), 200)["prediction_id"]
        body_of(await api.judge(made, correct=i % 2 == 0), 200)


async def distribution(api: Api) -> dict[str, float]:
    """Return the probabilities of the labels for X."""
    found: dict[str, float] = body_of(await api.predict(include_distribution=True), 200)["distribution"]
    return found


def named(api: Api, name: str) -> Api:
    """Return the client of another model."""
    return Api(api._client, api._prefix, name)


async def exported(api: Api) -> bytes:
    """Return the file of the test's model."""
    response = await api.get(f"/models/{api.name}/export")
    assert response.status_code == 200
    assert response.headers["content-disposition"] == f'attachment; filename="{api.name}.safetensors"'
    return response.content


def model_in(content: bytes) -> dict[str, Any]:
    """Return what a file says about its model."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    assert (header["format"], header["version"]) == ("wager-model", "1")
    return dict(json.loads(header["model"]))


async def imported(api: Api, content: bytes) -> httpx2.Response:
    """Import a file as the test's model."""
    return await api.request("POST", f"/models/{api.name}/import", content=content, headers=FILE)


@pytest.mark.parametrize("how", ["clone", "import"])
@pytest.mark.parametrize("rounds", [0, 6])
async def test_a_copy_continues_where_the_model_was(api: Api, store: RedisStore, how: str, rounds: int) -> None:
    """It has the same definition, counts and distribution, learns the same, and is independent of the model."""
    await taught(api, rounds)
    copy = named(api, f"{api.name}-copy")
    if how == "clone":
        answer = await api.post(f"/models/{api.name}/clone", name=copy.name)
        problem_of(await api.post(f"/models/{api.name}/clone", name=copy.name), 409, "model-exists", "name")
    else:
        content = await exported(api)
        answer = await imported(copy, content)
        problem_of(await imported(copy, content), 409, "model-exists", "name")
    made = body_of(answer, 201)
    assert answer.headers["location"] == f"/models/{copy.name}"
    assert made == await copy.model()
    source = await api.model()
    (first,) = [note for note in made["changes"]["latest"] if note["kind"] == how]
    assert (first["number"], first["model"]) == (3, api.name)
    assert all(made[key] == source[key] for key in set(source) - {"name", "predictions", "changes", "created_at"})
    assert await distribution(copy) == await distribution(api)
    assert await copy.rounds() == []
    assert [each async for each in search(store, copy.name)] == []
    for each in (api, copy):
        await learn(each, 3)  # the answers are random, so each learns its own
    assert [line["round"] for line in await copy.rounds(limit=1)] == [rounds + 3]
    before, any_version = await distribution(api), {"If-Match": "*"}
    body_of(await copy.request("POST", f"/models/{copy.name}/reset", json={}, headers=any_version), 200)
    assert await distribution(api) == before


@pytest.mark.parametrize("algorithm", ["fastcb", "soba", "gaptron"])
async def test_other_workers_fold_the_copy(store_url: str, name: str, algorithm: str) -> None:
    """A worker that has never seen the model reaches the same state from the copy's snapshot and its new rounds."""
    async with worker(store_url, Clock()) as one, worker(store_url, Clock()) as two:
        api = Api(one, "", name)
        body_of(await api.create(learner={"algorithm": algorithm}), 201)
        await learn(api, 5)
        other = Api(two, "", f"{name}-copy")
        body_of(await api.post(f"/models/{name}/clone", name=other.name), 201)
        await learn(Api(one, "", other.name), 3)
        assert await distribution(other) == await distribution(Api(one, "", other.name))


async def test_a_file_is_safetensors_with_the_whole_model(api: Api) -> None:
    """The public library reads the arrays; exporting the imported model gives the same arrays."""
    await taught(api)
    content = await exported(api)
    arrays, copy = load(content), named(api, f"{api.name}-copy")
    body_of(await imported(copy, content), 201)
    again = load(await exported(copy))
    assert arrays.keys() == again.keys()
    assert all(np.array_equal(arrays[key], again[key]) for key in arrays)
    model = model_in(content)
    assert (model["name"], model["rounds"], len(model["changes"])) == (api.name, 8, 2)


async def add(api: Api, offset: int, n: int) -> dict[str, Any]:
    """Import n rounds of a source into the test's model."""
    rounds = [{"context": X, "label": "red", "propensity": 0.5, "correct": True}] * n
    return body_of(await api.post(f"/models/{api.name}/rounds", source="file", offset=offset, rounds=rounds), 200)


@pytest.mark.parametrize("how", ["clone", "import"])
async def test_a_copy_imports_no_round_again(client: httpx2.AsyncClient, name: str, how: str) -> None:
    """A source continues where it is in the model, as the state contains the rounds before that."""
    api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
    body_of(await api.create(), 201)
    await add(api, 0, 3)
    if how == "clone":
        body_of(await api.post(f"/models/{name}/clone", name=copy.name), 201)
    else:
        body_of(await imported(copy, await exported(api)), 201)
    listed = [body_of(await each.get(f"/models/{each.name}/imports"), 200) for each in (api, copy)]
    assert listed[0] == listed[1]
    assert (await add(copy, 0, 3))["status"] == "duplicate"
    assert ((await add(copy, 2, 4))["imported"], (await copy.model())["rounds_seen"]) == (3, 6)
    assert (await add(api, 3, 1))["position"] == 4


async def test_positions_of_imports_belong_to_the_state(
    client: httpx2.AsyncClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds that are imported while a model is copied are in the state and the position, or in neither."""
    api, moments, current = Api(client, "", name), iter(range(3)), SessionCache.current
    body_of(await api.create(), 201)

    async def while_importing(sessions: SessionCache, model: str) -> tuple[Model, Snapshot]:
        found = await current(sessions, model)
        for place in itertools.islice(moments, 1):
            await add(api, place, 1)
        return found

    monkeypatch.setattr(SessionCache, "current", while_importing)
    content = await exported(api)
    model = model_in(content)
    assert (model["rounds"], [each["position"] for each in model["imports"]]) == (3, [3])


def edited(content: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    """Return a file with another header."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    edit(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def _in_model(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def edit(header: dict[str, Any]) -> None:
        model = json.loads(header["__metadata__"]["model"])
        model |= fields
        header["__metadata__"]["model"] = json.dumps(model)

    return edit


def _in_definition(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def edit(header: dict[str, Any]) -> None:
        model = json.loads(header["__metadata__"]["model"])
        model["definition"] |= fields
        header["__metadata__"]["model"] = json.dumps(model)

    return edit


def _in_statistics(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def edit(header: dict[str, Any]) -> None:
        statistics = json.loads(header["__metadata__"]["statistics"])
        header["__metadata__"]["statistics"] = json.dumps(statistics | fields)

    return edit


def _metadata(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header["__metadata__"].update(fields)


def _array(**fields: Any) -> Callable[[dict[str, Any]], None]:
    def edit(header: dict[str, Any]) -> None:
        name = next(name for name, entry in header.items() if entry.get("shape"))
        header[name] |= fields

    return edit


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
    "a source twice": (_in_model(imports=[SOURCE, SOURCE]), "invalid-model-file"),
    "a source before its begin": (_in_model(imports=[SOURCE | {"position": -1}]), "invalid-model-file"),
    "too many sources": (_in_model(imports=SOURCES), "invalid-model-file"),
    "negative rounds": (_in_model(rounds=-1), "invalid-model-file"),
    "a further field": (_in_model(later=1), "newer-model-file"),
    "too few labels": (_in_definition(labels=["a"]), "invalid-model-file"),
    "an unknown algorithm": (_in_definition(learner={"algorithm": "later"}), "newer-model-file"),
    "another learner's definition": (_in_definition(learner={"algorithm": "uniform"}), "invalid-model-file"),
    "a huge model": (_in_definition(learner={"algorithm": "soba"}, features=WIDE), "model-too-large"),
    "a change that is none": (_in_model(changes=[{"at": "now"}]), "invalid-model-file"),
    "a change of no year": (_in_model(changes=[{"at": 1e300}]), "invalid-model-file"),
    "a newer change": (_in_model(changes=[{"at": 1.0, "later": 1}]), "newer-model-file"),
    "an unknown retired label": (_in_model(changes=[{"at": 1.0, "labels": {"retire": ["x"]}}]), "invalid-model-file"),
    "statistics that are none": (_metadata(statistics="[]"), "invalid-model-file"),
    "statistics of more rounds": (_in_statistics(rounds=10**9), "invalid-model-file"),
    "statistics of texts": (_in_statistics(delays=["x"] * 10), "invalid-model-file"),
    "newer statistics": (_in_statistics(version=99), "newer-model-file"),
    "statistics without time": (_in_statistics(slot_seconds=0.0), "invalid-model-file"),
}


@pytest.mark.parametrize("case", HOSTILE)
async def test_a_hostile_file_is_refused(client: httpx2.AsyncClient, name: str, case: str) -> None:
    """Nothing of it is imported, and the intact file can be imported afterwards."""
    api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
    body_of(await api.create(), 201)
    await learn(api, 2)
    content, (edit, slug) = await exported(api), HOSTILE[case]
    field = "learner.algorithm" if slug == "model-too-large" else None
    problem_of(await imported(copy, edited(content, edit)), 422, slug, field)
    problem_of(await copy.get(f"/models/{copy.name}"), 404, "model-not-found", "name")
    body_of(await imported(copy, content), 201)


async def test_a_damaged_file_is_refused(client: httpx2.AsyncClient, name: str) -> None:
    """Empty, cut short, noise, and numbers that are not finite; none of them leaves a model or a key."""
    api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
    body_of(await api.create(), 201)
    await learn(api, 2)
    content = await exported(api)
    nan, header = np.array(np.nan).tobytes(), 8 + int.from_bytes(content[:8], "little")
    broken = [b"", b"\0", content[:7], content[:100], content[:-8], content + b"\0" * 8, bytes(1000), b"\xff" * 1000]
    broken += [content[:-8] + nan, content[:8] + b"\xff" + content[9:], content[header:], b"{}", b"PK\3\4" + content]
    for each in broken:
        problem_of(await imported(copy, each), 422, "invalid-model-file")
    problem_of(await copy.get(f"/models/{copy.name}"), 404, "model-not-found", "name")


async def test_a_file_may_be_larger_than_other_bodies(store_url: str, name: str) -> None:
    """The limits of files and of other bodies are separate."""
    async with worker(store_url, max_body_bytes=2000, max_import_bytes=20_000) as client:
        api, copy = Api(client, "", name), Api(client, "", f"{name}-copy")
        features = {"kind": "dense", "size": 100}
        body_of(await api.post("/models", **definition(name, features=features)), 201)
        content = await exported(api)
        assert len(content) > 2000
        body_of(await imported(copy, content), 201)
        problem_of(await imported(named(api, f"{name}-2"), bytes(20_001)), 413, "body-too-large")
        problem_of(await api.predict(X * 1000), 413, "body-too-large")
