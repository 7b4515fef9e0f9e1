"""The environment of a worker: store, threads, clocks, random numbers. Tests pass their own."""

import binascii
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from service.compute import Compute
from service.models.reading import ModelReader
from service.store.capabilities import Store


@dataclass(frozen=True)
class Environment:
    """The dependencies of use cases."""

    store: Store
    compute: Compute
    now: Callable[[], float]  # seconds since the epoch
    rng: np.random.Generator
    new_id: Callable[[], str]
    monotonic: Callable[[], float] = time.monotonic  # seconds
    store_offset: Callable[[], float] = float  # seconds to add to the store's clock; 0 except in tests

    @cached_property
    def models(self) -> ModelReader:
        """The reader of stored models. It caches the models that were read last."""
        return ModelReader(self.compute)


def system_environment(store: Store, compute: Compute) -> Environment:
    """Return an environment with the system's clocks and random numbers."""
    return Environment(store, compute, time.time, np.random.default_rng(), _new_id)


_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def _new_id() -> str:
    """Return 20 characters that encode the milliseconds since the epoch and 9 unpredictable random bytes."""
    unsafe = binascii.b2a_base64(int(time.time() * 1000).to_bytes(6, "big") + os.urandom(9), newline=False)
    return unsafe.translate(_URL_SAFE).decode()
