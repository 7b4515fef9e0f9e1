"""The HTTP contract of histories: `GET /models/{name}/changes`, and the changes that each line of a log names."""

import asyncio
from typing import Any

import pytest

from service.models.reading import stored_model
from service.registry.round_log import LogReader
from service.schemas.rounds import RoundLine
from service.store import keys
from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.replicas.altering import write_history
from tests.service.sample_models import COMPUTE, LABELS, definition


async def listed(api: Api, **query: Any) -> dict[str, Any]:
    """Return a page of the changes of the test's model."""
    return body_of(await api.get(f"/models/{api.name}/changes", **query), 200)


async def test_the_pages_list_every_change_once(api: Api) -> None:
    """Pages list the changes in order, each as in the model, and the definition before them."""
    await api.create(holdout={"fraction": 0.5, "policy": "uniform"})
    assert await listed(api) | {"definition": 0} == {"count": 0, "definition": 0, "changes": [], "next_after": None}
    expected = list[Any]()
    for number in range(12):
        labels = {"add": [f"new-{number}"], "retire": [LABELS[0]] if number == 5 else []}
        patch = {"labels": labels, "holdout": None} if number % 2 else {"window_seconds": float(number + 1)}
        model = body_of(await api.change("*", **patch), 200)
        expected.append(model["changes"]["latest"][0])
    found, sizes, pages = list[Any](), list[int](), list[Any]([0])
    while pages[-1] is not None:
        page = await listed(api, after=pages[-1], limit=5)
        assert page["count"] == 12
        assert (page["definition"]["labels"], page["definition"]["mode"]) == (LABELS, "online")
        assert page["definition"]["holdout"]["fraction"] == 0.5
        found += page["changes"]
        sizes.append(len(page["changes"]))
        pages.append(page["next_after"])
    assert (found, sizes) == (expected, [5, 5, 2])
    assert [each["number"] for each in found] == list(range(1, 13))
    for after in (12, 13, 2**53):
        page = await listed(api, after=after)
        assert (page["count"], page["changes"], page["next_after"]) == (12, [], None)


@pytest.mark.parametrize(
    ("line", "status", "slug"),
    [(b"oops", 500, "store-corrupt"), (b'{"at":1.0,"later":1}', 503, "newer-version"), (b"{}", 500, "store-corrupt")],
)
async def test_an_unreadable_change_is_a_problem(
    api: Api, store: RedisStore, line: bytes, status: int, slug: str
) -> None:
    """A damaged change, and one of a newer version, are problems; pages without it can be read."""
    await api.create()
    body_of(await api.change("*", window_seconds=5.0), 200)
    stored = await store.get_model(api.name)
    assert stored is not None
    await write_history(store, api.name, [*stored.history, line.decode()])
    problem_of(await api.get(f"/models/{api.name}/changes"), status, slug)
    assert len((await listed(api, limit=1))["changes"]) == 1


async def test_a_copy_has_the_history_of_its_model(api: Api) -> None:
    """A clone lists the changes of the other model before its own, and its definition has its name."""
    await api.create()
    body_of(await api.change("*", labels={"add": ["new"]}), 200)
    body_of(await api.post(f"/models/{api.name}/clone", name=f"{api.name}-copy"), 201)
    page = body_of(await api.get(f"/models/{api.name}-copy/changes"), 200)
    assert [each["kind"] for each in page["changes"]] == ["labels", "clone"]
    assert (page["definition"]["name"], page["definition"]["labels"]) == (f"{api.name}-copy", LABELS)


async def places_in_log(store: RedisStore, name: str) -> dict[int, int]:
    """Return the number of changes before the entry of each round, from the ids of the log."""
    stored = await store.get_model(name)
    assert stored is not None
    found, before = dict[int, int](), 0
    for id_, fields in await store.command("XRANGE", keys.log(*stored.key), "-", "+"):
        rounds, changes = map(int, id_.split(b"-"))
        if fields[b"t"] == b"r":
            found.update(dict.fromkeys(range(before + 1, rounds + 1), changes))
        before = rounds
    return found


@pytest.mark.parametrize("has_actions", [False, True])
async def test_a_round_names_its_changes(api: Api, store: RedisStore, has_actions: bool) -> None:
    """Under concurrent changes, a line has the changes before it and those that its prediction saw, exactly."""
    body = {"name": api.name, "actions": {"features": {"kind": "named"}}} if has_actions else definition(api.name)
    body_of(await api.post("/models", **body), 201)
    actions: Any = {"actions": [{"id": id_, "features": {"size": 1.0}} for id_ in "xy"]}
    item = actions if has_actions else {"context": [0.6, 0.8, 0.0]}
    seen = dict[str, int]()

    async def play(step: int) -> None:
        """Predict a block, and judge it while others change the model."""
        before = (await api.model())["changes"]["count"]
        made = body_of(await api.post("/predict/batch", model=api.name, items=[item] * 3), 200)["predictions"]
        seen.update({each["prediction_id"]: before for each in made})
        feedback = [{"prediction_id": each["prediction_id"], "correct": True} for each in made]
        for some in (feedback[:2], feedback[2:])[:: 1 - 2 * (step % 2)]:
            body_of(await api.post("/feedback/batch", feedback=some), 200)

    async def change(step: int) -> None:
        """Change a policy."""
        body_of(await api.change("*", window_seconds=100.0 + step), 200)

    for step in range(10):
        await asyncio.gather(play(2 * step), change(step), play(2 * step + 1))
    lines = await api.rounds()
    assert {line["round"]: line["changes"] for line in lines} == await places_in_log(store, api.name)
    assert len(lines) == 60
    assert len({line["changes"] for line in lines}) > 5
    for line in lines:
        assert seen[line["prediction_id"]] <= line["changes_seen"] <= line["changes"]
    made = body_of(await api.post("/predict", model=api.name, **item), 200)["prediction_id"]
    await change(99)
    body_of(await api.judge(made, correct=True), 200)
    last = (await api.rounds(after=60))[0]
    assert (last["changes_seen"], last["changes"], last["rounds_seen"]) == (10, 11, 60)


async def test_a_reader_of_an_older_definition_lists_every_round(api: Api, store: RedisStore) -> None:
    """A change between reading the definition and reading the log hides no round, and gives none a wrong answer."""
    await api.create()
    stored = await store.get_model(api.name)
    assert stored is not None
    before = stored_model(stored)
    body_of(await api.change("*", labels={"add": ["new"], "retire": LABELS[:3]}), 200)
    made = [body_of(await api.predict(), 200) for _ in range(8)]
    for each in made:
        body_of(await api.judge(each["prediction_id"], correct=True), 200)
    found: list[RoundLine] = []
    async for part in await LogReader(before, store, COMPUTE).read(0, 100):
        found += part
    assert [line.label for line in found] == [each["label"] for each in made]
    assert {line.label for line in found} == {"new", LABELS[3]}
