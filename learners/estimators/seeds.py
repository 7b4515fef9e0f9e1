"""Random numbers of estimators and comparisons, from seeds that the caller gives."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Generator: TypeAlias = np.random.Generator


def generator(random_state: Any) -> Generator:
    """Return the generator of a `random_state`.

    Args:
        random_state: a non-negative integer; a generator, which is used itself; a `RandomState`, which gives a seed; or
            None for a seed from the operating system.

    Raises:
        ValueError: if it is anything else.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    if random_state is None:
        return np.random.default_rng()
    is_whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not is_whole or random_state < 0:
        raise ValueError(f"random_state: got {random_state!r}; must be an integer from 0, a numpy generator, or None")
    return np.random.default_rng(int(random_state))


def stream(*seeds: int) -> Generator:
    """Return the generator of a sequence of seeds; different sequences give independent numbers."""
    entropy: Sequence[int] = seeds
    return np.random.default_rng(entropy)
