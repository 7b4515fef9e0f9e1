"""Describes the fields of a class in its JSON Schema by the docstrings below them, read when a schema is generated.

`use_attribute_docstrings` of pydantic reads them whenever the class is imported, which delays the start of a worker.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pydantic
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


def described(cls: type[Any], core_schema: CoreSchema, handler: pydantic.GetJsonSchemaHandler, /) -> JsonSchemaValue:
    """Return the JSON Schema of a class, with the docstrings of its fields as descriptions."""
    schema = handler(core_schema)
    properties = handler.resolve_ref_schema(schema).get("properties", {})
    for name, text in field_docstrings(cls).items():
        if name in properties:
            properties[name].setdefault("description", text)
    return schema


class DescribedFields:
    """The base of classes whose fields have docstrings."""

    __get_pydantic_json_schema__ = classmethod(described)


def field_docstrings(cls: type[Any]) -> dict[str, str]:
    """Return the docstrings of the fields that a class and its bases declare, by name."""
    found = dict[str, str]()
    for base in reversed(cls.__mro__):
        found |= _declared_in(base.__module__).get(base.__qualname__, {})
    return found


@cache
def _declared_in(module: str) -> dict[str, dict[str, str]]:
    """Return the docstrings of the fields of a module's classes, by the names of class and field."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):  # it has no source
        return {}
    classes = [each for each in ast.parse(source).body if isinstance(each, ast.ClassDef)]
    return {each.name: dict(_declared(each)) for each in classes}


def _declared(declaration: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(declaration.body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                yield name, inspect.cleandoc(docstring)
