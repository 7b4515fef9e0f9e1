"""A law of what release 0.1.0 does with a record of this version, which it cannot read."""

import struct

import pytest

from tests.service.store.samples import sample_predictions

HEAD_OF_THE_FIRST_RELEASE = "<BIII"
"""Version, predictions, open ones, bytes of an answer: it makes strings of these lengths, then looks at the version."""


@pytest.mark.parametrize("ids", [("a",), ("a", "b")])
def test_the_first_release_takes_no_noise_for_a_length(ids: tuple[str, ...]) -> None:
    """It finds the numbers that it expects, so that it refuses the record and does not hold up the store."""
    for block in sample_predictions(*ids):
        version, n, open_ones, answer_bytes = struct.unpack_from(HEAD_OF_THE_FIRST_RELEASE, block.record)
        assert version > 3
        assert (n, open_ones, answer_bytes) == (1, 0, 4)
