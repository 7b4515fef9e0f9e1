"""`python -m toolkit.openapi_page` writes openapi.json and openapi.md from the application's schema."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from service.api.responses import bodies, problem_types
from service.api.responses.problem_types import every_kind
from service.api.responses.problems import TYPE_PREFIX, problem_of_validation
from service.app import create_app
from service.error_messages.json_schemas import root_of
from service.json_values import JsonObject
from service.registry.registry import describe_learners
from service.schemas.rounds import PredictRequest
from service.settings import Settings

Schema = JsonObject

_LIMITS = {
    "exclusiveMinimum": "more than {}", "minimum": "at least {}", "exclusiveMaximum": "less than {}",
    "maximum": "at most {}", "minLength": "at least {} characters", "maxLength": "at most {} characters",
    "minItems": "at least {}", "maxItems": "at most {}", "pattern": "matching `{}`", "format": "{}",
}  # fmt: skip

_CONVENTIONS = """\
- **Paths.** Every path below exists twice: as written, and under `/v1`.
- **Query parameters** are strict: an unknown or repeated one gets 400, before the request has any effect.
  `/livez`, `/readyz`, `/metrics`, `/docs` and `/openapi.json` ignore them.
- **Bodies** are JSON in UTF-8, with `Content-Type: application/json`, at most {mebibytes} MiB (`WAGER_MAX_BODY_BYTES`).
  They are strict: an unknown field, a number as a string, NaN or an infinity is refused, and the error names it.
  A body of {large} KiB or more may have at most about {parts:,} objects, lists and members, and at most {members:,}
  members in any one object.
- **API keys** are required unless the service listens on loopback or is started with `WAGER_AUTH=off`. Send one as
  `Authorization: Bearer wk_...` or as `X-API-Key`. A malformed key gets 401 even if keys are not required. Each
  operation names its scope; `admin` includes the others. A key for some models gets 404 for paths of the others, and
  403 if a body would create one. Health and this description need no key. `/metrics`, and paths that this page does
  not list, need a key that covers all models.
- **Limits.** A key may have budgets: of requests, models, bytes of open predictions, and processor time. Above them,
  requests get 429 or 507, with `Retry-After`. `RateLimit-Policy` and `RateLimit` report the budget of requests, in
  which a batch counts as one; `GET /key` reports all of them.
- **Times** are in UTC, as in RFC 3339.
- **Retries** are safe. A repeated `POST /predict` with the same `prediction_id` returns the stored prediction: the same
  label and propensity. All other fields must be equal but `include_distribution`, and a stored prediction has no
  distribution. Feedback counts once: a repetition is a `duplicate`, and contradictory
  feedback is refused.
- **Prediction ids** that the service generates begin with `~`; yours must not. The service forgets a prediction one
  hour after its window ends. Then its id is unknown, and you may use it again.
- **Slots.** With `"top": 3`, `/predict` answers three labels or actions in order, in `slots`. Each slot is a
  prediction with the id `<model>:<id>:<n>`, where `n` starts at 0; send its feedback to that id. Ids that the service
  generates for a batch also end in a number.
- **Silence.** With `"on_expiry": "incorrect"`, a prediction without feedback becomes a wrong round when its window
  closes, so clients may report successes only. With `"learn": "at_window_close"`, feedback waits for that moment as
  well. Expired predictions are closed within five seconds. Those that expire during an outage of the whole service
  are closed after it, if it lasts at most seven days.
- **Late feedback** gets 404 `prediction-expired`, unless the model accepts it; not 410, because webhook senders take
  410 as a request to stop.
- **Reading your writes.** A prediction uses all feedback that was acknowledged before its request, by any worker. If
  the model has `freshness`, this holds for feedback acknowledged more than `max_lag_seconds` before.
- **Batches** of at most {items} items (`WAGER_MAX_BATCH_ITEMS`) return 200, with a result or a problem for each item,
  in order.
- **Errors** are `application/problem+json` (RFC 9457): see [Problems](#problems). Where a table
  lists `invalid-request`, the type may be more specific: {validation}.
  Any operation may return 500 `internal-error`. 503 and 507 have `Retry-After`, except that of `/readyz`. A body that
  takes longer than {seconds:g} s to arrive gets 408."""

_PROBLEMS = """\
Every error is a [Problem](#problem). Its `type` is `{prefix}` and one of these names, which are stable. For
example:"""

_KINDS = {
    "label": "one of the labels, as `label`",
    "level": "one of the labels, which are ordered from the lowest level to the highest, as `label`",
    "label-set": "a set of the labels, as `labels`",
    "ranking": "all labels in ranked order, as `labels`",
}


def main() -> None:
    """Write both files to the current folder."""
    for name, text in documents().items():
        Path(name).write_text(text, encoding="utf-8")


def documents() -> dict[str, str]:
    """Return the text of each file by name; it does not depend on the environment."""
    settings = Settings.model_construct(store_url="redis://nowhere")  # unlike Settings(), reads no environment
    api = create_app(settings).openapi()
    return {
        "openapi.json": json.dumps(api, indent=1, ensure_ascii=False) + "\n",
        "openapi.md": "\n\n".join(filter(None, _sections(api, settings))) + "\n",
    }


def _sections(api: Schema, settings: Settings) -> Iterator[str]:
    operations = [
        (f"{method.upper()} {path}", each) for path, item in api["paths"].items() for method, each in item.items()
    ]
    schemas = api["components"]["schemas"]
    yield f"# {api['info']['title']} {api['info']['version']}: the HTTP interface"
    yield (
        "This page describes every operation, field and problem of the HTTP interface. `make openapi` generates it and "
        "[openapi.json](openapi.json), which has all details, from the code. A running service shows the same at "
        "`/docs`. [Requests and answers](docs/reference/exchanges.md) has a request and its answer for each field."
    )
    yield str(api["info"]["description"])
    calls = (
        [f"[`{call}`]({_anchor(each['summary'])})", _scope(each), _first_sentence(each)] for call, each in operations
    )
    yield _table(["Call", "Scope", "Does"], calls)
    yield "## Conventions"
    yield _CONVENTIONS.format(
        mebibytes=settings.max_body_bytes // 2**20,
        items=settings.max_batch_items,
        seconds=settings.body_timeout_seconds,
        large=bodies.LARGE // 2**10,
        parts=bodies.MOST_PARTS,
        members=bodies.MOST_MEMBERS,
        validation=", ".join(f"`{slug}`" for slug in problem_types.validation_slugs()),
    )
    for tag in dict.fromkeys(each["tags"][0] for _, each in operations):
        yield f"## {tag.capitalize()}"
        for call, each in operations:
            if each["tags"][0] == tag:
                yield from _operation(call, each, schemas)
    yield from _learners()
    yield from _objects(api, operations)
    yield from _problems()


def _operation(call: str, operation: Schema, schemas: Schema) -> Iterator[str]:
    yield f"### {operation['summary']}"
    yield f"`{call}`"
    yield operation["description"]
    parameters = ([each["name"], each["in"], *_described(each)] for each in operation.get("parameters", []))
    yield _table(["Parameter", "In", "Type", "Default", "Description"], parameters)
    if name := _body(operation):
        yield _fields(schemas[name])
    yield _table(["Status", "Meaning"], (_answer(*each) for each in operation["responses"].items()))


def _body(operation: Schema) -> str:
    """Return the name of the object in the body of a request, if it has one."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]


def _answer(status: str, response: Schema) -> list[str]:
    """Return a row: the status, the object of a success, and the description, which names the types of an error."""
    kinds = [
        _type(each["schema"]) if "$ref" in each.get("schema", {}) else f"`{kind}`"
        for kind, each in response.get("content", {}).items()
    ]
    shown = ", ".join(dict.fromkeys(kinds)) if status < "400" else ""
    own = "" if shown and response["description"] == "Successful Response" else response["description"]
    return [status, ": ".join(filter(None, [shown, own]))]


def _learners() -> Iterator[str]:
    yield "## Learners"
    yield "The values of `learner` in `POST /models`: an `algorithm`, with any of its hyperparameters."
    for learner in describe_learners().learners:
        yield f"### {learner.algorithm}"
        yield learner.summary + (" The default learner of new models." if learner.recommended else "")
        yield f"*Answers:* {_KINDS[learner.answer]}. *Guarantee:* {learner.guarantee}"
        yield _fields(learner.hyperparameters)


def _objects(api: Schema, operations: Iterable[tuple[str, Schema]]) -> Iterator[str]:
    """Describe all objects, except request bodies that are described with the only operation that uses them."""
    yield "## Objects"
    text = json.dumps(api)
    inline = {name for _, each in operations if (name := _body(each)) and text.count(f'/{name}"') == 1}
    for name, schema in sorted(api["components"]["schemas"].items()):
        if name not in inline:
            yield f"### {name}"
            yield schema.get("description", "")
            yield _fields(schema)


def _problems() -> Iterator[str]:
    example = problem_of_validation([{"type": "missing", "loc": ("model",)}], root_of(PredictRequest))
    yield "## Problems"
    yield _PROBLEMS.format(prefix=TYPE_PREFIX)
    yield f"```json\n{example.model_dump_json(indent=2, exclude_none=True)}\n```"
    rows = ([f"`{kind.slug}`", str(kind.status), f"{kind.title}."] for kind in every_kind())
    yield _table(["Type", "Status", "Meaning"], rows)


def _fields(schema: Schema) -> str:
    required = schema.get("required", [])
    rows = (
        [f"`{name}`", *_described({"schema": each, "required": name in required})]
        for name, each in schema.get("properties", {}).items()
    )
    return _table(["Field", "Type", "Default", "Description"], rows)


def _described(field: Schema) -> list[str]:
    """Return the type, the default and the description of a parameter or a field."""
    schema = field["schema"]
    default = schema.get("default")
    shown = "optional" if default is None else _code(default)
    return [
        _type(schema),
        "required" if field.get("required") else shown,
        field.get("description") or schema.get("description", ""),
    ]


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}]({_anchor(name)})"
    if union := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_type, union)))
    if "const" in schema or "enum" in schema:
        return " or ".join(map(_code, schema.get("enum", [schema.get("const")])))
    limits = [text.format(_plain(schema[key])) for key, text in _LIMITS.items() if key in schema]
    found = str(schema.get("type", "any value")) + (f" ({', '.join(limits)})" if limits else "")
    inner = schema.get("items") if schema.get("type") == "array" else schema.get("additionalProperties")
    if not isinstance(inner, dict) or not inner:
        return found
    words = _type(inner)
    return f"{found} of ({words})" if " or " in words else f"{found} of {words}"


def _plain(limit: object) -> Any:
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit


def _code(value: object) -> str:
    return f"`{value}`" if isinstance(value, str) and value else f"`{json.dumps(value)}`"


def _scope(operation: Schema) -> str:
    return next((f"`{scopes[0]}`" for each in operation["security"] for scopes in each.values()), "")


def _first_sentence(operation: Schema) -> str:
    return str(operation["description"]).split(". ")[0].rstrip(".") + "."


def _anchor(heading: str) -> str:
    return "#" + heading.lower().replace(" ", "-")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or an empty text if it has no rows."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if cells else ""


if __name__ == "__main__":
    main()
