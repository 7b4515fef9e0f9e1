"""The laws of the mutation check itself; `make mutations` runs it."""

import ast
from pathlib import Path

import pytest

from tests.mutation.catalogue import MUTATIONS
from tests.mutation.mutation import ROOT, Mutation, mutated


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_still_applies(mutation: Mutation) -> None:
    """The old text is in its file exactly once, the new text makes another program, and that one parses."""
    text = mutated(mutation)
    if mutation.file.endswith(".py"):
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse((ROOT / mutation.file).read_text()))
    else:
        assert text != (ROOT / mutation.file).read_text()


def test_names_tell_mutations_apart() -> None:
    """No two mutations have one name."""
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names)


def test_tests_of_mutations_are_there() -> None:
    """Every file of tests, and every law, that a mutation relies on is in the repository."""
    tests = {test for mutation in MUTATIONS for test in mutation.tests}
    files = {test: ROOT / test.partition("::")[0] for test in tests}
    assert {test for test in tests if not files[test].is_file()} == set()
    laws = {test: test.partition("::")[2].partition("[")[0] for test in tests if "::" in test}
    assert {test for test, law in laws.items() if f"def {law}(" not in files[test].read_text()} == set()


@pytest.mark.parametrize("text", ["", "old and old"], ids=["never", "twice"])
def test_a_mutation_that_does_not_fit_is_refused(tmp_path: Path, text: str) -> None:
    """Where the old text is not there exactly once, nothing is changed in silence."""
    (tmp_path / "some.py").write_text(text)
    with pytest.raises(ValueError, match="must be there once"):
        mutated(Mutation("some", "some.py", "old", "new", ()), tmp_path)
