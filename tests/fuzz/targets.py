"""All targets."""

from tests.fuzz import of_bodies, of_files, of_records
from tests.fuzz.target import Target


def all_targets() -> list[Target]:
    """Return the targets, in the order in which they are fuzzed."""
    return [*of_bodies.targets(), *of_records.targets(), *of_files.targets()]
