"""Waits for kernels that another process compiles: compiling them here too would take the time of other requests."""

import asyncio

from learners import kernel_cache
from learners.registry import RECOMMENDED
from learners.warming import RULES, part_of
from service.errors import LearnerNotReadyError
from service.models.model import Model

LONGEST_WAIT = 20.0  # seconds
_PAUSE = 0.1  # seconds between two looks at the cache
_ready = set[str]()  # parts that need no second look


def are_ready(model: Model, *others: str) -> bool:
    """Check that no other process has yet to compile kernels of a model, or other parts; if one has, ask for them."""
    return _are_ready({part_of(type(model.learner)), *others} | ({RULES} if model.definition.rules else set()))


def is_default_ready() -> bool:
    """Check that no other process has yet to compile the recommended learner."""
    return _are_ready({part_of(RECOMMENDED)})


def _are_ready(needed: set[str]) -> bool:
    missing = needed - _ready
    if not missing:
        return True
    waiting = [part for part in missing if not kernel_cache.is_compiled(part)]
    if waiting and kernel_cache.is_locked():
        for part in waiting:
            kernel_cache.ask_for(part)
        return False
    _ready.update(needed)
    return True


async def wait_for(model: Model) -> None:
    """Wait until `are_ready`; raise `LearnerNotReadyError` after 20 seconds."""
    ends_at = asyncio.get_running_loop().time() + LONGEST_WAIT
    while not are_ready(model):
        if asyncio.get_running_loop().time() > ends_at:
            name = model.learner.algorithm
            raise LearnerNotReadyError(f"{name} is being compiled for this machine, once after installation; try again")
        await asyncio.sleep(_PAUSE)
