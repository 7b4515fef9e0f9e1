"""`python -m learners.evaluation` compiles the loop of shadows for every learner, so that no shadow waits for it."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from learners.compiled_learner import CompiledLearner
from learners.evaluation.warming import warm_up
from learners.registry import LEARNERS

_MOST_PROCESSES = 4
"""Each takes half a gigabyte."""


def main() -> None:
    """Compile in a process per core; then add the entries of the cache that two processes wrote at the same time."""
    names = [name for name, learner in LEARNERS.items() if issubclass(learner, CompiledLearner)]
    count = min(multiprocessing.cpu_count(), _MOST_PROCESSES)
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(warm_up, names))
    for name in names:
        warm_up(name)


if __name__ == "__main__":
    main()
