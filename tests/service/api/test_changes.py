"""The HTTP contract of changes, `PATCH /models/{name}`, of their history, and of what silence means."""

import asyncio
import json
import logging
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from service.lifecycle import copying
from service.models.reading import stored_model
from service.registry import changing
from service.registry.round_log import LogReader
from service.schemas.rounds import RoundLine
from service.store import keys
from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.replicas.altering import write_history
from tests.service.sample_models import COMPUTE, LABELS, UNIFORM, definition
from tests.service.workers import START

POLICIES: dict[str, list[Any]] = {
    "window_seconds": [60.0, 30.0],
    "late_feedback": ["accept", "reject"],
    "retain_rounds": [5, 7],
    "mode": ["frozen", "logging", "online"],
    "freshness": [{"max_lag_seconds": 0.1}, {"max_lag_seconds": 60.0}, {"max_lag_seconds": 0.0}],
    "holdout": [{"fraction": 0.5, "policy": "uniform"}, {"fraction": 0.5, "policy": {"label": "red"}}, None],
}


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_policy_changes(api: Api, policy: str) -> None:
    await api.create()
    tags = [await api.tag()]
    for number, value in enumerate(POLICIES[policy], 1):
        response = await api.change(tags[-1], **{policy: value})
        model = body_of(response, 200)
        assert model[policy] == value
        assert model == await api.model()
        assert model["changes"]["count"] == number
        note = model["changes"]["latest"][0]
        assert datetime.fromisoformat(note.pop("at")).timestamp() == START
        others: dict[str, Any] = {
            "kind": "policies",
            "by": None,
            "added": [],
            "retired": [],
            "snapshot": None,
            "learner": None,
            "replaced": None,
            "shadow": None,
            "model": None,
        }
        assert note == {"number": number, "policies": {policy: value}} | others
        listed = body_of(await api.get("/models", cursor=api.name[:-1], limit=1000), 200)["models"]
        assert [item[policy] for item in listed if item["name"] == api.name] == [value]
        tags.append(response.headers["etag"])
        assert tags[-1] == await api.tag()
    assert len(set(tags)) == len(tags)


async def test_counts_do_not_change_the_tag(api: Api) -> None:
    await api.create()
    tag = await api.tag()
    made = body_of(await api.predict(), 200)["prediction_id"]
    body_of(await api.judge(made, correct=True), 200)
    assert await api.tag() == tag
    body_of(await api.change(tag, window_seconds=5.0), 200)


@pytest.mark.parametrize("tag", ['"x"', "W/{tag}", "{bare}", '"*"', "", " ", '"a", "b"', None])
async def test_another_version_is_not_changed(api: Api, tag: str | None) -> None:
    """An If-Match without the current ETag, as a strong one, gets 412, none 428, so that no client undoes another's."""
    await api.create()
    current = await api.tag()
    given = tag and tag.format(tag=current, bare=current.strip('"'))
    status, slug = (428, "precondition-required") if tag is None else (412, "precondition-failed")
    problem_of(await api.change(given, window_seconds=5.0), status, slug, "If-Match")
    assert await api.tag() == current


@pytest.mark.parametrize("tag", ["*", "{tag}", '"other", {tag}', '{tag},"other"'])
async def test_if_match_may_list_versions_or_allow_any(api: Api, tag: str) -> None:
    await api.create()
    body_of(await api.change(tag.format(tag=await api.tag()), window_seconds=5.0), 200)


async def test_a_repeated_change_is_made_once(api: Api) -> None:
    await api.create()
    old = await api.tag()
    first = await api.change(old, window_seconds=5.0, retain_rounds=3)
    again = await api.change(old, window_seconds=5.0, retain_rounds=3)
    assert body_of(again, 200) == body_of(first, 200)
    assert again.headers["etag"] == first.headers["etag"]
    for other in ({"window_seconds": 6.0}, {"window_seconds": 5.0}, {"retain_rounds": 3}, {}):
        problem_of(await api.change(old, **other), 412, "precondition-failed", "If-Match")
    body_of(await api.change(first.headers["etag"], window_seconds=7.0), 200)
    problem_of(await api.change(old, window_seconds=5.0, retain_rounds=3), 412, "precondition-failed", "If-Match")


@pytest.mark.parametrize("body", [{}, {"window_seconds": 86_400.0}, {"labels": {}}, {"labels": {"add": []}}])
async def test_a_request_that_changes_nothing_makes_no_change(api: Api, body: dict[str, Any]) -> None:
    await api.create()
    tag = await api.tag()
    response = await api.change(tag, **body)
    assert body_of(response, 200)["changes"]["count"] == 0
    assert response.headers["etag"] == tag


async def test_a_window_applies_to_later_predictions(api: Api) -> None:
    await api.create()
    ends = []
    for seconds in (60.0, 600.0):
        body_of(await api.change("*", window_seconds=seconds), 200)
        answer = body_of(await api.predict(prediction_id=f"p{seconds:.0f}"), 200)
        ends.append(datetime.fromisoformat(answer["expires_at"]).timestamp() - START)
    assert ends == [60.0, 600.0]
    again = body_of(await api.predict(prediction_id="p60"), 200)
    assert datetime.fromisoformat(again["expires_at"]).timestamp() == START + 60.0


async def test_a_new_model_has_another_tag(api: Api) -> None:
    await api.create()
    old = await api.tag()
    await api.delete(f"/models/{api.name}")
    await api.create()
    problem_of(await api.change(old, window_seconds=5.0), 412, "precondition-failed", "If-Match")


@pytest.mark.parametrize("labels", [{"add": ["new"]}, {"retire": [LABELS[0]]}])
async def test_a_repeated_change_of_any_version_is_made_once(api: Api, labels: dict[str, Any]) -> None:
    body_of(await api.create(), 201)
    first = body_of(await api.change("*", labels=labels), 200)
    assert body_of(await api.change("*", labels=labels), 200) == first
    body_of(await api.change("*", window_seconds=5.0), 200)
    assert (await api.change("*", labels=labels)).status_code == 422


async def test_concurrent_changes_of_any_version_are_all_made(api: Api) -> None:
    body_of(await api.create(), 201)
    changes = [{"labels": {"add": [f"new-{i}"]}} for i in range(8)] + [{"window_seconds": 60.0 + i} for i in range(4)]
    answers = await asyncio.gather(*(api.change("*", **each) for each in changes))
    assert [answer.status_code for answer in answers] == [200] * 12
    model = await api.model()
    assert model["changes"]["count"] == 12
    assert set(model["labels"]) == {*LABELS, *(f"new-{i}" for i in range(8))}


async def listed(api: Api, **query: Any) -> dict[str, Any]:
    return body_of(await api.get(f"/models/{api.name}/changes", **query), 200)


async def test_a_change_that_always_comes_second_may_be_tried_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lose(*_: object) -> bool:
        return False

    await api.create()
    with monkeypatch.context() as patch:
        patch.setattr(RedisStore, "change_model", lose)
        for version in ("*", await api.tag()):
            problem = problem_of(await api.change(version, mode="frozen"), 503, "store-unavailable")
            assert problem["detail"] == f'model "{api.name}" changes too often; try again'
    body_of(await api.change("*", mode="frozen"), 200)


async def test_the_pages_list_every_change_once(api: Api) -> None:
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
    assert (await api.model())["changes"] == {"count": 12, "latest": expected[:1:-1]}
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
    await api.create()
    body_of(await api.change("*", window_seconds=5.0), 200)
    stored = await store.get_model(api.name)
    assert stored is not None
    await write_history(store, api.name, [*stored.history, line.decode()])
    problem_of(await api.get(f"/models/{api.name}/changes"), status, slug)
    problem_of(await api.predict(), status, slug)
    assert len((await listed(api, limit=1))["changes"]) == 1


async def test_a_copy_has_the_history_of_its_model(api: Api) -> None:
    await api.create()
    body_of(await api.change("*", labels={"add": ["new"]}), 200)
    body_of(await api.post(f"/models/{api.name}/clone", name=f"{api.name}-copy"), 201)
    page = body_of(await api.get(f"/models/{api.name}-copy/changes"), 200)
    assert [each["kind"] for each in page["changes"]] == ["labels", "clone"]
    assert (page["definition"]["name"], page["definition"]["labels"]) == (f"{api.name}-copy", LABELS)


async def places_in_log(store: RedisStore, name: str) -> dict[int, int]:
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
    body = {"name": api.name, "actions": {"features": {"kind": "named"}}} if has_actions else definition(api.name)
    body_of(await api.post("/models", **body), 201)
    actions: Any = {"actions": [{"id": id_, "features": {"size": 1.0}} for id_ in "xy"]}
    item = actions if has_actions else {"context": [0.6, 0.8, 0.0]}
    seen = dict[str, int]()

    async def play(step: int) -> None:
        before = (await api.model())["changes"]["count"]
        made = body_of(await api.post("/predict/batch", model=api.name, items=[item] * 3), 200)["predictions"]
        seen.update({each["prediction_id"]: before for each in made})
        feedback = [{"prediction_id": each["prediction_id"], "correct": True} for each in made]
        for some in (feedback[:2], feedback[2:])[:: 1 - 2 * (step % 2)]:
            body_of(await api.post("/feedback/batch", feedback=some), 200)

    async def change(step: int) -> None:
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


FILE = {"Content-Type": "application/octet-stream"}
LIMITS = [
    ("MOST_CHANGES", 3, "4 changes"),
    ("MOST_HISTORY_BYTES", 200, "bytes of changes"),
    ("MOST_HISTORY_WEIGHT", 15, "labels, added up over its changes"),
]


async def grow(api: Api, number: int) -> Any:
    return await api.change("*", labels={"add": [f"another label {number}"]})


@pytest.mark.parametrize(("limit", "most", "words"), LIMITS, ids=[limit for limit, *_ in LIMITS])
async def test_no_change_makes_a_history_too_long(
    api: Api, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, words: str
) -> None:
    await api.create()
    monkeypatch.setattr(changing, limit, most)
    answers = [await grow(api, number) for number in range(5)]
    made = sum(answer.is_success for answer in answers)
    assert 2 <= made < 5
    for refused in answers[made:]:
        assert words in problem_of(refused, 422, "too-many-changes")["detail"]
    assert (await api.model())["changes"]["count"] == made
    if limit == "MOST_CHANGES":
        reset = await api.request("POST", f"/models/{api.name}/reset", json={}, headers={"If-Match": "*"})
        problem_of(reset, 422, "too-many-changes")


@pytest.mark.parametrize(("limit", "most"), [each[:2] for each in LIMITS], ids=[limit for limit, *_ in LIMITS])
async def test_a_model_at_a_limit_can_be_copied(
    api: Api, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    await api.create()
    monkeypatch.setattr(changing, limit, most)
    monkeypatch.setattr(copying, "MOST_COPIES", 3)
    while (await grow(api, len((await api.model())["labels"]))).is_success:
        pass
    names = [f"{api.name}-{i}" for i in range(3)]
    body_of(await api.post(f"/models/{api.name}/clone", name=names[0]), 201)
    for source, name in pairwise(names):
        file = (await api.get(f"/models/{source}/export")).content
        body_of(await api.request("POST", f"/models/{name}/import", content=file, headers=FILE), 201)
        problem_of(
            await api.patch(f"/models/{name}", labels={"add": [f"one more label in the {name}"]}),
            422,
            "too-many-changes",
        )
    if limit == "MOST_CHANGES":
        problem_of(await api.post(f"/models/{names[-1]}/clone", name=f"{api.name}-9"), 422, "too-many-changes")


@pytest.mark.parametrize(("limit", "most"), [each[:2] for each in LIMITS], ids=[limit for limit, *_ in LIMITS])
async def test_no_file_has_too_long_a_history(api: Api, monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    await api.create()
    for number in range(5):
        body_of(await grow(api, number), 200)
    file = (await api.get(f"/models/{api.name}/export")).content
    assert (await api.delete(f"/models/{api.name}")).status_code == 204
    with monkeypatch.context() as patched:
        patched.setattr(changing, limit, most)
        patched.setattr(copying, "MOST_COPIES", 0)
        refused = await api.request("POST", f"/models/{api.name}/import", content=file, headers=FILE)
        problem_of(refused, 422, "too-many-changes")
    body_of(await api.request("POST", f"/models/{api.name}/import", content=file, headers=FILE), 201)


@pytest.mark.parametrize(("header", "words"), [
    (b" " * (2**25 + 1), "bytes; it may have"), (b"[" + b"{}," * 1_000_000 + b"{}]", "objects, lists and members"),
], ids=["bytes", "objects"])  # fmt: skip
async def test_the_header_of_a_file_is_read_in_bounded_time(api: Api, header: bytes, words: str) -> None:
    file = len(header).to_bytes(8, "little") + header
    refused = await api.request("POST", f"/models/{api.name}/import", content=file, headers=FILE)
    assert words in problem_of(refused, 422, "invalid-model-file")["detail"]


INCORRECT, REWARD = "incorrect", {"reward": 0.5}
CLICKS: dict[str, Any] = {"learner": UNIFORM, "on_expiry": INCORRECT, "window_seconds": 60.0}
ARRIVAL, CLOSE = "on_arrival", "at_window_close"


def warned(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    found = [each for each in caplog.records if each.getMessage().startswith(f"model {name}: ")]
    for each in found:
        caplog.records.remove(each)
    return [each.getMessage() for each in found if each.levelno == logging.WARNING]


@pytest.mark.parametrize("silence", [INCORRECT, REWARD])
async def test_silence_needs_a_window(api: Api, silence: Any) -> None:
    refused = await api.create(learner=UNIFORM, on_expiry=silence)
    problem = problem_of(refused, 422, "missing-field", "window_seconds")
    assert "within which nearly all feedback arrives" in problem["detail"]
    problem_of(await api.get(f"/models/{api.name}"), 404, "model-not-found", "name")
    before = body_of(await api.create(learner=UNIFORM, window_seconds=60.0), 201)
    refused = await api.change("*", on_expiry=silence)
    assert problem_of(refused, 422, "missing-field", "window_seconds")["detail"] == problem["detail"]
    assert await api.model() == before


@pytest.mark.parametrize("silence", [INCORRECT, REWARD])
@pytest.mark.parametrize("by_change", [False, True])
async def test_silence_lets_feedback_wait(api: Api, store: RedisStore, silence: Any, *, by_change: bool) -> None:
    given = {"on_expiry": silence, "window_seconds": 60.0}
    if by_change:
        body_of(await api.create(learner=UNIFORM), 201)
        model = body_of(await api.change("*", **given), 200)
        assert model["changes"]["latest"][0]["policies"] == given | {"learn": CLOSE}
    else:
        model = body_of(await api.create(learner=UNIFORM, **given), 201)
    assert (model["learn"], model["on_expiry"], model["warnings"]) == (CLOSE, silence, [])
    stored = await store.get_model(api.name)
    assert stored is not None
    written = json.loads(stored.history[0])["policies"] if by_change else json.loads(stored.definition)
    assert (written["learn"], written["on_expiry"]) == (CLOSE, silence)


@pytest.mark.parametrize("by_change", [False, True])
async def test_arrival_beside_silence_has_a_warning(
    api: Api, caplog: pytest.LogCaptureFixture, *, by_change: bool
) -> None:
    asked = {"on_expiry": INCORRECT, "window_seconds": 60.0, "learn": ARRIVAL}
    if by_change:
        body_of(await api.create(learner=UNIFORM), 201)
        assert warned(caplog, api.name) == []
        model = body_of(await api.change("*", **asked), 200)
    else:
        model = body_of(await api.create(learner=UNIFORM, **asked), 201)
    (warning,) = model["warnings"]
    assert warning.startswith("learn: ")
    assert CLOSE in warning
    assert warned(caplog, api.name) == [f"model {api.name}: {warning}"]
    assert (await api.model())["warnings"] == [warning]
    assert body_of(await api.change("*", window_seconds=50.0), 200)["warnings"] == [warning]
    assert warned(caplog, api.name) == []  # it is old
    assert body_of(await api.change("*", learn=CLOSE), 200)["warnings"] == []
    assert body_of(await api.change("*", learn=ARRIVAL), 200)["warnings"] == [warning]
    assert len(warned(caplog, api.name)) == 1


async def test_dropping_silence_ends_the_wait(api: Api) -> None:
    body_of(await api.create(**CLICKS), 201)
    model = body_of(await api.change("*", on_expiry="drop", late_feedback="accept"), 200)
    assert (model["learn"], model["late_feedback"]) == (ARRIVAL, "accept")
    body_of(await api.change("*", on_expiry=INCORRECT, window_seconds=60.0, late_feedback="reject"), 200)
    model = body_of(await api.change("*", on_expiry="drop", learn=CLOSE), 200)
    assert (model["on_expiry"], model["learn"]) == ("drop", CLOSE)


async def test_other_silence_keeps_the_window(api: Api) -> None:
    body_of(await api.create(**CLICKS, learn=ARRIVAL), 201)
    tag = await api.tag()
    for same in ({"on_expiry": INCORRECT}, {"on_expiry": INCORRECT, "window_seconds": 60.0}):
        body_of(await api.change(tag, **same), 200)
    assert await api.tag() == tag
    model = body_of(await api.change(tag, on_expiry=REWARD), 200)
    assert (model["learn"], model["window_seconds"]) == (CLOSE, 60.0)
