"""The streams by name: data sets and generated rounds."""

import functools
from pathlib import Path

import numpy as np

from benchmarks.datasets import READERS, Examples
from benchmarks.papers.data.battery import BATTERY
from benchmarks.papers.data.chunks import CHUNK, Chunk, Stream
from benchmarks.papers.data.synthetic import LONGEST, N_CLASSES, N_WORDS, documents, grouped_points
from learners.base import Contexts, IntArray, Problem


def find_file(name: str, data: str | None) -> Path | None:
    """Return the file of a data set: `data` itself, or the file with the usual name in the folder `data`, or None."""
    if name in SYNTHETIC or data is None:
        return None
    path = Path(data)
    file = path / READERS[name][0] if path.is_dir() else path
    return file if file.is_file() else None


@functools.cache
def open_stream(name: str, file: str | None) -> Stream:
    """Return a stream by name. Each process reads a data set once."""
    if name in SYNTHETIC:
        return SYNTHETIC[name]
    assert file is not None
    examples = READERS[name][1](Path(file))
    return Stream(
        Problem(examples.n_labels, examples.n_features), len(examples.labels), functools.partial(_shuffled, examples)
    )


def _synsep(noise: float) -> Stream:
    def chunk(seed: int, place: int, n: int) -> Chunk:
        return Chunk(*documents(n, seed, place, noise))

    return Stream(Problem(N_CLASSES, N_WORDS, float(np.sqrt(LONGEST))), None, chunk)


def _groups(seed: int, place: int, n: int) -> Chunk:
    return Chunk(*grouped_points(n, seed, place))


SYNTHETIC = {
    "synsep": _synsep(0.0),
    "synnonsep": _synsep(0.05),
    "groups": Stream(Problem(9, 2), None, _groups),
    **BATTERY,
}


def _shuffled(examples: Examples, seed: int, place: int, n: int) -> Chunk:
    size = len(examples.labels)
    positions = place * CHUNK + np.arange(n)
    rows = np.empty(n, dtype=np.int64)
    for turn in range(positions[0] // size, positions[-1] // size + 1):
        mine = positions // size == turn
        rows[mine] = np.random.default_rng([seed, 4, turn]).permutation(size)[positions[mine] % size]
    return Chunk(_taken(examples.contexts, rows), examples.labels[rows])


def _taken(contexts: Contexts, rows: IntArray) -> Contexts:
    """Return these rows in this order."""
    lengths = np.diff(contexts.starts)[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.repeat(contexts.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
    indices = contexts.indices if contexts.shared else contexts.indices[entries]
    return Contexts(starts, indices, contexts.values[entries], contexts.shared)
