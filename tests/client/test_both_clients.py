"""The laws that `Wager` and `AsyncWager` share: the same methods, requests and results."""

import inspect
import json
from typing import Any

import httpx2
import pytest

from tests.client.doubles import Reply, Scripted, async_client_of, client_of, predicted, problem, recorded
from wager_client import AsyncFeedbackQueue, AsyncWager, FeedbackItem, FeedbackQueue, Wager


@pytest.mark.parametrize(("one", "other"), [(Wager, AsyncWager), (FeedbackQueue, AsyncFeedbackQueue)])
def test_both_clients_have_the_same_methods(one: type, other: type) -> None:
    shapes = [
        {
            name: [(p.name, p.kind, p.default) for p in inspect.signature(method).parameters.values()]
            for name, method in vars(kind).items()
            if inspect.isfunction(method) and not name.startswith("_")
        }
        for kind in (one, other)
    ]
    assert shapes[0] == shapes[1]


_MODEL: dict[str, Any] = {
    "name": "m",
    "labels": ["a"],
    "learner": {},
    "created_at": "2027-01-16T08:00:00Z",
    "rounds_seen": 0,
}
_MODEL |= {"predictions": 0, "correct": 0, "total_reward": 0.0}
_LINE: dict[str, Any] = {"round": 1, "prediction_id": "m:p", "outcome": "feedback", "context": {}, "rounds_seen": 0}
_LINE |= {"predicted_at": "2027-01-16T08:00:00Z", "feedback_at": "2027-01-16T08:00:00Z"}
_DECISION: dict[str, Any] = {
    "prediction_id": "m:a/b",
    "model": "m",
    "status": "open",
    "propensity": 1.0,
    "mode": "online",
}
_DECISION |= {
    "mode": "online",
    "expires_at": "2027-01-16T08:00:00Z",
    "rounds_seen": 0,
    "changes_seen": 0,
    "learner": {},
}
_PAGE = httpx2.Response(200, content=json.dumps(_LINE).encode() + b"\n")
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any], list[Reply]]] = {
    "predict": (("m", {}), {"prediction_id": "p", "top": 2}, [predicted]),
    "feedback": (("m:p",), {"reward": 0.5}, [httpx2.Response(200, json=recorded("m:p"))]),
    "activate": (("m:p",), {}, [httpx2.Response(200, json={"prediction_id": "m:p", "status": "activated"})]),
    "feedback_batch": (
        ([FeedbackItem("m:p", true_label="a")],),
        {},
        [httpx2.Response(200, json={"results": [recorded("m:p")]})],
    ),
    "predict_batch": (("m", [{"prediction_id": "p"}]), {}, [predicted]),
    "create_model": (
        ("m",),
        {"labels": ["a", "b"], "exist_ok": True},
        [problem(409, "model-exists"), httpx2.Response(200, json=_MODEL, headers={"ETag": '"1"'})],
    ),
    "get_model": (("a b",), {}, [httpx2.Response(200, json=_MODEL)]),
    "change_model": (("m", {"mode": "frozen"}), {"etag": '"1"'}, [httpx2.Response(200, json=_MODEL)]),
    "delete_model": (("m",), {}, [httpx2.Response(204)]),
    "explain": (("m", {}), {}, [httpx2.Response(200, json={"model": "m", "rounds_seen": 1})]),
    "prediction": (("m:a/b",), {}, [httpx2.Response(200, json=_DECISION)]),
    "health": ((), {}, [httpx2.Response(200, json={"status": "ready"})]),
    "list_models": (
        (),
        {"search": "M", "sort": "trouble", "page_size": 1},
        [
            httpx2.Response(200, json={"models": [{"name": "m"}], "next_cursor": "m"}),
            httpx2.Response(
                200, json={"models": [{"name": "n", "problem": {"title": "t", "status": 500}}], "next_cursor": None}
            ),
        ],
    ),
    "rounds": (("m",), {"page_size": 1}, [_PAGE, httpx2.Response(200)]),
    "request": (("get", "/models/m/statistics"), {"params": {"a": 1}}, [httpx2.Response(200, json={"verdict": "x"})]),
}
"""For each method: its arguments, its options, and the answers of the service."""


async def test_the_asynchronous_client_makes_the_same_requests() -> None:
    assert set(CALLS) == {n for n, m in vars(Wager).items() if inspect.isfunction(m) and n[0] != "_"} - {
        "close",
        "with_options",
    }
    for name, (arguments, options, replies) in CALLS.items():
        one, other = Scripted(*replies), Scripted(*replies)
        first = getattr(client_of(one), name)(*arguments, **options)
        second = getattr(async_client_of(other), name)(*arguments, **options)
        if name in ("list_models", "rounds"):
            first, second = list(first), [each async for each in second]
        else:
            second = await second
        assert repr(first) == repr(second), name
        sent = [[(r.method, r.url, r.content, r.headers) for r in service.requests] for service in (one, other)]
        assert sent[0] == sent[1], name
        assert len(sent[0]) == len(replies), name
