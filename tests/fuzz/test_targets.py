"""The law of untrusted bytes: a reader reads them, or raises an error that it documents."""

from itertools import islice

import pytest

from tests.fuzz.mutating import inputs
from tests.fuzz.target import Target
from tests.fuzz.targets import all_targets

FEW = {"file": 50}
"""Inputs of slow readers, by the beginnings of their names."""


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_damaged_bytes_are_read_or_refused(target: Target) -> None:
    """Some hundred inputs keep the promise; `python -m tests.fuzz` tries more."""
    assert all(map(target.check, target.intact[:1])), "the first intact input is read"
    for data in islice(inputs(7, target.intact), FEW.get(target.name.partition("-")[0], 500)):
        target.check(data)


def test_inputs_are_reproducible() -> None:
    """A seed and the intact inputs determine all inputs."""
    intact = [b"abc", b"{}"]
    one, same, other = [list(islice(inputs(seed, intact), 100)) for seed in (1, 1, 2)]
    assert one == same
    assert one != other
