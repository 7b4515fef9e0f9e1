"""Invalid arrays: contexts, rounds and uniforms, each wrong in one way."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from learners.answers import is_structured
from learners.base import AnyLearner, Contexts, Rounds
from tests.learners.arrays import as_sparse


class Bad(NamedTuple):
    """One invalid value."""

    name: str
    field: str  # the field that the error must name
    value: Any


ROWS = np.random.default_rng(1).normal(size=(3, 5))
DENSE, SPARSE = Contexts.dense(ROWS), as_sparse(Contexts.dense(ROWS))
"""Three valid contexts of five features."""


def _with(contexts: Contexts, field: str, position: int, value: Any) -> Contexts:
    array = getattr(contexts, field).copy()
    array[position] = value
    return contexts._replace(**{field: array})


def _contexts() -> Iterator[Bad]:
    for bad in (np.nan, np.inf, -np.inf):
        for name, good in (("dense", DENSE), ("sparse", SPARSE)):
            yield Bad(f"{name} {bad}", "contexts.values", _with(good, "values", 7, bad))
    for d in (1, 4, 6, 4000):
        yield Bad(f"dense of {d}", "contexts.indices", Contexts.dense(np.ones((3, d))))
    yield Bad("shared indices in another order", "contexts.indices", _with(DENSE, "indices", 0, 1))
    yield Bad("shared with a shorter row", "contexts.indices", _with(DENSE, "starts", 1, 4))
    for bad_index in (-1, 5, 2**40, -(2**62)):
        yield Bad(f"index {bad_index}", "contexts.indices", _with(SPARSE, "indices", 3, bad_index))
    yield Bad("an index twice", "contexts.indices", _with(SPARSE, "indices", 1, 0))
    yield Bad("an index twice, far apart", "contexts.indices", _with(SPARSE, "indices", 4, 0))
    yield Bad("fewer indices", "contexts.indices", SPARSE._replace(indices=SPARSE.indices[:-1].copy()))
    for name, good in (("dense", DENSE), ("sparse", SPARSE)):
        for position, start in ((0, 1), (0, -5), (1, -5), (1, 11), (1, 2**40), (3, 14), (3, 16), (3, 2**40)):
            yield Bad(f"{name} start {position} at {start}", "contexts.starts", _with(good, "starts", position, start))
        yield Bad(f"{name} without starts", "contexts.starts", good._replace(starts=np.empty(0, np.int64)))
        for field, dtype in (("starts", np.int32), ("starts", float), ("indices", np.int32), ("values", np.float32)):
            array = getattr(good, field).astype(dtype)
            yield Bad(f"{name} {field} of {array.dtype}", f"contexts.{field}", good._replace(**{field: array}))
        for field in ("starts", "indices", "values"):
            square = getattr(good, field)[None]
            yield Bad(f"{name} {field} as a matrix", f"contexts.{field}", good._replace(**{field: square}))
            listed = getattr(good, field).tolist()
            yield Bad(f"{name} {field} as a list", f"contexts.{field}", good._replace(**{field: listed}))
        truthy: Any = 1
        yield Bad(f"{name} shared 1", "contexts.shared", good._replace(shared=truthy))
    yield Bad("a matrix", "contexts", ROWS)
    yield Bad("a plain tuple", "contexts", tuple(DENSE))


CONTEXTS = list(_contexts())
"""Invalid replacements for three contexts of five features."""


def _column(field: str, change: Callable[[Any], Any]) -> Callable[[Rounds], Rounds]:
    return lambda rounds: rounds._replace(**{field: change(getattr(rounds, field))})


def _at(position: int, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        changed = array.copy()
        changed[position] = value
        return changed

    return change


def rounds_of(learner: AnyLearner, good: Rounds) -> Iterator[Bad]:
    """Yield three rounds of this learner that are invalid in one field other than the contexts."""
    K = learner.problem.n_labels
    for field in good._fields[1:]:
        column = getattr(good, field)
        other = np.float32 if column.dtype == np.float64 else np.int32
        for name, change in {
            "shorter": lambda array: array[:-1].copy(),
            "longer": lambda array: np.concatenate([array, array]),
            "none": lambda array: array[:0].copy(),
            "with a dimension more": lambda array: array[..., None].copy(),
            "a number": lambda array: array.ravel()[:1].sum(),
            "a list": lambda array: array.tolist(),
        }.items():
            yield Bad(f"{field} {name}", field, _column(field, change)(good))
        yield Bad(f"{field} of {np.dtype(other)}", field, good._replace(**{field: column.astype(other)}))
    numbers: dict[str, list[Any]] = {
        "labels": [-1, K, K + 1, 2**40, -(2**62)],
        "true_labels": [-2, K, K + 1, 2**40, -(2**62)],
        "propensities": [-1e-300, -0.5, 1.001, np.nan, np.inf] + ([] if is_structured(learner) else [0.0]),
        "residual_uniforms": [-1e-9, 1.0, np.nan, np.inf],
        "evidence": [np.nan, np.inf, -np.inf] if learner.evidence_size else [],
    }
    for field, values in numbers.items():
        for value in values:
            yield Bad(f"{field} {value}", field, _column(field, _at(1, value))(good))
    if learner.evidence_size:
        yield Bad("evidence narrower", "evidence", good._replace(evidence=good.evidence[:, :-1].copy()))
    yield Bad("a plain tuple", "rounds", tuple(good))
    for name, contexts in (("more", Contexts.dense(np.ones((4, 5)))), ("fewer", Contexts.dense(np.ones((2, 5))))):
        yield Bad(f"{name} contexts", "labels", good._replace(contexts=contexts))
