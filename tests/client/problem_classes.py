"""`python -m tests.client.problem_classes`: writes the client's class of each type of problem."""

from pathlib import Path

from service.api.responses.problem_types import Kind, every_kind
from wager_client.errors import class_of_status

PATH = Path(__file__).parents[2] / "client" / "wager_client" / "problem_types.py"

_HEAD = '''"""One error for each type of problem that the service reports, in the order of status and type.

`python -m tests.client.problem_classes`, in the service's repository, writes this file.
"""

from typing import TypeVar

from wager_client.errors import (
{bases})

T = TypeVar("T", bound=ProblemError)


def _kind(base: type[T], slug: str, title: str) -> type[T]:
    """Return the class of a type of problem."""
    name = "".join(word.capitalize() for word in slug.removesuffix("-error").split("-"))
    return type(f"{{name}}Error", (base,), {{"__doc__": f"{{title}}.", "__module__": __name__}}, slug=slug)


'''


def text() -> str:
    """Return the module that the service's table of problems describes."""
    kinds = {kind.slug: kind for kind in every_kind()}.values()
    bases = "".join(f"    {name},\n" for name in sorted({class_of_status(kind.status).__name__ for kind in kinds}))
    return _HEAD.format(bases=bases) + "".join(map(_class_of, kinds))


def _class_of(kind: Kind) -> str:
    name = "".join(word.capitalize() for word in kind.slug.removesuffix("-error").split("-"))
    arguments = f'{class_of_status(kind.status).__name__}, "{kind.slug}", "{kind.title}"'
    line = f"{name}Error = _kind({arguments})\n"
    return line if len(line) <= 121 else f"{name}Error = _kind(\n    {arguments}\n)\n"


if __name__ == "__main__":
    PATH.write_text(text())
