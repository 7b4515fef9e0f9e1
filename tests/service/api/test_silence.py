"""The HTTP contract of silence: what a request that sets `on_expiry` must say, and what it means besides."""

import json
import logging
from typing import Any

import httpx2
import pytest

from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.sample_models import UNIFORM

INCORRECT, REWARD = "incorrect", {"reward": 0.5}
CLICKS: dict[str, Any] = {"learner": UNIFORM, "on_expiry": INCORRECT, "window_seconds": 60.0}
ARRIVAL, CLOSE = "on_arrival", "at_window_close"


@pytest.fixture
def api(client: httpx2.AsyncClient, name: str) -> Api:
    """Return the routes at the root; `test_scopes.py` calls each under /v1 too."""
    return Api(client, "", name)


def warned(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    """Return the warnings that were logged about a model since the last call."""
    found = [each for each in caplog.records if each.getMessage().startswith(f"model {name}: ")]
    for each in found:
        caplog.records.remove(each)
    return [each.getMessage() for each in found if each.levelno == logging.WARNING]


@pytest.mark.parametrize("silence", [INCORRECT, REWARD])
async def test_silence_needs_a_window(api: Api, silence: Any) -> None:
    """A request that makes silence feedback must say when; the refusal says how to choose, and changes nothing."""
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
    """A request that makes silence feedback means `at_window_close`, which the store has in words."""
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
    """A request may ask for `on_arrival`: then the model's answer and the log say what it costs, and what to choose."""
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
    """`drop` means `on_arrival`, so that the same request can accept late feedback; or what the request says."""
    body_of(await api.create(**CLICKS), 201)
    model = body_of(await api.change("*", on_expiry="drop", late_feedback="accept"), 200)
    assert (model["learn"], model["late_feedback"]) == (ARRIVAL, "accept")
    body_of(await api.change("*", on_expiry=INCORRECT, window_seconds=60.0, late_feedback="reject"), 200)
    model = body_of(await api.change("*", on_expiry="drop", learn=CLOSE), 200)
    assert (model["on_expiry"], model["learn"]) == ("drop", CLOSE)


async def test_other_silence_keeps_the_window(api: Api) -> None:
    """A model whose silence is feedback has a window; only a change of `on_expiry` itself means another `learn`."""
    body_of(await api.create(**CLICKS, learn=ARRIVAL), 201)
    tag = await api.tag()
    for same in ({"on_expiry": INCORRECT}, {"on_expiry": INCORRECT, "window_seconds": 60.0}):
        body_of(await api.change(tag, **same), 200)
    assert await api.tag() == tag
    model = body_of(await api.change(tag, on_expiry=REWARD), 200)
    assert (model["learn"], model["window_seconds"]) == (CLOSE, 60.0)


async def test_a_repeated_change_of_silence_is_made_once(api: Api) -> None:
    """After a lost answer, the same request gets the same answer; without its window, it is another one."""
    body_of(await api.create(learner=UNIFORM), 201)
    old, asked = await api.tag(), {"on_expiry": INCORRECT, "window_seconds": 60.0}
    for _ in range(2):
        assert body_of(await api.change(old, **asked), 200)["changes"]["count"] == 1
    problem_of(await api.change(old, on_expiry=INCORRECT), 412, "precondition-failed", "If-Match")


@pytest.mark.parametrize("learn", [ARRIVAL, CLOSE])
async def test_copies_learn_as_the_model_does(api: Api, learn: str, caplog: pytest.LogCaptureFixture) -> None:
    """A clone, and an imported model, have the policies that the model has, and its warnings."""
    model = body_of(await api.create(**CLICKS, learn=learn), 201)
    file = (await api.get(f"/models/{api.name}/export")).content
    headers = {"Content-Type": "application/octet-stream"}
    for copy, made in (
        (f"{api.name}-clone", await api.post(f"/models/{api.name}/clone", name=f"{api.name}-clone")),
        (
            f"{api.name}-import",
            await api.request("POST", f"/models/{api.name}-import/import", content=file, headers=headers),
        ),
    ):
        body = body_of(made, 201)
        assert (body["learn"], body["warnings"]) == (learn, model["warnings"])
        assert warned(caplog, copy) == [f"model {copy}: {text}" for text in model["warnings"]]
