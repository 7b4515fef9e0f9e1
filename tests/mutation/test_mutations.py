"""The mutation check tests itself; `make mutations` runs it."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.catalogue import MUTATIONS
from tests.mutation.laws import find_law
from tests.mutation.mutation import Mutation, laws_of, mutated
from tests.mutation.trial import ONLY_COMPILED

_CODE = '''
class Learner:
    def init(self):
        """(1.0 / p)."""
        return 1.0

def _fold(p, weights):
    if p > 0.0:  # always
        weights += (1.0 /
                    p)
        return
    return
'''
_SCRIPT = """
local function join(n)
  return n  +  1
end
return join(2)
"""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_still_applies(mutation: Mutation) -> None:
    """Symbol, old code and laws are each found once; the new code parses and changes the program."""
    path, text = mutated(mutation)
    if path.suffix == ".py":
        assert ast.dump(ast.parse(mutation.old)) != ast.dump(ast.parse(mutation.new))
        ast.parse(text)
    else:
        assert mutation.old.split() != mutation.new.split()
    assert laws_of(mutation)


def test_mutation_names_are_unique() -> None:
    """No two mutations share a name."""
    assert [name for name, n in Counter(mutation.name for mutation in MUTATIONS).items() if n > 1] == []


def test_deselected_tests_exist() -> None:
    """The tests that are deselected because they hold only for compiled kernels exist."""
    assert [find_law(law) for law in ONLY_COMPILED]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a small product with a few modules, scripts and laws."""
    for name, text in {
        "learners/somewhere/deep/some.py": _CODE,
        "learners/other.py": "def _fold(): ...\n",
        "service/joining.lua": _SCRIPT,
        "service/twice.lua": "",
        "service/store/twice.lua": "",
        "tests/test_some.py": "def test_one(): ...\n\ndef test_two(): ...\n",
        "tests/deep/test_other.py": "async def test_two(): ...\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("symbol", "old", "new", "expected"),
    [
        ("Learner._fold", "1.0/p", "1.0", "weights += ((1.0))\n        return"),
        ("some._fold", "weights += 1.0 / p", "", "        pass\n        return"),
        ("Learner._fold", "weights += 1.0 / p\nreturn", "if p:\n    return", "        if p:\n            return\n"),
        ("Learner.init", "return 1.0", "return 2.0", "        return 2.0\n"),
        ("joining.lua:join", "n+1", "n", "return n\nend"),
        ("joining.lua:", "join( 2 )", "join(3)", "return join(3)\n"),
    ],
)
def test_code_is_found_in_any_layout_and_file(root: Path, symbol: str, old: str, new: str, expected: str) -> None:
    """Folders, line breaks, comments, parentheses and docstrings do not matter."""
    path, text = mutated(Mutation("some", symbol, old, new, ()), root)
    assert expected in text
    assert text != (root / path).read_text()


@pytest.mark.parametrize(
    ("symbol", "old", "reason"),
    [
        ("_fold", "1.0 / p", "2 symbols"),
        ("Learner._gone", "1.0 / p", "0 symbols"),
        ("Learner._fold", "2.0 / p", "this 0 times"),
        ("Learner._fold", "p", "this 2 times"),
        ("Learner._fold", "return", "this 2 times"),
        ("gone.lua:join", "n + 1", "0 scripts"),
        ("twice.lua:", "n + 1", "2 scripts"),
        ("joining.lua:gone", "n + 1", "0 functions"),
        ("joining.lua:join", "n + 2", "this 0 times"),
        ("joining.lua:", "return", "this 2 times"),
    ],
)
def test_mutation_that_does_not_apply_is_refused(root: Path, symbol: str, old: str, reason: str) -> None:
    """If symbol or code is missing or ambiguous, an error names the mutation."""
    with pytest.raises(ValueError, match=f"mutation 'some error': .*{reason}"):
        mutated(Mutation("some error", symbol, old, "3.0", ()), root)


@pytest.mark.parametrize(
    ("law", "count"), [("test_none", 0), ("test_other::test_one", 0), ("test_two", 2), ("test_some::test_two", 1)]
)
def test_laws_are_found_by_name(root: Path, law: str, count: int) -> None:
    """A law is found by its name, in any file; if no test or several match, the error names the mutation."""
    mutation = Mutation("some error", "", "", "", (f"{law}[case]",))
    if count == 1:
        assert laws_of(mutation, root) == ("tests/test_some.py::test_two[case]",)
    else:
        with pytest.raises(ValueError, match=f"mutation 'some error': {count} tests are called"):
            laws_of(mutation, root)
