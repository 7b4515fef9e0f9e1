"""What a mutation is: one deliberate error in the product, and the laws that should notice it."""

from pathlib import Path
from typing import NamedTuple

from tests.mutation import scripts, symbols
from tests.mutation.laws import find_law
from tests.mutation.symbols import ROOT


class Mutation(NamedTuple):
    """One error: a piece of code in a symbol of the product, and what somebody might have written."""

    name: str
    symbol: str  # as `symbols.find_symbol` or `scripts.find_script` takes it
    old: str  # an expression or statements, once in the symbol, whatever their layout; of a script, words
    new: str  # the same; empty where statements are left out
    laws: tuple[str, ...]  # as `laws.find_law` takes them, quick ones first


class Errors(NamedTuple):
    """Errors in one concept, which the same laws should notice."""

    concept: str  # begins the names of its mutations
    laws: tuple[str, ...]
    errors: tuple[tuple[str, str, str, str], ...]  # name, symbol, old code, new code
    home: str = ""  # the class of the symbols, or any class or function of their module; or their script

    def mutations(self) -> list[Mutation]:
        """One for each error."""
        prefix = self.home + (":" if self.home.endswith(".lua") else ".") if self.home else ""
        return [
            Mutation(f"{self.concept}: {name}", prefix + symbol, old, new, self.laws)
            for name, symbol, old, new in self.errors
        ]


def mutated(mutation: Mutation, root: Path = ROOT) -> tuple[Path, str]:
    """Put the error into the file that has its symbol.

    Returns:
        The file, from the root of the repository, and its mutated text.

    Raises:
        ValueError: if the symbol, or the old code in it, is missing or ambiguous, so that a change of the
            product cannot silently disarm the mutation.
    """
    replaced = scripts.replaced if ".lua" in mutation.symbol else symbols.replaced
    try:
        return replaced(mutation.symbol, mutation.old, mutation.new, root)
    except ValueError as error:
        raise ValueError(f"mutation {mutation.name!r}: {error}") from error


def laws_of(mutation: Mutation, root: Path = ROOT) -> tuple[str, ...]:
    """The laws of a mutation, as arguments of pytest.

    Raises:
        ValueError: if a law is missing or ambiguous.
    """
    try:
        return tuple(find_law(law, root) for law in mutation.laws)
    except ValueError as error:
        raise ValueError(f"mutation {mutation.name!r}: {error}") from error
