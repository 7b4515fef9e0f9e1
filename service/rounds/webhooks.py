"""Webhook feedback: verifies signatures (Standard Webhooks 1.0) and parses events.

The library `standardwebhooks` computes signatures. This module checks the headers, because the library's `verify`
reads the system clock and raises ValueError, binascii.Error or UnicodeDecodeError on malformed headers.
"""

import hmac
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook

from service.access.keys import Names
from service.error_messages.json_text import check_pairs, syntax_error, unreadable
from service.error_messages.values import joined, quoted, shown
from service.errors import InvalidInputError, SignatureError
from service.json_values import JsonObject
from service.schemas.rounds import FeedbackRequest

_log = logging.getLogger(__name__)

TOLERANCE_SECONDS = 300  # maximum distance of a timestamp from now; a replay in this time is a duplicate, counted once
_MOST_SIGNATURES = 16
_MOST_MEMBERS = 1000
_SIGNATURE = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_ABSENT = object()
_TIMESTAMP = re.compile(r"[1-9][0-9]{0,10}")


class Signed(NamedTuple):
    """The signature headers of a webhook, not yet verified against its body."""

    message_id: str
    timestamp: int  # seconds since the epoch
    signatures: list[bytes]


class Receiver:
    """Verifies and parses webhooks.

    Args:
        secrets: pairs of a pattern of model names and the secret (`whsec_` and base64) that signs their feedback.
        now: returns seconds since the epoch.
        members: for some fields of feedback, the path to the member of an event's data that contains the field.
    """

    def __init__(
        self,
        secrets: Sequence[tuple[str, str]],
        now: Callable[[], float],
        members: Mapping[str, Sequence[str]],
    ) -> None:
        self._signers = [(Names(models), Webhook(secret)) for models, secret in secrets]
        self._now = now
        self._members = members

    def member_of(self, field: str | None) -> str | None:
        """Return where a webhook has a field of feedback: the path in the settings, if they have one for it."""
        name, dot, rest = (field or "").partition(".")
        return None if field is None else ".".join(self._members.get(name, (name,))) + dot + rest

    def check_headers(self, headers: Mapping[str, str]) -> Signed:
        """Parse the signature headers, so that unsigned webhooks are refused before their body is read.

        The headers, by lower-case name, are `webhook-id`, `webhook-timestamp` and `webhook-signature`, or the same with
        the prefix `svix-`. Raises `SignatureError` if one is invalid, or if no secret is configured.
        """
        if not self._signers:
            raise SignatureError("webhooks are disabled: WAGER_WEBHOOK_SECRETS is not set")
        message_id, timestamp, signatures = (_header(headers, name) for name in ("id", "timestamp", "signature"))
        if _TIMESTAMP.fullmatch(timestamp) is None or abs(int(timestamp) - self._now()) > TOLERANCE_SECONDS:
            detail = f"webhook-timestamp must be seconds since the epoch, at most {TOLERANCE_SECONDS} s from now"
            raise SignatureError(detail)
        given = [each.encode() for each in signatures.split(" ")[:_MOST_SIGNATURES] if _SIGNATURE.fullmatch(each)]
        if not given:
            raise SignatureError("webhook-signature must contain `v1,` and the base64 of 32 bytes")
        return Signed(message_id, int(timestamp), given)

    def receive(self, headers: Mapping[str, str], body: bytes) -> FeedbackRequest:
        """Return the feedback in a webhook.

        Raises:
            SignatureError: as `verify`, or if no secret of the model signed the body.
            InvalidInputError: if the body is not feedback, or an event with feedback, in JSON.
            pydantic.ValidationError: if a field is invalid.
        """
        allowed = self.verify(headers, body)
        feedback = read_feedback(headers, body, self._members)
        if not any(feedback.prediction_id.model in names for names in allowed):
            raise SignatureError(f"no secret for model {quoted(feedback.prediction_id.model)} signed the body")
        return feedback

    def verify(self, headers: Mapping[str, str], body: bytes) -> list[Names]:
        """Return the patterns of models whose secret signed the body; raise `SignatureError` if none did."""
        signed = self.check_headers(headers)
        try:
            text, moment = body.decode(), datetime.fromtimestamp(signed.timestamp, UTC)
        except UnicodeDecodeError:
            raise SignatureError("the body is not UTF-8") from None
        allowed = list[Names]()
        for names, signer in self._signers:
            expected = signer.sign(signed.message_id, moment, text).encode()
            if any(hmac.compare_digest(expected, each) for each in signed.signatures):
                allowed.append(names)
        if not allowed:
            raise SignatureError("no signature in webhook-signature matches the body, webhook-id and webhook-timestamp")
        return allowed


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(f"webhook-{name}") or headers.get(f"svix-{name}")
    if not value:
        raise SignatureError(f"webhook-{name} is missing")
    return value


def read_feedback(headers: Mapping[str, str], body: bytes, members: Mapping[str, Sequence[str]]) -> FeedbackRequest:
    """Parse a webhook: the body of `POST /feedback`, bare or as the `data` of an event.

    An event is a CloudEvent (structured or binary), or an object with `type` and `data`, as Standard Webhooks
    recommends. If the data of a CloudEvent has no prediction id, its `subject` is one. Other members of the data are
    ignored. With `members`, a bare body is read like the data of an event.
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_event = media_type == "application/cloudevents+json" or any(name.startswith("ce-") for name in headers)
    try:
        check_pairs(body)
        payload, subject = _event(headers, body) if is_event else (json.loads(body), {})
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"the body is not JSON: {syntax_error(error.msg, error.pos)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the body is not JSON: {unreadable(error)}") from None
    is_data = is_event or bool(members)
    if not is_event and isinstance(payload, dict) and "type" in payload and "data" in payload:
        payload, is_data = payload["data"], True
    if isinstance(payload, dict) and len(payload) > _MOST_MEMBERS:  # reporting an error for each would take long
        raise InvalidInputError(f"got feedback with {len(payload)} members; it may have at most {_MOST_MEMBERS}")
    return FeedbackRequest.model_validate(subject | _fields_in(payload, members) if is_data else payload)


def _fields_in(data: object, members: Mapping[str, Sequence[str]]) -> JsonObject:
    """Return the fields of feedback that an event's data contains."""
    if not isinstance(data, dict):
        raise InvalidInputError(f"got {shown(data)}; must be the JSON object of POST /feedback", "data")
    paths = {name: members.get(name, (name,)) for name in FeedbackRequest.model_fields}
    ignored = data.keys() - {path[0] for path in paths.values()}
    if ignored and _log.isEnabledFor(logging.DEBUG):
        _log.debug("ignored in the data of a webhook: %s", joined([quoted(each) for each in sorted(ignored)], "and"))
    found = {name: _member(data, path) for name, path in paths.items()}
    return {name: value for name, value in found.items() if value is not _ABSENT}


def _member(data: object, path: Sequence[str]) -> object:
    for step in path:
        if not isinstance(data, dict) or step not in data:
            return _ABSENT
        data = data[step]
    return data


def _event(headers: Mapping[str, str], body: bytes) -> tuple[object, JsonObject]:
    """Return the data of a CloudEvent, and its subject, if any, as the field `prediction_id`."""
    try:
        event = from_http_event(HTTPMessage(dict(headers), body))
    except Exception:  # noqa: BLE001  the library raises arbitrary errors on malformed events
        raise InvalidInputError("the body and headers are not a CloudEvent 1.0 in JSON") from None
    subject = event.get_subject()
    return event.get_data(), {} if subject is None else {"prediction_id": subject}
