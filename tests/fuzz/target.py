"""What is fuzzed: a reader of bytes, with intact inputs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Target(NamedTuple):
    """One reader.

    Attributes:
        name: for the command line.
        intact: inputs that it reads.
        check: reads an input, whatever it is; raises if the reader breaks its promise. An error that the reader
            documents is none. Returns whether the input was read.
    """

    name: str
    intact: Sequence[bytes]
    check: Callable[[bytes], bool]
