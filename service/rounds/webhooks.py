"""Feedback from senders of webhooks: who signed it (Standard Webhooks 1.0), and what it says.

The library `standardwebhooks` computes signatures. Headers are judged here: the library's own `verify` reads the
system's clock, and raises ValueError, binascii.Error or UnicodeDecodeError on malformed ones.
"""

import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks import Webhook

from service.errors import InvalidInputError, SignatureError
from service.schemas.rounds import FeedbackRequest
from service.wording.bad_json import syntax_error, unreadable
from service.wording.values import shown

TOLERANCE_SECONDS = 300
"""How old, or how far ahead, a signature may be. A replay in that time is a duplicate: feedback counts once."""

_MOST_SIGNATURES = 16
_MOST_MEMBERS = 1000
_SIGNATURE = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_TIMESTAMP = re.compile(r"[1-9][0-9]{0,10}")
_CLOUDEVENT = "application/cloudevents+json"
_UNSIGNED = "no signature in webhook-signature matches the body, webhook-id and webhook-timestamp"


class Signed(NamedTuple):
    """What the headers of a webhook say of its signature; whether it is right, only the body shows."""

    message_id: str
    timestamp: int  # seconds since the epoch
    signatures: list[bytes]


class Verifier:
    """Knows the secrets that senders may sign with; several while one replaces another.

    Args:
        secrets: each `whsec_` and base64.
        now: seconds since the epoch.
    """

    def __init__(self, secrets: Sequence[str], now: Callable[[], float]) -> None:
        self._signers = [Webhook(secret) for secret in secrets]
        self._now = now

    def check_headers(self, headers: Mapping[str, str]) -> Signed:
        """Refuse what its headers alone show not to be signed, so that nobody waits for its body.

        Args:
            headers: by names in lower case: `webhook-id`, `webhook-timestamp` and `webhook-signature`, or with
                `svix-` in the place of `webhook-`.

        Raises:
            SignatureError: if a header is missing or malformed, the time is not within the tolerance, or there are
                no secrets.
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
        """Lets pass what was signed, with any of the secrets, not long ago.

        Args:
            headers: as `check_headers` takes them.
            body: as it came.

        Raises:
            SignatureError: if it was not.
        """
        signed = self.check_headers(headers)
        expected = [self._sign(signer, signed.message_id, signed.timestamp, body) for signer in self._signers]
        if not any(hmac.compare_digest(one, other) for one in expected for other in signed.signatures):
            raise SignatureError(_UNSIGNED)

    @staticmethod
    def _sign(signer: Webhook, message_id: str, timestamp: int, body: bytes) -> bytes:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise SignatureError("the body is not UTF-8") from None
        return signer.sign(message_id, datetime.fromtimestamp(timestamp, UTC), text).encode()


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(f"webhook-{name}") or headers.get(f"svix-{name}")
    if not value:
        raise SignatureError(f"webhook-{name} is missing")
    return value


def read_feedback(headers: Mapping[str, str], body: bytes) -> FeedbackRequest:
    """What a webhook says: the body of `POST /feedback`, bare, or as the `data` of an event.

    An event is a CloudEvent, structured or binary, or what Standard Webhooks recommends: an object with `type`
    and `data`. Where the data of a CloudEvent name no `prediction_id`, its `subject` does.

    Raises:
        InvalidInputError: if it is none of these.
        pydantic.ValidationError: if the feedback in it is wrong.
    """
    if any(name.startswith("ce-") for name in headers) or _media_type(headers) == _CLOUDEVENT:
        return _as_feedback(_event_data(headers, body))
    try:
        said = json.loads(body)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"the body is not JSON: {syntax_error(error.msg, error.pos)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the body is not JSON: {unreadable(error)}") from None
    if isinstance(said, dict) and "type" in said and "data" in said:
        said = said["data"]
    return _as_feedback(said)


def _as_feedback(said: Any) -> FeedbackRequest:
    if isinstance(said, dict) and len(said) > _MOST_MEMBERS:  # each might be an error, which takes long to report
        raise InvalidInputError(f"got feedback with {len(said)} members; it may have at most {_MOST_MEMBERS}")
    return FeedbackRequest.model_validate(said)


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _event_data(headers: Mapping[str, str], body: bytes) -> Any:
    try:
        event = from_http_event(HTTPMessage(dict(headers), body))
    except Exception:  # noqa: BLE001  the library raises whatever comes of a malformed event
        raise InvalidInputError("the body and headers are not a CloudEvent 1.0 in JSON") from None
    data, subject = event.get_data(), event.get_subject()
    if not isinstance(data, dict):
        raise InvalidInputError(f"got {shown(data)}; must be the JSON object of POST /feedback", "data")
    return data if subject is None else {"prediction_id": subject} | data
