"""Reads JSON Schemas: finds the schemas at a path, and describes the values that they allow."""

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from pydantic import TypeAdapter

from service.error_messages.patterns import RULES
from service.error_messages.values import joined, quoted, shown
from service.json_values import JsonObject

Schema = JsonObject

_PLURALS = {kind: f"{kind}s" for kind in ("number", "integer", "string", "boolean", "object")} | {"array": "lists"}


class Place(NamedTuple):
    """A place in a request: its path, its possible schemas, and the schemas of the enclosing object or list."""

    path: tuple[str, ...]
    schemas: tuple[Schema, ...]
    around: tuple[Schema, ...]


class Root(NamedTuple):
    """The schema of a whole request, with the definitions to which it refers."""

    schema: Schema
    definitions: Mapping[str, Schema]

    def find(self, steps: Iterable[str | int]) -> Place:
        """Return the place that a pydantic error's path leads to, without the path's steps into tagged unions."""
        path: tuple[str, ...] = ()
        around: tuple[Schema, ...] = ()
        here = tuple(self._expanded(self.schema))
        for step in steps:
            union = next((schema for schema in here if "oneOf" in schema), None)
            if union is not None:
                reference = union.get("discriminator", {}).get("mapping", {}).get(step)
                members = [{"$ref": reference}] if reference else union["oneOf"]
                here = tuple(each for member in members for each in self._expanded(member))
                continue
            path, around = (*path, str(step)), here
            here = tuple(self._children(around, step))
        return Place(path, here, around)

    def allowed(self, schemas: Sequence[Schema]) -> str:
        """Describe the values that any of the schemas allows, such as `"reject" or "accept"`."""
        texts = list(dict.fromkeys(text for schema in schemas for text in self._texts(schema)))
        others = [text for text in texts if text != "null"]
        if len(others) == 1 and len(texts) == 2:
            return f"{others[0]}, or null"
        return joined([*others, *texts[len(others) :]], "or") if texts else "a valid value"

    def names(self, schemas: Sequence[Schema]) -> str:
        """Return the rule for member names of objects with these schemas."""
        named = [schema["propertyNames"] for schema in schemas if "propertyNames" in schema]
        return self.allowed([{"type": "string"} | each for each in named])

    def members(self, schemas: Sequence[Schema]) -> tuple[str, ...]:
        """Return the declared member names of objects with these schemas."""
        return tuple(dict.fromkeys(name for schema in schemas for name in schema.get("properties", ())))

    def kinds(self, schemas: Sequence[Schema]) -> str:
        """Return the tags that a tagged union allows, such as `"a" or "b"`."""
        mappings = [schema["discriminator"]["mapping"] for schema in schemas if "discriminator" in schema]
        names = [quoted(name) for mapping in mappings for name in mapping]
        return joined(names, "or") if names else self.allowed(schemas)

    def _expanded(self, schema: Schema) -> Iterator[Schema]:
        """Resolve references and untagged unions. Keep tagged ones (oneOf), which have a step in pydantic's paths."""
        if "$ref" in schema:
            yield from self._expanded(self.definitions[schema["$ref"].rpartition("/")[2]])
        elif "anyOf" in schema:
            # Pydantic puts the bounds of a size in bytes beside `anyOf`.
            for member in schema["anyOf"]:
                bounds = {"minimum": schema.get("ge"), "maximum": schema.get("le")}
                given = {name: bound for name, bound in bounds.items() if bound is not None}
                yield from self._expanded(member | given if member.get("type") == "integer" else member)
        else:
            yield schema

    def _children(self, schemas: Iterable[Schema], step: str | int) -> Iterator[Schema]:
        for schema in schemas:
            members = schema.get("properties", {}).get(step) or schema.get("additionalProperties")
            child = schema.get("items") if isinstance(step, int) else members
            if isinstance(child, dict):
                yield from self._expanded(child)

    def _texts(self, schema: Schema) -> Iterator[str]:
        if "discriminator" in schema:
            yield _object({"required": [schema["discriminator"]["propertyName"]]})
        elif "oneOf" in schema:
            for member in schema["oneOf"]:
                for each in self._expanded(member):
                    yield from self._texts(each)
        elif schema.get("type") == "boolean":
            yield from ("true", "false")
        elif "const" in schema or "enum" in schema:
            yield from map(shown, schema.get("enum") or [schema["const"]])
        else:
            yield self._text(schema)

    def _text(self, schema: Schema) -> str:
        match schema.get("type"):
            case "array":
                return self._list(schema)
            case "number" | "integer":
                return _number(schema)
            case "string":
                return _string(schema)
            case "object":
                return _object(schema)
        return "null" if schema.get("type") == "null" else "a valid value"

    def _list(self, schema: Schema) -> str:
        size = _size(schema.get("minItems"), schema.get("maxItems"))
        kinds = {each.get("type", "") for each in self._expanded(schema.get("items", {}))}
        items = _PLURALS.get(kinds.pop(), "items") if len(kinds) == 1 else "items"
        return f"a list of {size}{_after(size, items)}"


@cache
def root_of(model: Hashable) -> Root:
    """Return the schema of a type that pydantic reads."""
    adapter: TypeAdapter[Any] = TypeAdapter(cast(Any, model))
    schema = adapter.json_schema()
    return Root(schema, schema.get("$defs", {}))


def _number(schema: Schema) -> str:
    noun = "an integer" if schema["type"] == "integer" else "a number"
    low, high, below = schema.get("minimum"), schema.get("maximum"), schema.get("exclusiveMaximum")
    if noun == "an integer" and high is None and below is not None:
        high = below - 1
    if low is not None and high is not None:
        return f"{noun} between {_written(low)} and {_written(high)}"
    bounds = {"of at least": low, "greater than": schema.get("exclusiveMinimum"), "at most": high, "less than": below}
    texts = [f"{word} {_written(bound)}" for word, bound in bounds.items() if bound is not None]
    return f"{noun} {' and '.join(texts)}" if texts else noun


def _string(schema: Schema) -> str:
    if "pattern" in schema:
        return RULES.get(schema["pattern"], f"a string that matches {schema['pattern']}")
    size = _size(schema.get("minLength"), schema.get("maxLength"))
    return f"a string of {size}{_after(size, 'characters')}" if size else "a string"


def _object(schema: Schema) -> str:
    required = schema.get("required")
    return f"an object with {joined(map(quoted, required), 'and')}" if required else "an object"


def _size(least: int | None, most: int | None) -> str:
    if least and most:
        return f"{least} " if least == most else f"{least} to {most} "
    if most:
        return f"at most {most} "
    return f"{least} or more " if least else ""


def _after(size: str, noun: str) -> str:
    return noun[:-1] if size in ("1 ", "at most 1 ") else noun


def _written(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) and abs(bound) < 1e15 else json.dumps(bound)
