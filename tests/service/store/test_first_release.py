"""The law of what release 0.1.0 does with a record of the current version, which it cannot read."""

import struct

import pytest

from tests.service.store.samples import sample_predictions

HEAD_OF_THE_FIRST_RELEASE = "<BIII"
"""Version, predictions, open predictions, bytes per answer: 0.1.0 allocates by these, then checks the version."""


@pytest.mark.parametrize("ids", [("a",), ("a", "b")])
def test_the_first_release_reads_harmless_lengths(ids: tuple[str, ...]) -> None:
    """Release 0.1.0 reads small lengths, so it refuses the record without blocking the store."""
    for block in sample_predictions(*ids):
        version, n, open_ones, answer_bytes = struct.unpack_from(HEAD_OF_THE_FIRST_RELEASE, block.record)
        assert version > 3
        assert (n, open_ones, answer_bytes) == (1, 0, 4)
