"""The HTTP contract of kept snapshots, rollback and reset."""

from typing import Any

import httpx2
import pytest

from service.store.values import MOST_KEPT
from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.workers import Clock, worker


@pytest.fixture
def api(client: httpx2.AsyncClient, name: str) -> Api:
    """Return the routes at the root: `tests/service/access/test_scopes.py` calls each of them under /v1 as well."""
    return Api(client, "", name)


async def learn(api: Api, n: int = 3) -> None:
    """Add rounds to the test's model."""
    for _ in range(n):
        made = body_of(await api.predict(), 200)["prediction_id"]
        body_of(await api.judge(made, correct=True), 200)


async def distribution(api: Api) -> list[float]:
    """Return the probabilities of the labels for X."""
    return list(body_of(await api.predict(include_distribution=True), 200)["distribution"].values())


async def take(api: Api, **body: Any) -> dict[str, Any]:
    """Take a snapshot of the test's model."""
    return body_of(await api.post(f"/models/{api.name}/snapshots", **body), 201)


async def replace(api: Api, how: str, tag: str | None = "*", **body: Any) -> httpx2.Response:
    """Roll the test's model back, or reset it."""
    headers = {} if tag is None else {"If-Match": tag}
    return await api.request("POST", f"/models/{api.name}/{how}", json=body, headers=headers)


async def test_a_rollback_restores_what_the_model_knew(api: Api) -> None:
    """The distribution is that at the snapshot; a reset makes it that of a new model. Rounds and statistics stay."""
    body_of(await api.create(), 201)
    new = await distribution(api)
    await learn(api)
    known = await distribution(api)
    kept = await take(api, id="mine", note="n")
    assert (kept["rounds"], kept["changes"], kept["by"], kept["note"]) == (3, 0, None, "n")
    await learn(api)
    assert await distribution(api) != known
    model = body_of(await replace(api, "rollback", snapshot="mine"), 200)
    assert await distribution(api) == known
    assert (model["rounds_seen"], model["correct"]) == (6, 6)
    assert {k: v for k, v in model["changes"]["latest"][0].items() if k != "at"} == {
        "number": 1, "kind": "rollback", "by": None, "added": [], "retired": [], "policies": {}, "snapshot": "mine",
        "model": None, "shadow": None, "learner": None, "replaced": None,
    }  # fmt: skip
    model = body_of(await replace(api, "reset"), 200)
    assert await distribution(api) == new
    assert [note["kind"] for note in model["changes"]["latest"]] == ["reset", "rollback"]
    await learn(api, 1)
    body_of(await replace(api, "rollback", snapshot="mine"), 200)
    assert await distribution(api) == known


async def test_creation_returns_the_tag_of_the_definition(api: Api) -> None:
    """A created, cloned or imported model has its location and its ETag, with which it can be changed at once."""
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
    """The same If-Match again, as after a lost answer, returns the result; another request with it is refused."""
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
    """The list has at most `most`, and one that a rollback in the log needs stays."""
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


@pytest.mark.parametrize(
    ("path", "body", "slug", "field"),
    [
        ("snapshots", {"id": "a b"}, "invalid-name", "id"),
        ("snapshots", {"note": "x" * 1001}, "out-of-range", "note"),
        ("snapshots", {"at": 1}, "unknown-field", "at"),
        ("rollback", {}, "missing-field", "snapshot"),
        ("rollback", {"snapshot": ":"}, "invalid-name", "snapshot"),
        ("reset", {"state": 1}, "unknown-field", "state"),
    ],
)
async def test_wrong_requests_name_the_field(api: Api, path: str, body: dict[str, Any], slug: str, field: str) -> None:
    """Nothing is stored."""
    body_of(await api.create(), 201)
    problem_of(await api.post(f"/models/{api.name}/{path}", **body), 422, slug, field)
    assert (await api.model())["changes"]["count"] == 0


async def test_another_worker_continues_from_the_same_state(store_url: str, name: str) -> None:
    """Two workers agree after a rollback through one of them, and after open predictions of before get feedback."""
    async with worker(store_url, Clock()) as one, worker(store_url, Clock()) as two:
        a, b = Api(one, "", name), Api(two, "", name)
        body_of(await a.create(), 201)
        await learn(a)
        known = await distribution(b)
        await take(b, id="mine")
        await learn(b)
        opened = body_of(await a.predict(X), 200)["prediction_id"]
        body_of(await replace(b, "rollback", snapshot="mine"), 200)
        assert await distribution(a) == await distribution(b) == known
        body_of(await a.judge(opened, correct=False), 200)
        assert await distribution(a) == await distribution(b) != known
