"""Mutations: deliberate errors in the product, each with the laws that should catch it."""

from pathlib import Path
from typing import NamedTuple

from tests.mutation import scripts, symbols
from tests.mutation.laws import find_law
from tests.mutation.symbols import ROOT


class Mutation(NamedTuple):
    """One error: a piece of code in a symbol of the product, and a plausible wrong version of it."""

    name: str
    symbol: str  # in the form that `symbols.find_symbol` or `scripts.find_script` takes
    old: str  # an expression or statements that occur once in the symbol, in any layout; in a script, words
    new: str  # the same; empty to delete statements
    laws: tuple[str, ...]  # in the form that `laws.find_law` takes, fast ones first


class Errors(NamedTuple):
    """Errors in one concept that the same laws should catch."""

    concept: str  # the prefix of the names of its mutations
    laws: tuple[str, ...]
    errors: tuple[tuple[str, str, str, str], ...]  # name, symbol, old code, new code
    home: str = ""  # the class of the symbols, any class or function of their module, or their script

    def mutations(self) -> list[Mutation]:
        """Return one mutation for each error."""
        prefix = self.home + (":" if self.home.endswith(".lua") else ".") if self.home else ""
        return [
            Mutation(f"{self.concept}: {name}", prefix + symbol, old, new, self.laws)
            for name, symbol, old, new in self.errors
        ]


def mutated(mutation: Mutation, root: Path = ROOT) -> tuple[Path, str]:
    """Put the error into the file that contains its symbol.

    Returns:
        The file, relative to the root of the repository, and its mutated text.

    Raises:
        ValueError: if the symbol, or the old code in it, is missing or ambiguous. A change of the product therefore
            cannot disable the mutation unnoticed.
    """
    replaced = scripts.replaced if ".lua" in mutation.symbol else symbols.replaced
    try:
        return replaced(mutation.symbol, mutation.old, mutation.new, root)
    except ValueError as error:
        raise ValueError(f"mutation {mutation.name!r}: {error}") from error


def laws_of(mutation: Mutation, root: Path = ROOT) -> tuple[str, ...]:
    """Return the laws of a mutation as pytest arguments.

    Raises:
        ValueError: if a law is missing or ambiguous.
    """
    try:
        return tuple(find_law(law, root) for law in mutation.laws)
    except ValueError as error:
        raise ValueError(f"mutation {mutation.name!r}: {error}") from error
