"""Webhook feedback: verifies signatures (Standard Webhooks 1.0) and parses bodies.

The library `standardwebhooks` computes signatures. This module checks the headers, because the library's `verify`
reads the system clock and raises ValueError, binascii.Error or UnicodeDecodeError on malformed headers.
"""

import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook

from service.error_messages.json_text import check_pairs, syntax_error, unreadable
from service.error_messages.values import shown
from service.errors import InvalidInputError, SignatureError
from service.json_values import JsonObject
from service.schemas.rounds import FeedbackRequest

TOLERANCE_SECONDS = 300  # of a signature's timestamp. A replay within it is a duplicate, which counts once
_MOST_SIGNATURES = 16
_MOST_MEMBERS = 1000
_SIGNATURE = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_TIMESTAMP = re.compile(r"[1-9][0-9]{0,10}")


class Signed(NamedTuple):
    """The signature headers of a webhook, not yet verified against its body."""

    message_id: str
    timestamp: int  # seconds since the epoch
    signatures: list[bytes]


class Verifier:
    """Verifies webhook signatures against the configured secrets: `whsec_` and base64; several during a rotation."""

    def __init__(self, secrets: Sequence[str], now: Callable[[], float]) -> None:
        self._signers = [Webhook(secret) for secret in secrets]
        self._now = now

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

    def verify(self, headers: Mapping[str, str], body: bytes) -> None:
        """Raise `SignatureError` unless one of the secrets signed the body within the tolerance."""
        signed = self.check_headers(headers)
        try:
            text, moment = body.decode(), datetime.fromtimestamp(signed.timestamp, UTC)
        except UnicodeDecodeError:
            raise SignatureError("the body is not UTF-8") from None
        expected = [signer.sign(signed.message_id, moment, text).encode() for signer in self._signers]
        if not any(hmac.compare_digest(one, other) for one in expected for other in signed.signatures):
            raise SignatureError("no signature in webhook-signature matches the body, webhook-id and webhook-timestamp")


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(f"webhook-{name}") or headers.get(f"svix-{name}")
    if not value:
        raise SignatureError(f"webhook-{name} is missing")
    return value


def read_feedback(headers: Mapping[str, str], body: bytes) -> FeedbackRequest:
    """Parse a webhook: the body of `POST /feedback`, bare or as the `data` of an event.

    An event is a CloudEvent (structured or binary), or an object with `type` and `data`, as Standard Webhooks
    recommends. If the data of a CloudEvent lacks `prediction_id`, its `subject` is the prediction id.
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_event = media_type == "application/cloudevents+json" or any(name.startswith("ce-") for name in headers)
    try:
        check_pairs(body)
        payload = _event_data(headers, body) if is_event else json.loads(body)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"the body is not JSON: {syntax_error(error.msg, error.pos)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the body is not JSON: {unreadable(error)}") from None
    if not is_event and isinstance(payload, dict) and "type" in payload and "data" in payload:
        payload = _checked_data(payload["data"])
    if isinstance(payload, dict) and len(payload) > _MOST_MEMBERS:  # reporting an error for each would take long
        raise InvalidInputError(f"got feedback with {len(payload)} members; it may have at most {_MOST_MEMBERS}")
    return FeedbackRequest.model_validate(payload)


def _event_data(headers: Mapping[str, str], body: bytes) -> JsonObject:
    try:
        event = from_http_event(HTTPMessage(dict(headers), body))
    except Exception:  # noqa: BLE001  the library raises arbitrary errors on malformed events
        raise InvalidInputError("the body and headers are not a CloudEvent 1.0 in JSON") from None
    data, subject = _checked_data(event.get_data()), event.get_subject()
    return data if subject is None else {"prediction_id": subject} | data


def _checked_data(data: object) -> JsonObject:
    if not isinstance(data, dict):
        raise InvalidInputError(f"got {shown(data)}; must be the JSON object of POST /feedback", "data")
    return data
