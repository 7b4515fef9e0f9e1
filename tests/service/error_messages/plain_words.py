"""The wording law: what no error may say, and what it must."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic_core._pydantic_core import list_all_errors

_LONG_ENOUGH = 10

_TEMPLATES = {
    part.strip() for each in list_all_errors() for part in re.split(r"{\w+}", each["message_template_python"])
}
"""The constant parts of pydantic's messages."""

FOREIGN = [
    *sorted(part.lower() for part in _TEMPLATES if len(part) >= _LONG_ENOUGH and " " in part),
    *("input should", "field required", "extra inputs", "string should", "list should", "value error", "value_error"),
    *("discriminator", "regex", "pattern '", "^[", "pydantic", "msgspec", "expecting", "nonetype", "codec can't"),
    *("there was an error", "traceback", "json decode", "valid dictionary", "unprocessable", "assertion"),
]
"""Wording of pydantic, msgspec, FastAPI, Python's JSON parser and regular expressions."""


_NOUNS = (
    "actions|characters|contexts|features|indices|items|labels|lists|members|numbers|predictions|slots|strings|values"
)
_CLUMSY = re.compile(rf"(?<![\d.,] )(?<![\d.,-])1 (\w+ )?({_NOUNS})\b|\b(\d+) to \3\b|\bor \S+, or null\b|\[key\]")
"""Plurals after one, ranges of one number, enumerations in enumerations, and pydantic's path of a name."""


def check_plain(text: str) -> None:
    """Check that a text has only printable characters, no foreign wording, and no clumsy one."""
    assert text.isprintable(), repr(text)
    assert [phrase for phrase in FOREIGN if phrase in text.lower()] == []
    assert _CLUMSY.search(text) is None, text


def check_problem(problem: Mapping[str, Any]) -> None:
    """Check that every detail of a problem is plain and begins with its field."""
    for each in (problem, *problem.get("errors", ())):
        check_plain(each["detail"])
        field = each.get("field")
        if field is not None and field.isprintable() and len(field) <= 60 and not set(field) & {'"', "\\"}:
            assert each["detail"].startswith(f"{field}: " if field else '"": ')
