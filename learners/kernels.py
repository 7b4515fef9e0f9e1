"""How hot loops are compiled, and how they read a row of contexts."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from learners.base import Contexts, FloatArray, IntArray

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def _keep_cache_in_step() -> None:
    """Gives each version of the sources its own cache of machine code.

    numba recompiles a kernel when its own file changes, but not when a kernel that it calls does.
    """
    here = Path(__file__).parent
    sources = hashlib.sha256()
    for path in sorted(here.rglob("*.py")):
        sources.update(path.read_bytes())
    root = Path(os.environ.get("NUMBA_CACHE_DIR", here / "__pycache__"))
    numba.config.CACHE_DIR = str(  # type: ignore[attr-defined]
        root / f"kernels-{sources.hexdigest()[:16]}"
    )


_keep_cache_in_step()


def compiled(function: FunctionT) -> FunctionT:
    """Compiles a function of arrays to machine code on first use and keeps it in the on-disk cache.

    The same bits come out wherever the arrays lie in memory, so all workers of a machine agree.
    """
    return _compiled(function, {"contract"})


def compiled_sum(function: FunctionT) -> FunctionT:
    """As `compiled`, for a loop that only reads and adds up: its sum may be taken in another order, faster.

    A loop that also writes would be compiled twice, with and without vectors, and where its arrays happen
    to lie would choose between two orders, so between two results.
    """
    return _compiled(function, {"contract", "reassoc"})


def _compiled(function: FunctionT, fastmath: set[str]) -> FunctionT:
    # Typed as the function it compiles, so that callers are checked against its signature.
    return cast(FunctionT, numba.njit(cache=True, nogil=True, fastmath=fastmath, error_model="numpy")(function))


@compiled
def row(contexts: Contexts, i: int) -> tuple[IntArray, FloatArray]:
    """Indices and values of the i-th context."""
    start, stop = contexts.starts[i], contexts.starts[i + 1]
    if contexts.shared:
        return contexts.indices, contexts.values[start:stop]
    return contexts.indices[start:stop], contexts.values[start:stop]
