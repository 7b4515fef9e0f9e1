"""How hot loops are compiled, how they read a row of contexts, and how one loop calls any learner's kernels."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numba.extending

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


class Kernels(NamedTuple):
    """A learner's verbs as compiled functions, and its hyperparameters as they want them.

    Both are given the parameters and the state first. `decide(…, contexts, distributions, evidence)` writes to
    distributions (n, K) and evidence (n, E), whatever they held. `fold(…, rounds)` changes the state in place.
    """

    parameters: tuple[Any, ...]
    decide: Callable[..., None]
    fold: Callable[..., None]


_OF_STATE: dict[type[Any], Kernels] = {}


def call_by_state(state_type: type[Any], kernels: Kernels) -> None:
    """Makes `decide_by_state` and `fold_by_state` call these kernels for states of this type.

    Raises:
        TypeError: where states of this type are another learner's too, with other kernels.
    """
    known = _OF_STATE.setdefault(state_type, kernels)
    if known[1:] != kernels[1:]:
        raise TypeError(f"{state_type.__name__} has other kernels already: a learner needs a type of state of its own")


def _by_state(verb: str) -> Callable[..., None]:
    # The kernel is chosen when a caller is compiled, by the type of its second argument. A kernel handed over
    # as an argument would be another type in every process, so that the caller's machine code was never found again.
    def stand_in(*arguments: Any) -> None:
        raise NotImplementedError(f"{verb} by state is for compiled code, not for {len(arguments)} Python objects")

    @numba.extending.overload(stand_in)
    def choose(*arguments: Any) -> Callable[..., None]:
        kernel = getattr(_OF_STATE[arguments[1].instance_class], verb)

        def call(*arguments: Any) -> None:
            kernel(*arguments)

        return call

    return stand_in


decide_by_state = _by_state("decide")
fold_by_state = _by_state("fold")
