"""What is recorded of an exchange, and what of it is masked."""

import json
import re
from typing import Any

import httpx2
import numpy as np

MASKED = "masked"
_DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1"}
_DIGEST, _NEW_ID = re.compile(r'"[0-9a-f]{32}"'), re.compile(r"^[0-9a-f]{32}$")
_VERSION, _SECONDS, _SCRIPT_LINE = re.compile(r"\d+(\.\d+)*"), re.compile(r"\bt=\d+"), re.compile(r"@user_script:\d+")
_MOST_NUMBERS = 64
"""Maximum numbers of an array that are recorded one by one."""

Recorded = dict[str, Any]
"""A JSON object: `number` in the chapter, `request`, `sent` (the members of the body), `status`, `headers`, `body`."""


def recorded(number: int, method: str, path: str, sent: bytes, response: httpx2.Response) -> Recorded:
    whole = {
        "number": number,
        "request": f"{method} {path if len(path) < 200 else path[:200] + '...'}",
        "sent": members_of(sent),
        "status": response.status_code,
        "headers": dict(sorted(response.headers.items())),
        "body": _body(response),
    }
    return masked(whole)


def members_of(sent: bytes) -> list[str] | None:
    try:
        given = json.loads(sent)
    except (ValueError, RecursionError):
        return None
    return sorted(given) if isinstance(given, dict) else None


def _body(response: httpx2.Response) -> Any:
    kind = response.headers.get("content-type", "").partition(";")[0]
    if not response.content or kind in {"text/html", "text/javascript", "text/css", "image/png", "image/svg+xml"}:
        return None
    if kind == "application/x-ndjson":
        return [json.loads(line) for line in response.text.splitlines()]
    if kind == "application/octet-stream":
        return _model_file(response.content)
    if kind == "text/plain":
        return _metric_names(response.text)
    body = response.json()
    return _outline(body) if "openapi" in body else body


def _model_file(content: bytes) -> dict[str, Any]:
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    metadata = {name: _unpacked(text) for name, text in header.pop("__metadata__").items()}
    arrays = {name: _array(part, data) for name, part in sorted(header.items())}
    return {"metadata": metadata, "arrays": arrays}


def _unpacked(text: str) -> Any:
    return json.loads(text) if text.startswith(("{", "[")) else text


def _array(part: dict[str, Any], data: bytes) -> list[Any]:
    start, stop = part["data_offsets"]
    array = np.frombuffer(data[start:stop], _DTYPES[part["dtype"]])
    numbers = array.tolist()
    if len(numbers) > _MOST_NUMBERS:
        edges = numbers[: _MOST_NUMBERS // 4] + numbers[-_MOST_NUMBERS // 4 :]
        numbers = [float(array.sum()), float(np.abs(array).sum()), int(np.count_nonzero(array)), *edges]
    return [part["dtype"], part["shape"], [repr(each) if each != each else each for each in numbers]]  # noqa: PLR0124


def _metric_names(text: str) -> list[str]:
    return sorted({line.split(" ")[2] + " " + line.split(" ")[3] for line in text.splitlines() if line[:6] == "# TYPE"})


def _outline(description: dict[str, Any]) -> dict[str, Any]:
    operations = [f"{method.upper()} {path}" for path, item in description["paths"].items() for method in item]
    return {"operations": sorted(operations)}


def masked(record: Recorded) -> Recorded:
    headers = {name: _header(name, value) for name, value in record["headers"].items() if name != "content-length"}
    if record["status"] == 429:
        headers["retry-after"] = MASKED
    body = _masked_body(record["body"])
    if isinstance(body, list) and record["request"].split("?")[0].endswith("/predictions"):
        body.sort(key=lambda line: str(line["prediction_id"]))
    return record | {"headers": headers, "body": body}


def _header(name: str, value: str) -> str:
    if name == "last-modified" or (name == "etag" and _DIGEST.fullmatch(value)):
        return MASKED
    return _NEW_ID.sub(MASKED, _SECONDS.sub(f"t={MASKED}", value)) if name in {"x-request-id", "ratelimit"} else value


def _masked_body(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked_body(each) for each in value]
    if not isinstance(value, dict):
        return value
    closed = {"feedback_at": MASKED} if value.get("outcome") == "expired" else {}
    return {name: _member(name, _masked_body(each)) for name, each in value.items()} | closed


def _member(name: str, value: Any) -> Any:
    match name, value:
        case "request_id", str():
            return _NEW_ID.sub(MASKED, value)
        case "store", str():
            return _VERSION.sub(MASKED, value)
        case "detail", str():
            return _SCRIPT_LINE.sub(f"@user_script:{MASKED}", value)
        case "wager", str():
            return MASKED
    return value
