"""What a worker takes from the world around it: store, threads, clocks, random numbers. Tests hand in their own."""

import base64
import os
import time
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
    monotonic: Callable[[], float] = time.monotonic  # seconds, never going back


def system_environment(store: Store, compute: Compute) -> Environment:
    """An environment with the system's clocks and random numbers."""
    return Environment(store, compute, time.time, np.random.default_rng(), _new_id)


def _new_id() -> str:
    """20 characters: milliseconds since the epoch, then 9 random bytes that cannot be guessed."""
    return base64.urlsafe_b64encode(int(time.time() * 1000).to_bytes(6, "big") + os.urandom(9)).decode()
