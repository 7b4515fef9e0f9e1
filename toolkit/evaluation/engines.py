"""Where the parts of a log are computed: in processes of this machine, or on a Dask cluster."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeAlias, TypeVar

from learners.estimators.processes import Processes
from service.processes import tied_workers
from toolkit.evaluation.columns import EvaluationError

_T = TypeVar("_T")
_PATIENCE = "10s"


def local(jobs: int) -> Processes:
    """Return worker processes that end with this process, even if it is killed; with one job, use this process."""
    return Processes(jobs, backend="loky", **tied_workers())


class Dask:
    """Computes parts on an existing Dask cluster. Its workers need this version of Wager and access to the files."""

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def map(self, function: Callable[..., _T], parts: Sequence[Any], *rest: object) -> Iterator[_T]:
        """Yield the result of a function for each part, in order; `rest` are its other arguments."""
        shared = self._client.scatter(list(rest), broadcast=True)
        waiting = [self._client.submit(function, part, *shared, pure=False) for part in parts]
        return (future.result() for future in waiting)


Engine: TypeAlias = Processes | Dask
