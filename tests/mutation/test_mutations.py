"""The deliberate errors still apply; `make mutations` checks that they are detected."""

import ast
from collections import Counter

import pytest

from tests.mutation.__main__ import MUTATIONS
from tests.mutation.mutation import Mutation, argument_of, mutated


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_still_applies(mutation: Mutation) -> None:
    path, text = mutated(mutation)
    assert mutation.old != mutation.new
    if path.suffix == ".py":
        ast.parse(text)
    assert argument_of(mutation.test)


def test_mutation_names_are_unique() -> None:
    assert [name for name, n in Counter(mutation.name for mutation in MUTATIONS).items() if n > 1] == []


@pytest.mark.parametrize(
    ("place", "old", "test", "reason"),
    [
        ("_fold", "return", "test_mutation_still_applies", "parts of _fold"),
        ("add_feedback.lua.gone", "return", "test_mutation_still_applies", "0 parts"),
        ("add_feedback.lua", "local function gone", "test_mutation_still_applies", "0 parts"),
        ("add_feedback.lua", "local function", "test_mutation_still_applies", "parts of add_feedback"),
        ("add_feedback.lua", "local function judge", "test_gone", "0 tests"),
        ("add_feedback.lua", "local function judge", "test_micro_trace", "tests are called test_micro_trace"),
    ],
)
def test_what_is_missing_or_ambiguous_is_refused(place: str, old: str, test: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        raise AssertionError(mutated(Mutation("some", place, old, "", test)), argument_of(test))
