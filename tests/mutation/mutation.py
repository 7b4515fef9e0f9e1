"""What a mutation is: one deliberate error in the product, and the tests that should notice."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutation(NamedTuple):
    """One error, as a replacement of text."""

    name: str
    file: str  # from the root of the repository
    old: str  # stands in the file exactly once
    new: str
    tests: tuple[str, ...]  # arguments of pytest, quick ones first


class Place(NamedTuple):
    """Errors of one file that the same tests should notice."""

    file: str
    tests: tuple[str, ...]
    errors: dict[str, tuple[str, str]]  # by name: old text, new text

    def mutations(self) -> list[Mutation]:
        """One for each error."""
        return [Mutation(name, self.file, old, new, self.tests) for name, (old, new) in self.errors.items()]


def laws(file: str, *names: str) -> tuple[str, ...]:
    """Single tests of a file, as arguments of pytest."""
    return tuple(f"{file}::{name}" for name in names)


def mutated(mutation: Mutation, root: Path = ROOT) -> str:
    """The text of the mutated file.

    Raises:
        ValueError: if the old text is not there exactly once, so that a change of the product cannot
            silently disarm the mutation.
    """
    text = (root / mutation.file).read_text()
    found = text.count(mutation.old)
    if found != 1:
        raise ValueError(
            f"{mutation.name!r}: the old text is {found} times in {mutation.file}, and must be there once; "
            f"look for where it went and write it anew in tests/mutation: {mutation.old!r}"
        )
    return text.replace(mutation.old, mutation.new)
