"""`python -m learners` compiles the service's kernels into the cache, so that starts and requests need not compile."""

import multiprocessing

from learners.warming import compile_all

_MOST_PROCESSES = 4  # each takes 0.7 GB


def main() -> None:
    """Compile in one process per core, at most 4; then in one, to add cache entries lost to concurrent writes."""
    count = min(multiprocessing.cpu_count(), _MOST_PROCESSES)
    _run_each([number / count for number in range(count)])
    _run_each([0.0])


def _run_each(places: list[float]) -> None:
    """Run `compile_all(place)` for each place, each in a new process; raise SystemExit if one fails."""
    processes = [multiprocessing.get_context("spawn").Process(target=compile_all, args=(place,)) for place in places]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
