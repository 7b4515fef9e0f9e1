"""Plays runs in parallel by joblib: on the cores of this machine, or on the cluster of a backend.

Each run stores its own outcome. So on a cluster every machine must see the folder, the data and this repository.
"""

import contextlib
import importlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import joblib
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.papers.runs import Run
from benchmarks.papers.store import path_of, play_and_keep

_EVERY = 0.5  # seconds between two updates of the progress bar


def complete(runs: Sequence[Run], folder: Path, backend: str = "loky", jobs: int = -1) -> int:
    """Play the runs that are not finished yet, each once. Return their number."""
    paths = {path_of(folder, run).absolute(): run for run in runs}
    pending = [(path, run) for path, run in paths.items() if not path.exists()]
    if pending:
        bar = _progress([path for path, _ in pending])
        with _cluster(backend), joblib.parallel_config(backend=backend, n_jobs=jobs), bar:
            joblib.Parallel(batch_size=1)(joblib.delayed(play_and_keep)(*one) for one in pending)
    return len(pending)


@contextlib.contextmanager
def _cluster(backend: str) -> Iterator[None]:
    """Connect to the cluster at DASK_SCHEDULER_ADDRESS or RAY_ADDRESS, or start one on this machine."""
    if backend == "dask":
        with importlib.import_module("distributed").Client():
            yield
        return
    if backend == "ray":
        importlib.import_module("ray.util.joblib").register_ray()
    yield


@contextlib.contextmanager
def _progress(paths: Sequence[Path]) -> Iterator[None]:
    """Show a progress bar that counts finished files, which works for every backend."""
    done = threading.Event()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TimeRemainingColumn()) as progress:
        task = progress.add_task("runs", total=len(paths))

        def watch() -> None:
            while not done.wait(_EVERY):
                progress.update(task, completed=sum(path.exists() for path in paths))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
            progress.update(task, completed=sum(path.exists() for path in paths))
