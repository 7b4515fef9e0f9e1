"""The kernels that a process has compiled, or loaded from the cache."""

import sys
from typing import Any

import numba

Compiled = dict[str, list[str]]
"""Signatures by kernel."""


def compiled() -> Compiled:
    """Return every imported kernel of the learners, with the signatures that are compiled or loaded."""
    kernels: dict[str, Any] = {
        f"{module.__name__}.{name}": thing
        for module in list(sys.modules.values())
        if module.__name__.startswith("learners.")
        for name, thing in vars(module).items()
        if isinstance(thing, numba.core.registry.CPUDispatcher)
    }
    return {name: [str(signature) for signature in kernel.signatures] for name, kernel in kernels.items()}


def compiled_since(before: Compiled) -> Compiled:
    """Return the kernels with signatures that `compiled` did not return before, and only these signatures."""
    later = {name: [s for s in signatures if s not in before.get(name, [])] for name, signatures in compiled().items()}
    return {name: signatures for name, signatures in later.items() if signatures}
