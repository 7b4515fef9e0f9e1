"""Where parts are computed: in this process, in several, or on a Dask cluster.

Results come in the order of the parts, so they are the same everywhere.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from service.evaluation.offline.errors import EvaluationError

_T = TypeVar("_T")
_PATIENCE = "10s"


class Engine:
    """Computes parts one after the other, in this process."""

    def map(self, function: Callable[..., _T], parts: Sequence[Any], *rest: Any) -> Iterator[_T]:
        """Yield the result of a function for each part, in order.

        Args:
            function: takes a part and the other arguments; importable in another process.
            parts: the parts.
            rest: the other arguments.
        """
        return (function(part, *rest) for part in parts)

    def close(self) -> None:
        """Release connections."""


class Joblib(Engine):
    """Computes parts in several processes of this machine.

    Args:
        jobs: the number of processes.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def map(self, function: Callable[..., _T], parts: Sequence[Any], *rest: Any) -> Iterator[_T]:
        """See `Engine.map`."""
        import joblib

        run = joblib.Parallel(n_jobs=min(self._jobs, max(1, len(parts))), return_as="generator")
        results: Iterator[_T] = run(joblib.delayed(function)(part, *rest) for part in parts)
        return results


class Dask(Engine):
    """Computes parts on an existing Dask cluster, whose workers have this version of Wager and see the same files.

    Args:
        scheduler: the address of the scheduler.

    Raises:
        EvaluationError: if Dask is not installed, or the scheduler does not answer.
    """

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

    def close(self) -> None:
        """See `Engine.close`."""
        self._client.close()
