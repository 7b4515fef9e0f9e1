"""What a worker takes from the world around it: store, threads, clock, random numbers. Tests hand in their own."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from service.compute import Compute
from service.store.base import Store


@dataclass(frozen=True)
class Environment:
    """What use cases need beside their requests."""

    store: Store
    compute: Compute
    now: Callable[[], float]  # seconds since the epoch
    rng: np.random.Generator
    new_id: Callable[[], str]
