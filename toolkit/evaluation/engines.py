"""Where parts are computed: in this process, in several, or on a Dask cluster.

Results come in the order of the parts, so they are the same everywhere.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

from learners.estimators.processes import Processes
from service.processes import tied_workers
from toolkit.evaluation.columns import EvaluationError

_T = TypeVar("_T")
_PATIENCE = "10s"


class Engine:
    """Computes parts one after the other, in this process. Its context ends what it has started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=kind is not None)

    def map(self, function: Callable[..., _T], parts: Sequence[Any], *rest: Any) -> Iterator[_T]:
        """Yield the result of a function for each part, in order."""
        return (function(part, *rest) for part in parts)

    def close(self, *, at_once: bool = False) -> None:
        """Release connections and processes."""


class Joblib(Engine):
    """Computes parts in several processes of this machine, which end with this one even if it is killed."""

    def __init__(self, jobs: int) -> None:
        self._processes = Processes(jobs, backend="loky", **tied_workers())

    def map(self, function: Callable[..., _T], parts: Sequence[Any], *rest: Any) -> Iterator[_T]:
        """See `Engine.map`."""
        return self._processes.map(function, parts, *rest)

    def close(self, *, at_once: bool = False) -> None:
        """See `Engine.close`."""
        self._processes.close(at_once=at_once)


class Dask(Engine):
    """Computes parts on an existing Dask cluster, whose workers have this version of Wager and see the same files."""

    def __init__(self, scheduler: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise EvaluationError("--engine dask needs the extra `dask`: pip install 'wager[dask]'") from None
        try:
            connect: Any = Client
            self._client = connect(scheduler, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise EvaluationError(f"--scheduler {scheduler}: does not answer: {error}") from error

    def map(self, function: Callable[..., _T], parts: Sequence[Any], *rest: Any) -> Iterator[_T]:
        """See `Engine.map`."""
        shared = self._client.scatter(list(rest), broadcast=True)
        waiting = [self._client.submit(function, part, *shared, pure=False) for part in parts]
        return (future.result() for future in waiting)

    def close(self, *, at_once: bool = False) -> None:
        """See `Engine.close`."""
        self._client.close()
