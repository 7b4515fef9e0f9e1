"""`python -m tests.client.problem_classes`: writes the client's class of each type of problem."""

from pathlib import Path

from service.api.responses.problem_types import Kind, every_kind
from wager_client.errors import class_of_status

PATH = Path(__file__).parents[2] / "client" / "wager_client" / "problem_types.py"

_DOC = '''"""One error for each type of problem that the service answers, in the order of status and type.

`python -m tests.client.problem_classes`, in the service's repository, writes this file.
"""
'''


def text() -> str:
    kinds = {kind.slug: kind for kind in every_kind()}.values()
    bases = "".join(f"    {name},\n" for name in sorted({class_of_status(kind.status).__name__ for kind in kinds}))
    classes = "\n\n".join(map(_class_of, kinds))
    return f"{_DOC}\nfrom wager_client.errors import (\n{bases})\n\n\n{classes}"


def _class_of(kind: Kind) -> str:
    name = "".join(word.capitalize() for word in kind.slug.removesuffix("-error").split("-"))
    base = class_of_status(kind.status).__name__
    return f'class {name}Error({base}, slug="{kind.slug}"):\n    """{kind.title}: {kind.status}."""\n'


if __name__ == "__main__":
    PATH.write_text(text())
