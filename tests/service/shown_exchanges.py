"""One request and its answer, as docs/exchanges.md shows them."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import httpx2

_WIDTH = 100
_FRACTION = re.compile(r"\.\d+Z$")  # of a second
_WORKER = re.compile(r"^w\d+-")  # an id of the test's worker
_TELLING = ("round", "correct", "label", "propensity")
"""Fields that the page shows even if they are null."""


class Exchange(NamedTuple):
    """A request; `fields` selects what the page shows of a long answer."""

    about: str
    path: str
    body: dict[str, Any] | None = None
    method: str = "POST"
    fields: Sequence[str] = ()
    etag: str | None = None
    wait: float = 0.0  # seconds before the request, during which windows close


async def answer_of(client: httpx2.AsyncClient, exchange: Exchange) -> httpx2.Response:
    """Send the request."""
    headers = {} if exchange.etag is None else {"If-Match": exchange.etag}
    return await client.request(exchange.method, exchange.path, json=exchange.body, headers=headers)


def shown(exchange: Exchange, response: httpx2.Response) -> str:
    """Return the request and its answer as Markdown."""
    header = "" if exchange.etag is None else f" with `If-Match: {exchange.etag}`"
    parts = [f"{exchange.about}", f"`{exchange.method} {exchange.path}`{header}"]
    if exchange.body is not None:
        parts.append(_code([exchange.body]))
    answers = sorted(map(json.loads, response.text.splitlines()), key=lambda line: line.get("prediction_id", ""))
    fields = exchange.fields if response.status_code < 300 else ()
    some = ", among other fields" if fields else ""
    parts += [f"{response.status_code}{some}:", _code([_selected(answer, fields) for answer in answers])]
    return "\n\n".join(parts)


def _selected(answer: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    selected = {name: answer[name] for name in fields} if fields else dict(answer)
    selected.pop("request_id", None)  # random
    shortened: dict[str, Any] = _shortened(selected)
    return shortened


def _shortened(value: Any) -> Any:
    """Return a value without null fields, and without digits that depend on the processor or on the store's clock."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _shortened(each) for name, each in value.items() if each is not None or name in _TELLING}
    if isinstance(value, list):
        return [_shortened(each) for each in value]
    return _WORKER.sub("w0-", _FRACTION.sub("Z", value)) if isinstance(value, str) else value


def _code(objects: Sequence[Any]) -> str:
    return "\n".join(["```json", *[_lines(each) for each in objects], "```"])


def _lines(value: Any, indent: str = "") -> str:
    """Return JSON that breaks only objects and lists that are too long for a line."""
    short = json.dumps(value, ensure_ascii=False)
    if len(indent + short) <= _WIDTH or not isinstance(value, (dict, list)) or not value:
        return short
    inner = indent + "  "
    if isinstance(value, dict):
        items = [f"{inner}{json.dumps(name)}: {_lines(each, inner)}" for name, each in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + _lines(each, inner) for each in value) + f"\n{indent}]"
