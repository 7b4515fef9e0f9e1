"""Human-readable descriptions of JSON Schemas: allowed values in words, nested fields, and examples."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
