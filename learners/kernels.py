"""Compiles hot loops, accesses rows of contexts and eligible labels, and dispatches to any learner's kernels."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numba.extending
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

from learners import kernel_cache
from learners.base import BoolArray, Contexts, FloatArray, IntArray

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def compiled(function: FunctionT) -> FunctionT:
    """Compile a function of arrays to machine code on first use, and store the code in the on-disk cache.

    Results are bit-identical wherever the arrays are in memory, so all workers on a machine agree.
    """
    return _compiled(function, {"contract"})


def compiled_sum(function: FunctionT) -> FunctionT:
    """Compile like `compiled`, but allow reordering of sums, which is faster; for loops that only read and add up.

    A loop that also writes would be compiled twice, with and without vector instructions, and the places of its arrays
    in memory would determine which version runs, and so the order of summation and the result.
    """
    return _compiled(function, {"contract", "reassoc"})


unstored: list[OSError] = []
"""Why machine code could not be stored, for each kernel that this process must compile again after its next start."""


class _Cache(FunctionCache):
    """Stores machine code while there is room for it; each process compiles for itself what is not stored."""

    def save_overload(self, *code: Any) -> None:
        try:
            super().save_overload(*code)  # type: ignore[no-untyped-call]
        except OSError as error:
            unstored.append(error)


def _compiled(function: FunctionT, fastmath: set[str]) -> FunctionT:
    is_dependent = any(map(kernel_cache.is_dependent, function.__module__.split(".")[1:2]))
    folder = kernel_cache.DEPENDENT_FOLDER if is_dependent else kernel_cache.FOLDER
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    kernel: Any = numba.njit(nogil=True, fastmath=fastmath, error_model="numpy")(function)
    if kernel_cache.ROOT is not None and isinstance(kernel, Dispatcher):  # it is the function if numba is off
        # numba has no public way to name a cache.
        kernel._cache = _Cache(function)  # type: ignore[attr-defined, no-untyped-call]  # noqa: SLF001
    # The result has the type of the function, so that mypy checks callers against its signature.
    return cast(FunctionT, kernel)


@compiled
def row(contexts: Contexts, i: int) -> tuple[IntArray, FloatArray]:
    """Return the indices and values of the i-th context."""
    start, stop = contexts.starts[i], contexts.starts[i + 1]
    if contexts.shared:
        return contexts.indices, contexts.values[start:stop]
    return contexts.indices[start:stop], contexts.values[start:stop]


@compiled
def narrow(eligible: BoolArray, i: int, numbers: FloatArray) -> int:
    """Move the entries of `numbers` (K,) of labels that are eligible for context i to the front; return their count."""
    if eligible.shape[1] == 0:
        return len(numbers)
    count = 0
    for k in range(len(numbers)):
        if eligible[i, k]:
            numbers[count] = numbers[k]
            count += 1
    return count


@compiled
def count(eligible: BoolArray, i: int) -> int:
    """Return the number of eligible labels for context i, 0 if all are eligible and `eligible` is (n, 0)."""
    found = 0
    for is_eligible in eligible[i]:  # compiles sooner than np.count_nonzero
        found += int(is_eligible)
    return found


@compiled
def widen(eligible: BoolArray, i: int, numbers: FloatArray) -> None:
    """Undo `narrow`: move the first K' numbers to the eligible labels, and write 0 for the others."""
    if eligible.shape[1] == 0:
        return
    left = count(eligible, i)
    for k in range(len(numbers) - 1, -1, -1):
        if eligible[i, k]:
            left -= 1
            numbers[k] = numbers[left]
        else:
            numbers[k] = 0.0


@compiled
def place_of(eligible: BoolArray, i: int, label: int) -> int:
    """Return the place of a label among the K' eligible for context i, 0 … K'-1; -1 if it is not eligible."""
    if eligible.shape[1] == 0:
        return label
    place = -1
    for k in range(label + 1):
        place += int(eligible[i, k])
    return place if eligible[i, label] else -1


@compiled
def label_at(eligible: BoolArray, i: int, place: int) -> int:
    """Return the label at a place among those eligible for context i."""
    if eligible.shape[1] == 0:
        return place
    label = 0
    while label < eligible.shape[1] - 1 and (place > 0 or not eligible[i, label]):
        place -= int(eligible[i, label])
        label += 1
    return label


@compiled
def has_choice(eligible: BoolArray, i: int) -> bool:
    """Check whether at least two labels are eligible for context i."""
    return eligible.shape[1] == 0 or count(eligible, i) > 1


@compiled
def most_entries(starts: IntArray) -> int:
    """Return the largest number of entries of a context."""
    most = 0
    for i in range(len(starts) - 1):
        most = max(most, starts[i + 1] - starts[i])
    return most


@compiled
def as_given(_parameters: Any, _state: Any, contexts: Contexts) -> Contexts:
    """Return the contexts unchanged, as most kernels expect them."""
    return contexts


class Kernels(NamedTuple):
    """A learner's verbs as compiled functions, and its hyperparameters, encoded for them.

    The first two arguments of each are the parameters and the state. For labels, `decide(…, contexts, eligible,
    distributions, evidence)` overwrites distributions (n, K) and evidence (n, E); a learner that weighs costs takes
    `prices` after `eligible`. `CompiledActionLearner` has the signature for actions. `fold(…, rounds)` changes the
    state in place. `locate(…, contexts)` returns the contexts as `decide` expects them: a growing learner replaces each
    feature's index by that of its row in the state.
    """

    parameters: tuple[Any, ...]
    decide: Callable[..., None]
    fold: Callable[..., None]
    locate: Callable[..., Contexts] = as_given


_OF_STATE: dict[type[Any], Kernels] = {}
_WITHOUT_PRICES = set[type[Any]]()  # states of label learners whose `decide` takes no prices


def call_by_state(state_type: type[Any], kernels: Kernels, *, takes_prices: bool = True) -> None:
    """Register kernels for dispatch by state type. Raises `TypeError` if the type already has other kernels."""
    known = _OF_STATE.setdefault(state_type, kernels)
    if not takes_prices:
        _WITHOUT_PRICES.add(state_type)
    if known[1:] != kernels[1:]:
        raise TypeError(f"{state_type.__name__} has other kernels already: each learner needs its own type of state")


def _by_state(verb: str) -> Callable[..., Any]:
    # The kernel is chosen by the type of the second argument when the caller is compiled. Passing the kernel as an
    # argument would give the caller a new signature in every process, and its cached machine code would never be found.
    def stand_in(*arguments: Any) -> Any:
        raise NotImplementedError(f"{verb} by state is only for compiled code, not for {len(arguments)} Python objects")

    @numba.extending.overload(stand_in)
    def choose(*arguments: Any) -> Callable[..., Any]:
        state_type = arguments[1].instance_class
        kernel = getattr(_OF_STATE[state_type], verb)
        if verb == "decide" and state_type in _WITHOUT_PRICES:

            def without_prices(*arguments: Any) -> Any:
                return kernel(arguments[0], arguments[1], arguments[2], arguments[3], arguments[5], arguments[6])

            return without_prices

        def call(*arguments: Any) -> Any:
            return kernel(*arguments)

        return call

    return stand_in


decide_by_state = _by_state("decide")
fold_by_state = _by_state("fold")
