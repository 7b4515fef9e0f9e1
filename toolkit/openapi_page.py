"""`python -m toolkit.openapi_page` prints openapi.md: the HTTP interface, from the application's schema."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from service.api.responses import bodies, problem_types
from service.api.responses.problem_types import every_kind
from service.api.responses.problems import TYPE_PREFIX, problem_of_validation
from service.app import create_app
from service.error_messages.json_schemas import root_of
from service.registry.registry import describe_learners
from service.schemas.rounds import PredictRequest
from service.settings import Settings

Schema = dict[str, Any]

_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_SIMPLEST: Schema = {"string": "text", "integer": 0, "number": 0.0, "boolean": False, "object": {}, "null": None}


class Schemas:
    """The schemas of one document.

    Args:
        components: referenced schemas, by name.
        samples: example values, by the name of a field or the title of an object. The first one of a fitting type is
            used.
    """

    def __init__(self, components: Mapping[str, Schema], samples: Mapping[str, Sequence[Any]]) -> None:
        self._components = components
        self._samples = samples

    def resolve(self, schema: Schema) -> Schema:
        """Return the schema, or the one it refers to."""
        return self._components[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def alternatives(self, schema: Schema) -> list[Schema]:
        """Return the alternatives of a value, at least one, without references."""
        found = self.resolve(schema)
        union = found.get("anyOf") or found.get("oneOf")
        return [each for one in union for each in self.alternatives(one)] if union else [found]

    def objects(self, schema: Schema) -> list[Schema]:
        """Return the objects with named fields among the alternatives of a value, or of its items or members."""
        found: list[Schema] = []
        for each in self.alternatives(schema):
            of = each.get("items") if each.get("type") == "array" else each.get("additionalProperties")
            found += [each] if "properties" in each else self.objects(of) if isinstance(of, dict) else []
        return found

    def words(self, schema: Schema, *, link: bool) -> str:
        """Describe the alternatives of a value. With `link`, an object with a title becomes a link to its heading."""
        return " or ".join(dict.fromkeys(self._words(each, link) for each in self.alternatives(schema)))

    def _words(self, schema: Schema, link: bool) -> str:
        if "const" in schema or "enum" in schema:
            return " or ".join(code(each) for each in schema.get("enum", [schema.get("const")]))
        if "properties" in schema and link:
            return f"[{schema['title']}](#{schema['title'].lower()})"
        kind = str(schema.get("type", "any value"))
        limits = f" ({text})" if (text := ", ".join(_limits(schema))) else ""
        if kind == "array":
            return f"list{limits} of {self._one(schema.get('items', {}), link)}"
        if isinstance(schema.get("additionalProperties"), dict):
            return f"object{limits} of {self._one(schema['additionalProperties'], link)}"
        return kind + limits

    def _one(self, schema: Schema, link: bool) -> str:
        words = self.words(schema, link=link)
        return f"({words})" if len(self.alternatives(schema)) > 1 else words

    def rows(self, schema: Schema, prefix: str = "", *, expand: bool) -> Iterator[list[str]]:
        """Yield name, type, default and description of each field; nested objects as further rows, or as links."""
        for name, field in schema.get("properties", {}).items():
            required = name in schema.get("required", [])
            yield [f"`{prefix}{name}`", self.words(field, link=not expand), need(field, required), self.describe(field)]
            single = [each for each in self.alternatives(field) if "properties" in each]
            for inner in (found := self.objects(field)) if expand else []:
                many = "" if inner in single else "[]"
                for within in self.rows(inner, f"{prefix}{name}{many}.", expand=True):
                    within[-1] = (f"*{inner['title']}.* " if len(found) > 1 else "") + within[-1]
                    yield within

    def describe(self, schema: Schema) -> str:
        """Return the description of a value, or else of its type."""
        return str(schema.get("description") or self.resolve(schema).get("description", ""))

    def example(self, schema: Schema, name: str = "", *, full: bool) -> Any:
        """Return an example with all fields (`full`), or with the required and sampled ones. Samples make it valid."""
        if stated := schema.get("examples"):
            return stated[0]
        first, *others = self.alternatives(schema)
        samples = [*self._samples.get(name, ()), *self._samples.get(first.get("title", ""), ())]
        if "const" in first or "enum" in first:
            return first.get("enum", [first.get("const")])[0]
        if fitting := [sample for each in (first, *others) for sample in samples if _fits(sample, each)]:
            return fitting[0]
        if "properties" in first:
            return self._example_object(first, full)
        if first.get("type") == "array":
            return [self.example(first["items"], full=full)]
        return schema.get("default", _SIMPLEST.get(str(first.get("type"))))

    def _example_object(self, schema: Schema, full: bool) -> Schema:
        required = schema.get("required", [])
        return {
            name: self.example(field, name, full=full)
            for name, field in schema["properties"].items()
            if full or name in required or self._has_news(field, name)
        }

    def _has_news(self, field: Schema, name: str) -> bool:
        return name in self._samples and field.get("default") not in self._samples[name]


def need(field: Schema, required: bool) -> str:
    """Describe whether a field is required, or its default."""
    if required:
        return "required"
    return "optional" if field.get("default") is None else code(field["default"])


def code(value: Any) -> str:
    """Format a value as code: JSON, but texts without quotes."""
    return f"`{value}`" if isinstance(value, str) and value else f"`{json.dumps(value)}`"


def pretty(value: Any, columns: int = 100, margin: str = "") -> str:
    """Format JSON with lists and objects on one line if they fit."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(margin + flat) <= columns or not value or not isinstance(value, dict | list):
        return flat
    inner = margin + "  "
    if isinstance(value, list):
        items = [pretty(each, columns, inner) for each in value]
        return "[" + ",".join(f"\n{inner}{item}" for item in items) + f"\n{margin}]"
    items = [f"{json.dumps(key, ensure_ascii=False)}: {pretty(each, columns, inner)}" for key, each in value.items()]
    return "{" + ",".join(f"\n{inner}{item}" for item in items) + f"\n{margin}}}"


def _fits(sample: Any, schema: Schema) -> bool:
    kind = schema.get("type", "")
    return isinstance(sample, _PYTHON.get(kind, ())) and isinstance(sample, bool) == (kind == "boolean")


def _limits(schema: Schema) -> Iterator[str]:
    """Yield the constraints of a value, in words."""
    if "exclusiveMinimum" in schema:
        yield f"more than {_number(schema['exclusiveMinimum'])}"
    yield from _range(schema.get("minimum"), schema.get("maximum"), "")
    if "exclusiveMaximum" in schema:
        yield f"less than {_number(schema['exclusiveMaximum'])}"
    yield from _range(schema.get("minLength"), schema.get("maxLength"), " characters")
    yield from _range(schema.get("minItems"), schema.get("maxItems"), "")
    if "pattern" in schema:
        yield f"matching `{schema['pattern']}`"
    if "format" in schema:
        yield str(schema["format"])


def _range(least: float | None, most: float | None, unit: str) -> Iterator[str]:
    if least is not None and most is not None:
        yield f"{_number(least)} to {_number(most)}{unit}"
    elif least is not None:
        yield f"at least {_number(least)}{unit}"
    elif most is not None:
        yield f"at most {_number(most)}{unit}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


_METHODS = ("get", "post", "put", "patch", "delete")
_JSON = "application/json"

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
- **Limits.** A key may have a rate limit. `RateLimit-Policy` and `RateLimit` report it, and 429 has `Retry-After`. A
  batch counts as one request.
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

_PROBLEM = problem_of_validation([{"type": "missing", "loc": ("model",)}], root_of(PredictRequest))
_MOMENT = "2026-11-21T09:30:00Z"
_SURE, _RARE = 0.9666666666666667, 0.016666666666666666
_KINDS = {
    "label": "one of the labels, as `label`",
    "level": "one of the labels, which are ordered from the lowest level to the highest, as `label`",
    "label-set": "any set of the labels, as `labels`",
    "ranking": "all labels in ranked order, as `labels`",
}

_CONTEXT = {"user": {"age": 41, "country": "FR"}, "hour": 13}
_EXPLAINED = [
    {
        "name": "user.country=FR",
        "index": 4711,
        "sign": -1,
        "value": -1.0,
        "contributions": {"billing": 0.31, "technical": -0.12, "other": -0.19},
    },
    {
        "name": "intercept",
        "index": 262144,
        "sign": 1,
        "value": 1.0,
        "contributions": {"billing": 0.94, "technical": -0.38, "other": -0.56},
    },
]

_SAMPLES: dict[str, Sequence[Any]] = {  # the values in examples
    "Problem": [_PROBLEM.model_dump(exclude_none=True)],
    "activated": [True],
    "added": [["urgent"]],
    "algorithm": ["fastcb"],
    "at": [_MOMENT],
    "context": [_CONTEXT],
    "contexts": [[_CONTEXT, {"user": {"age": 23}, "hour": 20}]],
    "contributions": [{"billing": 0.31, "technical": -0.12, "other": -0.19}],
    "correct": [True, 871],
    "created_at": [_MOMENT],
    "distribution": [{"billing": _SURE, "technical": _RARE, "other": _RARE}],
    "Health": [{"status": "alive"}],
    "LearnerDescription": [learner.model_dump() for learner in describe_learners().learners if learner.recommended],
    "durability": [
        "acknowledged feedback survives a crash of the store, unless its disk is slow or full; "
        "a power loss may lose up to two seconds"
    ],
    "expires_at": [_MOMENT],
    "features": [{"kind": "named", "interactions": [["user", "hour"]]}, _EXPLAINED],
    "guarantee": [learner.guarantee for learner in describe_learners().learners if learner.recommended],
    "include_distribution": [True],
    "label": ["billing"],
    "labels": [["billing", "technical", "other"]],
    "label_count": [3],
    "late_feedback": ["reject"],
    "learn": ["on_arrival"],
    "learner": [{"algorithm": "fastcb", "gap_scale": 8.0}],
    "mode": ["online"],
    "model": ["tickets"],
    "outcome": ["feedback"],
    "next_cursor": ["tickets"],
    "norm": ["none"],
    "norm_bound_on": ["length"],
    "name": ["tickets"],
    "prediction_id": ["tickets:order-4711"],
    "prediction_ids": [["order-4712", "order-4713"]],
    "predictions": [1100],
    "propensity": [_SURE],
    "retain_rounds": [100_000],
    "retain_seconds": [2_592_000.0],
    "round": [1025],
    "rounds_seen": [1024],
    "size": [3],
    "scores": [{"billing": 1.25, "technical": -0.5, "other": -0.75}],
    "store": ["Valkey 9.1.2"],
    "reason": [None],
    "warnings": [[]],
    "window_seconds": [3600.0],
}


def main() -> None:
    """Print the page."""
    sys.stdout.write(page())


def page() -> str:
    """Return openapi.md, which does not depend on the environment."""
    settings = Settings.model_construct(store_url="redis://nowhere")  # unlike Settings(), reads no environment
    return "\n\n".join(part for part in _parts(create_app(settings).openapi(), settings) if part) + "\n"


def _parts(api: Schema, settings: Settings) -> Iterator[str]:
    schemas = Schemas(api["components"]["schemas"], _SAMPLES)
    operations = [
        (method, path, item[method]) for path, item in api["paths"].items() for method in _METHODS if method in item
    ]
    yield f"# {api['info']['title']} {api['info']['version']}: the HTTP interface"
    yield (
        "`make openapi` generates this page from the code. A running service shows the same at `/docs`. "
        "[docs/exchanges.md](docs/exchanges.md) has a request and its answer for each field."
    )
    yield str(api["info"]["description"])
    yield _table(["Call", "Does"], ([f"[`{m.upper()} {p}`]({_anchor(op)})", _first(op)] for m, p, op in operations))
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
    for tag in dict.fromkeys(operation["tags"][0] for _, _, operation in operations):
        yield f"## {tag.capitalize()}"
        for method, path, operation in operations:
            if operation["tags"][0] == tag:
                yield from _operation(method, path, operation, schemas)
    yield from _learners(schemas)
    yield from _answers(operations, schemas)
    yield from _problems()


def _anchor(operation: Schema) -> str:
    return "#" + str(operation["summary"]).lower().replace(" ", "-")


def _first(operation: Schema) -> str:
    """Return the first sentence of the description."""
    return str(operation["description"]).split(". ")[0].rstrip(".").replace("\n", " ") + "."


def _operation(method: str, path: str, operation: Schema, schemas: Schemas) -> Iterator[str]:
    yield f"### {operation['summary']}"
    yield f"`{method.upper()} {path}`"
    yield operation["description"]
    yield from (f"*Requires an API key with the scope* `{scopes[0]}`." for scopes in _scopes(operation))
    yield _table(
        ["Parameter", "In", "Type", "Default", "Description"],
        (_parameter_row(each, schemas) for each in operation.get("parameters", [])),
    )
    body = operation.get("requestBody", {}).get("content", {}).get(_JSON)
    if body is not None:
        (fields,) = schemas.objects(body["schema"])
        yield _table(["Field", "Type", "Default", "Description"], schemas.rows(fields, expand=True))
        yield f"For example:\n\n{_fence(schemas.example(body['schema'], full=False))}"
    yield from _responses(operation["responses"], schemas)


def _scopes(operation: Schema) -> list[list[str]]:
    """Return the scopes of the first security scheme, if a key is required."""
    return [next(iter(each.values())) for each in operation["security"][:1]]


def _parameter_row(parameter: Schema, schemas: Schemas) -> list[str]:
    schema = parameter["schema"]
    words = schemas.words(schema, link=True)
    default = need(schema, parameter.get("required", False))
    return [f"`{parameter['name']}`", parameter["in"], words, default, parameter.get("description", "")]


def _responses(responses: Schema, schemas: Schemas) -> Iterator[str]:
    rows = (_response_row(status, response, schemas) for status, response in responses.items())
    yield _table(["Status", "Answer", "Meaning"], rows)
    for status, response in responses.items():
        schema = response.get("content", {}).get(_JSON, {}).get("schema")
        if schema and status.startswith("2"):
            yield f"The response:\n\n{_fence(schemas.example(schema, full=True))}"


def _response_row(status: str, response: Schema, schemas: Schemas) -> list[str]:
    content = response.get("content", {})
    own = "" if response["description"] == "Successful Response" else response["description"]
    described = [each["schema"] for each in content.values() if schemas.objects(each.get("schema", {}))]
    if not described:
        return [status, ", ".join(code(kind) for kind in content) or "nothing", own or "Done"]
    return [status, schemas.words(described[0], link=True), own or schemas.describe(described[0])]


def _learners(schemas: Schemas) -> Iterator[str]:
    yield "## Learners"
    yield "The values of `learner` in `POST /models`: an `algorithm`, with any of its hyperparameters."
    for learner in describe_learners().learners:
        yield f"### {learner.algorithm}"
        yield learner.summary + (" The default learner of new models." if learner.recommended else "")
        yield f"*Answers:* {_KINDS[learner.answer]}. *Guarantee:* {learner.guarantee}"
        yield _table(
            ["Hyperparameter", "Type", "Default", "Description"], schemas.rows(learner.hyperparameters, expand=True)
        )


def _answers(operations: Iterable[tuple[str, str, Schema]], schemas: Schemas) -> Iterator[str]:
    """Describe the objects in responses."""
    found: dict[str, Schema] = {}

    def collect(schema: Schema) -> None:
        for each in schemas.objects(schema):
            if each["title"] not in found:
                found[each["title"]] = each
                for field in each["properties"].values():
                    collect(field)

    for _, _, operation in operations:
        for response in operation["responses"].values():
            for content in response.get("content", {}).values():
                collect(content.get("schema", {}))
    yield "## Answers"
    for title in sorted(found):
        yield f"### {title}"
        yield found[title].get("description", "")
        rows = ([name, words, description] for name, words, _, description in schemas.rows(found[title], expand=False))
        yield _table(["Field", "Type", "Description"], rows)


def _problems() -> Iterator[str]:
    yield "## Problems"
    yield _PROBLEMS.format(prefix=TYPE_PREFIX)
    yield _fence(_SAMPLES["Problem"][0])
    rows = ([code(kind.slug), str(kind.status), f"{kind.title}."] for kind in every_kind())
    yield _table(["Type", "Status", "Meaning"], rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or an empty text if it has no rows."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if cells else ""


def _fence(value: Any) -> str:
    return f"```json\n{pretty(value)}\n```"


if __name__ == "__main__":
    main()
