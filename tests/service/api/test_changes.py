"""The HTTP contract of changes: `PATCH /models/{name}`."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.sample_models import LABELS, definition
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
    """Each change shows in the answer, in the model, in the list, and in the changes; the ETag differs each time."""
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
    """Predictions and feedback leave the ETag as it is."""
    await api.create()
    tag = await api.tag()
    made = body_of(await api.predict(), 200)["prediction_id"]
    body_of(await api.judge(made, correct=True), 200)
    assert await api.tag() == tag
    body_of(await api.change(tag, window_seconds=5.0), 200)


@pytest.mark.parametrize("tag", ['"x"', "W/{tag}", "{bare}", '"*"', "", '"a", "b"'])
async def test_another_version_is_not_changed(api: Api, tag: str) -> None:
    """An If-Match without the current ETag, as a strong one, gets 412 and changes nothing."""
    await api.create()
    current = await api.tag()
    given = tag.format(tag=current, bare=current.strip('"'))
    problem_of(await api.change(given, window_seconds=5.0), 412, "precondition-failed", "If-Match")
    assert await api.tag() == current


@pytest.mark.parametrize("tag", ["*", "{tag}", '"other", {tag}', '{tag},"other"'])
async def test_if_match_may_list_versions_or_allow_any(api: Api, tag: str) -> None:
    """One matching tag suffices, and `*` matches every version."""
    await api.create()
    body_of(await api.change(tag.format(tag=await api.tag()), window_seconds=5.0), 200)


async def test_an_etag_without_its_quotes_is_explained(api: Api) -> None:
    """The refusal of a header without an ETag says that ETags have quotes, even if the version is the current one."""
    await api.create()
    bare = (await api.tag()).strip('"')
    for given in (bare, f'"{bare}', "", " "):
        problem = problem_of(await api.change(given, window_seconds=5.0), 412, "precondition-failed", "If-Match")
        assert "must be an ETag with its double quotes" in problem["detail"]
    assert (await api.model())["changes"]["count"] == 0


async def test_without_if_match_nothing_changes(api: Api) -> None:
    """A change without If-Match gets 428, so that no client overwrites the change of another by accident."""
    await api.create()
    problem_of(await api.change(None, window_seconds=5.0), 428, "precondition-required", "If-Match")
    assert (await api.model())["changes"]["count"] == 0


async def test_a_repeated_change_is_made_once(api: Api) -> None:
    """After a lost answer, the same request gets the same answer; another request with the old ETag gets 412."""
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
    """A request for what the model already has gets the model, with the same ETag."""
    await api.create()
    tag = await api.tag()
    response = await api.change(tag, **body)
    assert body_of(response, 200)["changes"]["count"] == 0
    assert response.headers["etag"] == tag


async def test_a_window_applies_to_later_predictions(api: Api) -> None:
    """A prediction keeps the window that it was made with."""
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
    """The ETag of a deleted model does not match the next model of its name."""
    await api.create()
    old = await api.tag()
    await api.delete(f"/models/{api.name}")
    await api.create()
    problem_of(await api.change(old, window_seconds=5.0), 412, "precondition-failed", "If-Match")


async def test_changes_are_folded_between_rounds(api: Api) -> None:
    """Rounds before, between and after changes keep their numbers, and the log lists every round."""
    await api.create()
    for number in range(1, 7):
        if number % 2 == 0:
            body_of(await api.change("*", window_seconds=10.0 + number), 200)
        made = body_of(await api.predict(), 200)
        assert made["rounds_seen"] == number - 1
        assert body_of(await api.judge(made["prediction_id"], correct=True), 200)["round"] == number
    assert [line["round"] for line in await api.rounds()] == [1, 2, 3, 4, 5, 6]
    assert [line["round"] for line in await api.rounds(after=3)] == [4, 5, 6]


async def test_a_missing_model_cannot_be_changed(api: Api) -> None:
    """A change of an unknown model gets 404, also without If-Match."""
    problem_of(await api.change("*", window_seconds=5.0), 404, "model-not-found", "name")


async def test_more_than_the_latest_changes_are_counted(api: Api) -> None:
    """The model counts all changes and shows the last ten, the newest first."""
    await api.post("/models", **definition(api.name))
    for number in range(12):
        body_of(await api.change("*", window_seconds=float(number + 1)), 200)
    changes = (await api.model())["changes"]
    assert (changes["count"], [note["number"] for note in changes["latest"]]) == (12, list(range(12, 2, -1)))


@pytest.mark.parametrize("labels", [{"add": ["new"]}, {"retire": [LABELS[0]]}])
async def test_a_repeated_change_of_any_version_is_made_once(api: Api, labels: dict[str, Any]) -> None:
    """With `If-Match: *`, a change of labels whose answer was lost is recognised, until another change follows."""
    body_of(await api.create(), 201)
    first = body_of(await api.change("*", labels=labels), 200)
    assert body_of(await api.change("*", labels=labels), 200) == first
    body_of(await api.change("*", window_seconds=5.0), 200)
    assert (await api.change("*", labels=labels)).status_code == 422


async def test_a_label_is_not_added_and_retired_at_once(api: Api) -> None:
    """A change retires labels of the model, not those that it adds: their names would be lost."""
    body_of(await api.create(), 201)
    answer = await api.change("*", labels={"add": ["new"], "retire": ["new"]})
    problem_of(answer, 422, "unknown-label", "labels.retire.0")
    assert "new" not in (await api.model())["labels"]


async def test_concurrent_changes_of_any_version_are_all_made(api: Api) -> None:
    """With `If-Match: *`, no change is refused because another one came first."""
    body_of(await api.create(), 201)
    changes = [{"labels": {"add": [f"new-{i}"]}} for i in range(8)] + [{"window_seconds": 60.0 + i} for i in range(4)]
    answers = await asyncio.gather(*(api.change("*", **each) for each in changes))
    assert [answer.status_code for answer in answers] == [200] * 12
    model = await api.model()
    assert model["changes"]["count"] == 12
    assert set(model["labels"]) == {*LABELS, *(f"new-{i}" for i in range(8))}
