"""The laws of signed feedback: valid signatures are accepted, others refused, and no header breaks the service."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import logging
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.errors import InvalidInputError, SignatureError
from service.rounds.webhooks import TOLERANCE_SECONDS, Receiver, read_feedback
from tests.service.sample_models import definition
from tests.service.threads import in_thread
from tests.service.workers import START, Clock, worker

NOW = int(START)
SECRET, OLDER, FOREIGN = (f"whsec_{base64.b64encode(bytes([i]) * 32).decode()}" for i in (1, 2, 3))
X = [0.6, 0.8, 0.0]
FUZZ = settings(
    deadline=None, derandomize=True, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# From the specification of Standard Webhooks 1.0: secret, id, timestamp, body and signature.
VECTOR = (
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}',
    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
)  # fmt: skip


def signed(body: bytes, secret: str = SECRET, at: int = NOW, message_id: str = "msg_1") -> dict[str, str]:
    text = f"{message_id}.{at}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": f"v1,{signature}"}


class Hooked(NamedTuple):
    runner: asyncio.Runner
    client: httpx2.AsyncClient
    name: str

    async def send(self, body: Any, headers: dict[str, str] | None = None, **more: str) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(
            "/webhooks/feedback", content=content, headers=(signed(content) if headers is None else headers) | more
        )

    async def predict(self, own_id: str) -> str:
        body = {"model": self.name, "context": X, "prediction_id": own_id}
        response = await self.client.post("/predict", json=body)
        assert response.status_code == 200, response.text
        return f"{self.name}:{own_id}"


@pytest.fixture
def hooked(store_url: str, runner: asyncio.Runner, name: str) -> Iterator[Hooked]:
    context = worker(store_url, webhook_secrets=f"{SECRET},{OLDER}")
    built = Hooked(runner, runner.run(context.__aenter__()), name)
    assert runner.run(built.client.post("/models", json=definition(name))).status_code == 201
    yield built
    runner.run(context.__aexit__(None, None, None))


def status_of(response: httpx2.Response) -> tuple[int, str]:
    body = response.json()
    return response.status_code, body.get("type", "").removeprefix("urn:wager:problem:") or body["status"]


def test_the_published_example_is_accepted() -> None:
    secret, message_id, at, body, signature = VECTOR
    headers = {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": signature}
    Receiver([("*", secret)], Clock(at), {}).verify(headers, body)


async def test_a_webhook_is_recorded_once(hooked: Hooked) -> None:
    body = {"prediction_id": await hooked.predict("a"), "correct": True}
    first = await hooked.send(body)
    assert status_of(first) == (200, "recorded")
    assert first.json()["feedback"]["round"] == 1
    retry = json.dumps(body).encode()
    for headers in (None, signed(retry, at=NOW + 60), signed(retry, message_id="other"), signed(retry, OLDER)):
        assert status_of(await hooked.send(retry, headers)) == (200, "duplicate")
    assert status_of(await hooked.send(body | {"correct": False})) == (409, "feedback-conflict")
    assert (await hooked.client.get(f"/models/{hooked.name}")).json()["rounds_seen"] == 1


def events(prediction_id: str) -> dict[str, tuple[Any, dict[str, str]]]:
    attributes = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "com.shop.clicked"}
    feedback = {"prediction_id": prediction_id, "correct": True}
    binary = {f"ce-{name}": value for name, value in attributes.items()}
    structured = {"content-type": "application/cloudevents+json; charset=utf-8"}
    as_json = {"content-type": "application/json"}
    return {
        "plain": (feedback, {}),
        "envelope": ({"type": "click", "timestamp": "2026-11-21T09:30:00Z", "data": feedback}, as_json),
        "structured": (attributes | {"data": feedback}, structured),
        "structured, by subject": (attributes | {"subject": prediction_id, "data": {"correct": True}}, structured),
        "structured, with time": (attributes | {"time": "2026-11-21T09:30:00Z", "data": feedback}, structured),
        "binary": (feedback, binary | as_json),
        "binary, by subject": ({"correct": True}, binary | as_json | {"ce-subject": prediction_id}),
    }


async def test_every_form_of_feedback_is_recorded(hooked: Hooked) -> None:
    for number, form in enumerate(events("")):
        body, headers = events(await hooked.predict(f"f{number}"))[form]
        response = await hooked.send(json.dumps(body).encode(), None, **headers)
        assert status_of(response) == (200, "recorded"), (form, response.text)


async def test_feedback_without_a_prediction_is_ignored(hooked: Hooked) -> None:
    for prediction_id, slug in [(f"{hooked.name}:none", "prediction-not-found"), ("none:a", "model-not-found")]:
        response = await hooked.send({"prediction_id": prediction_id, "correct": True})
        assert status_of(response) == (200, "ignored")
        assert response.json()["reason"]["type"].endswith(slug)


@pytest.mark.parametrize(("body", "headers"), [
    (b"", {}), (b"{", {}), (b"[" * 100_000, {}), (b"[]", {}), (b"NaN", {}), (b'{"type": "x", "data": 3}', {}),
    (b'{"prediction_id": "m:a", "correct": 1}', {}), (b'{"prediction_id": "m:a"}', {}),
    (b'{"prediction_id": "../m:a", "correct": true}', {}), (b'{"correct": true}', {"ce-id": "1"}),
    (b"{}", {"content-type": "application/cloudevents+json"}),
    (b"[]", {"content-type": "application/cloudevents+json"}),
    (b"[" * 100_000, {"content-type": "application/cloudevents+json"}),
    (b'{"specversion": 7, "time": 3}', {"content-type": "application/cloudevents+json"}),
    (b"text", {"ce-id": "1", "ce-source": "/", "ce-type": "t", "ce-specversion": "1.0", "ce-time": "yesterday"}),
], ids=lambda value: str(value)[:50])  # fmt: skip
async def test_a_body_that_is_not_feedback_is_refused(hooked: Hooked, body: bytes, headers: dict[str, str]) -> None:
    response = await hooked.send(body, None, **headers)
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"


async def test_other_members_of_the_data_are_ignored(hooked: Hooked, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "service.rounds.webhooks")
    for number, form in enumerate(events("")):
        body, headers = events(await hooked.predict(f"o{number}"))[form]
        data = body if form.startswith(("plain", "binary")) else body["data"]
        data["amount"] = {"currency": "EUR"}
        response = await hooked.send(body, None, **headers)
        expected = (422, "invalid-request") if form == "plain" else (200, "recorded")  # it is no event
        assert status_of(response) == expected, (form, response.text)
    assert set(caplog.messages) == {'ignored in the data of a webhook: "amount"'}


MEMBERS = "prediction_id = order.wager_id, correct=paid, true_labels=picks"


@contextlib.asynccontextmanager
async def hooked_by_members(store_url: str, name: str, runner: asyncio.Runner) -> AsyncIterator[Hooked]:
    """Run a worker whose settings name the members of events, with a model."""
    async with worker(store_url, webhook_secrets=SECRET, webhook_members=MEMBERS) as client:
        assert (await client.post("/models", json=definition(name))).status_code == 201
        yield Hooked(runner, client, name)


@pytest.mark.parametrize(("data", "expected"), [
    ({"order": {"wager_id": "ID", "total": 9}, "paid": True}, (200, "recorded")),
    ({"order": {"wager_id": "ID"}, "reward": 1.0}, (422, "reward-not-accepted")),
    ({"prediction_id": "ID", "paid": True}, (422, "invalid-request")),
    ({"order": ["ID"], "paid": True}, (422, "invalid-request")),
    ({"order": {"wager_id": "ID"}, "correct": True}, (422, "invalid-request")),
    ({"order": {"wager_id": "ID"}, "paid": "yes"}, (422, "invalid-request")),
], ids=str)  # fmt: skip
async def test_settings_name_the_members_with_the_fields(
    store_url: str, name: str, runner: asyncio.Runner, data: dict[str, Any], expected: tuple[int, str]
) -> None:
    async with hooked_by_members(store_url, name, runner) as hooked:
        own_id = await hooked.predict("a")
        data = json.loads(json.dumps(data).replace("ID", own_id))
        for body in ({"type": "order.paid", "data": data}, data):
            response = await hooked.send(body)
            assert status_of(response) == expected, response.text
            expected = (200, "duplicate") if expected[0] == 200 else expected


@pytest.mark.parametrize(("data", "field"), [
    ({"prediction_id": "m:1", "paid": True}, "order.wager_id"),
    ({"order": {"wager_id": 1}}, "order.wager_id"),
    ({"order": {"wager_id": "m:1"}, "paid": "yes"}, "paid"),
    ({"order": {"wager_id": "m:1"}, "picks": [1]}, "picks.0"),
])  # fmt: skip
async def test_errors_name_the_members_of_the_settings(
    store_url: str, name: str, runner: asyncio.Runner, data: dict[str, Any], field: str
) -> None:
    async with worker(store_url, webhook_secrets=SECRET, webhook_members=MEMBERS) as client:
        refused = await Hooked(runner, client, name).send(data)
        assert refused.json()["field"] == field
        assert refused.json()["detail"].startswith(f"{field}: ")


async def test_conflicts_and_ignored_events_name_the_members_of_the_settings(
    store_url: str, name: str, runner: asyncio.Runner
) -> None:
    async with hooked_by_members(store_url, name, runner) as hooked:
        event = {"order": {"wager_id": await hooked.predict("a")}, "paid": True}
        assert status_of(await hooked.send(event)) == (200, "recorded")
        conflict = await hooked.send(event | {"paid": False})
        assert (conflict.status_code, conflict.json()["field"]) == (409, "paid")
        ignored = (await hooked.send(event | {"order": {"wager_id": f"{name}:nowhere"}})).json()
        assert (ignored["status"], ignored["reason"]["field"]) == ("ignored", "order.wager_id")


async def test_the_subject_is_the_prediction_if_the_member_is_missing(
    store_url: str, name: str, runner: asyncio.Runner
) -> None:
    async with hooked_by_members(store_url, name, runner) as hooked:
        subjects = [await hooked.predict("a"), await hooked.predict("b")]
        forms = [events(each) for each in subjects]
        for body, headers in (forms[0]["structured, by subject"], forms[1]["binary, by subject"]):
            data = body.get("data", body)
            data["paid"] = data.pop("correct")
            assert status_of(await hooked.send(body, None, **headers)) == (200, "recorded")


async def test_a_secret_signs_for_its_models_only(store_url: str, name: str, runner: asyncio.Runner) -> None:
    async with worker(store_url, webhook_secrets=f"{name}*={SECRET}, other*={OLDER}, *={FOREIGN}") as client:
        hooked = Hooked(runner, client, name)
        assert (await client.post("/models", json=definition(name))).status_code == 201
        body = json.dumps({"prediction_id": await hooked.predict("a"), "correct": True}).encode()
        for secret, expected in [(OLDER, (401, "invalid-signature")), (SECRET, (200, "recorded")),
                                 (FOREIGN, (200, "duplicate"))]:  # fmt: skip
            assert status_of(await hooked.send(body, signed(body, secret))) == expected


@pytest.mark.skipif(not all(map(shutil.which, ("openssl", "curl", "od"))), reason="needs openssl, curl and od")
def test_the_documented_commands_sign_a_webhook(store_url: str, name: str) -> None:
    text = Path("docs/guides/deploying.md").read_text("utf-8")
    (commands,) = re.findall(r"```sh\n(secret=.*?)```", text, re.DOTALL)
    _, *rest = commands.splitlines(keepends=True)
    with in_thread(store_url, webhook_secrets=f"{name}={SECRET}") as served:
        httpx2.post(f"{served.url}/models", json=definition(name)).raise_for_status()
        asked = {"model": name, "context": X, "prediction_id": "42"}
        httpx2.post(f"{served.url}/predict", json=asked).raise_for_status()
        script = "".join(rest).replace("http://127.0.0.1:8000", served.url).replace("shop:42", f"{name}:42")
        done = subprocess.run(["sh", "-euc", f"secret={SECRET}\n{script}"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["status"] == "recorded", done.stderr


@pytest.mark.parametrize("data", [3, [], None, "text"], ids=str)
async def test_an_envelope_without_an_object_is_refused_by_its_field(hooked: Hooked, data: object) -> None:
    response = await hooked.send({"type": "click", "data": data})
    assert (response.status_code, response.json()["field"]) == (422, "data")


BODY = b'{"prediction_id": "m:a", "correct": true}'
GOOD = signed(BODY)
BAD: dict[str, dict[str, str]] = {
    "nothing": {}, "no id": {k: v for k, v in GOOD.items() if k != "webhook-id"},
    "empty id": GOOD | {"webhook-id": ""}, "another id": GOOD | {"webhook-id": "msg_2"},
    "another time": GOOD | {"webhook-timestamp": str(NOW + 1)},
    "stale": signed(BODY, at=NOW - TOLERANCE_SECONDS - 1), "ahead": signed(BODY, at=NOW + TOLERANCE_SECONDS + 1),
    "foreign secret": signed(BODY, FOREIGN), "another body": signed(BODY + b" "),
    "no version": GOOD | {"webhook-signature": GOOD["webhook-signature"].removeprefix("v1,")},
    "another version": GOOD | {"webhook-signature": GOOD["webhook-signature"].replace("v1,", "v1a,")},
    "garbage": GOOD | {"webhook-signature": "garbage"}, "short": GOOD | {"webhook-signature": "v1,a"},
    "blanks": GOOD | {"webhook-signature": "  "}, "time with a sign": GOOD | {"webhook-timestamp": f"+{NOW}"},
    "time with a point": GOOD | {"webhook-timestamp": f"{NOW}.0"},
    "huge time": GOOD | {"webhook-timestamp": "9" * 400}, "other digits": GOOD | {"webhook-timestamp": "1٨00000000"},
}  # fmt: skip


NEEDS_THE_BODY = {"another id", "another time", "foreign secret", "another body"}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_signature_is_refused(case: str) -> None:
    with pytest.raises(SignatureError):
        Receiver([("*", SECRET), ("*", OLDER)], Clock(NOW), {}).verify(BAD[case], BODY)


async def test_a_wrong_signature_is_answered_401(hooked: Hooked, store_url: str) -> None:
    """Headers that cannot be valid are refused without waiting for the body; without secrets, so is every webhook."""

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    cases = {case: headers for case, headers in BAD.items() if all(map(str.isascii, headers.values()))}
    for case, headers in cases.items():
        assert status_of(await hooked.send(b"{", headers)) == (401, "invalid-signature"), case
    async with worker(store_url) as without:
        asked = [(hooked.client, headers) for case, headers in cases.items() if case not in NEEDS_THE_BODY]
        for client, headers in [*asked, (without, GOOD), (without, signed(BODY, "whsec_"))]:
            answer = await client.post("/webhooks/feedback", content=never(), headers=headers)
            assert status_of(answer) == (401, "invalid-signature")


@pytest.mark.parametrize("secret", [SECRET, OLDER])
@pytest.mark.parametrize("at", [NOW - TOLERANCE_SECONDS, NOW, NOW + TOLERANCE_SECONDS])
def test_a_valid_signature_is_accepted(secret: str, at: int) -> None:
    headers = signed(BODY, secret, at)
    several = headers | {"webhook-signature": f"v1a,x garbage {headers['webhook-signature']} v1,"}
    svix = {name.replace("webhook-", "svix-"): value for name, value in headers.items()}
    for each in (headers, several, svix):
        Receiver([("*", SECRET), ("*", OLDER)], Clock(NOW), {}).verify(each, BODY)


@FUZZ
@given(
    st.dictionaries(st.sampled_from(sorted(GOOD)), st.text() | st.binary().map(lambda raw: raw.decode("latin-1"))),
    st.binary() | st.just(BODY),
)
def test_arbitrary_headers_are_refused(headers: dict[str, str], body: bytes) -> None:
    if body == BODY and GOOD | headers == GOOD:
        return
    with pytest.raises(SignatureError):
        Receiver([("*", SECRET)], Clock(NOW), {}).verify(GOOD | headers, body)


ATTRIBUTES = ("specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema", "data", "x")
ANYTHING = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("1.0") | st.just("0.3")
EVENTS = st.dictionaries(st.sampled_from(ATTRIBUTES), ANYTHING | st.dictionaries(st.text(max_size=3), ANYTHING))


@FUZZ
@given(
    st.dictionaries(st.sampled_from([f"ce-{name}" for name in ATTRIBUTES]), st.text(max_size=8) | st.just("1.0")),
    st.sampled_from(["application/json", "application/cloudevents+json", "text/plain", "é"]),
    st.binary(max_size=8) | EVENTS.map(lambda event: json.dumps(event).encode()),
)
def test_arbitrary_events_are_feedback_or_refused(headers: dict[str, str], media_type: str, body: bytes) -> None:
    for members in ({}, {"correct": ["x", "y"], "reward": ["data"]}):
        with contextlib.suppress(InvalidInputError, pydantic.ValidationError):
            read_feedback(headers | {"content-type": media_type}, body, members)
