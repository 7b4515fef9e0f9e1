"""Each wrong argument is a `TypeError` or `ValueError` at once that names the argument; nothing is sent."""

import inspect
from typing import Any

import httpx2
import pytest

from tests.client.doubles import PREDICTION, Memory, Scripted, async_client_of, client_of
from wager_client import AsyncFeedbackQueue, AsyncWager, FeedbackItem, FeedbackQueue, Wager

CONSTRUCTORS: list[tuple[dict[str, Any], str]] = [
    ({"base_url": 3}, "base_url: got 3; must be a URL"),
    ({"base_url": []}, r"base_url: got \[\]"),
    ({"base_url": "wager"}, "base_url: got 'wager'; must begin with http"),
    ({"api_key": 3}, "api_key: got an object of the type int"),
    ({"api_key": "key\n"}, "api_key: has a line break"),
    *(({name: value}, f"{name}: got ") for name in ("timeout", "backoff") for value in ("5", -1, float("nan"), True)),
    *(({name: float("inf")}, f"{name}: got inf; must be finite") for name in ("timeout", "backoff")),
    ({"timeout": None}, "timeout: got None; must be a number"),
    ({"timeout": 10**400}, "timeout: got a number beyond"),
    ({"timeout": 0}, "timeout: got 0; must be greater than 0"),
    *(({"max_retries": value}, "max_retries: got ") for value in (None, "2", 2.0, True, -1)),
    ({"http_client": "x"}, "http_client: got 'x'"),
    ({"http_client": httpx2.Client}, "http_client: got"),
]


@pytest.mark.parametrize("kind", [Wager, AsyncWager])
@pytest.mark.parametrize(("options", "message"), CONSTRUCTORS, ids=range(len(CONSTRUCTORS)))
def test_wrong_options_are_refused_by_name(kind: type, options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        kind(**options)
    if "http_client" not in options and None not in options.values():
        with pytest.raises((TypeError, ValueError), match=message):
            kind().with_options(**options)


def test_a_client_of_the_other_kind_is_refused() -> None:
    with pytest.raises(TypeError, match=r"http_client: .*AsyncWager takes an AsyncClient"):
        Wager(http_client=httpx2.AsyncClient())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"http_client: .*Wager takes a Client"):
        AsyncWager(http_client=httpx2.Client())  # type: ignore[arg-type]


NO_PREDICTION: list[Any] = [None, 3, [], {}, b"x", object(), {"prediction_id": "m:p"}, FeedbackItem(3)]  # type: ignore[arg-type]
NO_NAME: list[Any] = [None, 3, "", [], b"m"]
NO_BATCH: list[Any] = [None, 3, "abc", {}, b"x", [3], [None], ["m:p"]]
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    *((name, (value,), {}, "prediction: got ") for name in ("feedback", "activate") for value in NO_PREDICTION),
    *(("feedback_batch", (value,), {}, r"items(\[0\])?: got ") for value in NO_BATCH),
    ("feedback_batch", ([{"prediction_id": "m:1"}, {"prediction_id": 3}],), {}, r"items\[1\]: .*prediction: got 3"),
    ("feedback_batch", ([FeedbackItem([])],), {}, r"items\[0\]: .*prediction: got \[\]"),  # type: ignore[arg-type]
    ("feedback_batch", ([{"prediction_id": "m:1", "clicked": True}],), {}, r"items\[0\]: .*clicked"),
    ("feedback_batch", ([{"correct": True}],), {}, r"items\[0\]: .*prediction_id"),
    *(("predict_batch", ("m", value), {}, r"items(\[0\])?: got ") for value in NO_BATCH),
    *(("predict_batch", (value, [{}]), {}, "model: got ") for value in NO_NAME),
    *((name, (value,), {}, "model: got ") for name in ("predict", "get_model", "explain") for value in NO_NAME),
    *(("prediction", (value,), {}, "prediction_id: got ") for value in NO_NAME),
    *((name, (value,), {}, "model: got ") for name in ("create_model", "delete_model", "rounds") for value in NO_NAME),
    *(("change_model", (value, {}), {"etag": "*"}, "model: got ") for value in NO_NAME),
    ("change_model", ("m", None), {"etag": "*"}, "changes: got None"),
    *(
        ("predict", ("m",), {"default": value}, "default: got ")
        for value in (object(), [], "", float("nan"), 3, {"a"}, [3], ["a", ""], {})
    ),
    *(("request", (value, "/x"), {}, "method: got ") for value in (None, 3)),
    *(("request", ("GET", value), {}, "path") for value in (None, 3, "x", "")),
    ("request", ("GET", "/x"), {"params": [1]}, "params: got "),
    ("request", ("GET", "/x"), {"headers": "x"}, "headers: got "),
]


async def _outcome(value: Any) -> Any:
    if inspect.isasyncgen(value):
        return [each async for each in value]
    if inspect.isgenerator(value):
        return list(value)
    return await value if inspect.isawaitable(value) else value


@pytest.mark.parametrize(("name", "arguments", "options", "message"), CALLS, ids=range(len(CALLS)))
async def test_wrong_arguments_are_refused_by_name(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    service = Scripted(httpx2.Response(200, json=PREDICTION))
    for client in (client_of(service), async_client_of(service)):
        with pytest.raises((TypeError, ValueError), match=message):
            await _outcome(getattr(client, name)(*arguments, **options))
    assert service.requests == []


async def test_queues_refuse_wrong_arguments_by_name() -> None:
    one, other = client_of(Memory()), async_client_of(Memory())
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"client": None}, "client: got None"),
        ({"size": "x"}, "size: got 'x'"),
        ({"batch": 0}, "batch: got 0"),
        ({"drop": "all"}, "drop: got 'all'"),
        ({"on_drop": 3}, "on_drop: got 3"),
        ({"spool": 3}, "spool: got 3"),
        ({"spool": ""}, "spool: got ''; must be"),
        ({"spool": "/"}, "spool: got '/'; must be"),
    ]
    for options, message in [*wrong, ({"client": other}, "client: got")]:
        with pytest.raises((TypeError, ValueError), match=message):
            FeedbackQueue(**{"client": one} | options)
    for options, message in [*wrong, ({"client": one}, "client: got")]:
        with pytest.raises((TypeError, ValueError), match=message):
            AsyncFeedbackQueue(**{"client": other} | options)
    with FeedbackQueue(one) as queue:
        async with AsyncFeedbackQueue(other) as asynchronous:
            for value in NO_PREDICTION:
                for each in (queue, asynchronous):
                    with pytest.raises(TypeError, match="prediction: got "):
                        each.put(value)
            assert queue.put("m:1", correct=True)
            assert asynchronous.put("m:1", correct=True)
