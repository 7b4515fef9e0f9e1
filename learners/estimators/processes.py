"""Computes tasks in processes of this machine, with joblib. The processes end with the work, even after an error."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

_T = TypeVar("_T")


class Processes:
    """Computes tasks in n processes (-1: one per core), which start with the first tasks and end with the `with` block.

    joblib itself would leave them idle for minutes, with the program's standard output open, even after the program
    was killed. Processes that joblib started earlier are reused and kept.
    """

    def __init__(self, n: int, **options: object) -> None:
        self._n, self._options = n, options
        self._results: list[Any] = []
        self._before: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(at_once=kind is not None)

    def map(self, function: Callable[..., _T], tasks: Sequence[Any], *rest: object) -> Iterator[_T]:
        """Yield `function(task, *rest)` for each task, in order. Raises `ImportError` if joblib is needed but missing.

        The function must be importable. One task, or one process, does not need joblib.
        """
        if self._n == 1 or len(tasks) < 2:
            return (function(task, *rest) for task in tasks)
        import joblib

        if not self._results:
            self._before = _executor()
        n = self._n if self._n < 0 else min(self._n, len(tasks))
        run = joblib.Parallel(n_jobs=n, return_as="generator", **self._options)
        results: Iterator[_T] = run(joblib.delayed(function)(task, *rest) for task in tasks)
        self._results.append(results)
        return results

    def close(self, *, at_once: bool = False) -> None:
        """End the processes; with `at_once`, kill them without waiting for the tasks that they compute."""
        if not self._results:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of unfinished tasks
            while self._results:
                self._results.pop().close()
        executor = _executor()
        if executor is not self._before:
            executor.shutdown(wait=True, kill_workers=at_once)
        self._before = None


def _executor() -> Any:
    """Return joblib's process pool; None if it does not exist, or if joblib uses another backend."""
    from joblib.externals.loky import reusable_executor

    return getattr(reusable_executor, "_executor", None)
