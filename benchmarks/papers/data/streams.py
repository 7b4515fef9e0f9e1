"""The streams by name: data sets and generated rounds."""

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.datasets import READERS, Examples
from benchmarks.papers.data.battery import BATTERY
from benchmarks.papers.data.bundled import BUNDLED, bundled
from benchmarks.papers.data.chunks import CHUNK, Chunk, Stream
from benchmarks.papers.data.routing import routing_vectors, routing_words
from benchmarks.papers.data.synthetic import (
    DOUBLED,
    JOINT,
    LITERAL,
    LONGEST,
    N_CLASSES,
    N_WORDS,
    Margins,
    documents,
    grouped_points,
)
from benchmarks.papers.data.traffic import TRAFFIC
from learners.base import Contexts, IntArray, Problem

NOISY = {"reuters4-noisy": ("reuters4", 0.05)}
"""The data set of a stream with wrong labels, and their share. Each round replaces labels independently."""


_ROUTELLM, _PARETOBANDIT = "routing/routellm_k2_half.jsonl.gz", "routing/paretobandit_k4.jsonl.gz"

FILES: dict[str, tuple[str, Callable[[Path], Examples]]] = {
    **READERS,
    "routellm-words": (_ROUTELLM, routing_words),
    "routellm-vectors": (_ROUTELLM, routing_vectors),
    "paretobandit-words": (_PARETOBANDIT, routing_words),
    "paretobandit-vectors": (_PARETOBANDIT, routing_vectors),
}
"""The usual file name and the reader of each data set that is read from a file."""


def usual_name(stream: str) -> str | None:
    """Return the usual file name of a stream's data set; None for a stream that needs no file."""
    data_set, _ = NOISY.get(stream, (stream, 0.0))
    return FILES[data_set][0] if data_set in FILES else None


def find_file(stream: str, data: str | None) -> Path | None:
    """Return the file of a data set: `data` itself, or the file with the usual name in the folder `data`, or None."""
    usual = usual_name(stream)
    if usual is None or data is None:
        return None
    path = Path(data)
    file = path / usual if path.is_dir() else path
    return file if file.is_file() else None


@functools.cache
def open_stream(name: str, file: str | None) -> Stream:
    """Return a stream by name. Each process reads a data set once."""
    if name in SYNTHETIC:
        return SYNTHETIC[name]
    data_set, noise = NOISY.get(name, (name, 0.0))
    examples = _read(data_set, file)
    chunk = functools.partial(_shuffled, examples)
    if noise > 0.0:
        chunk = functools.partial(_noisy, chunk, noise, examples.n_labels)
    return Stream(Problem(examples.n_labels, examples.n_features), len(examples.labels), chunk)


def _read(data_set: str, file: str | None) -> Examples:
    if data_set in BUNDLED:
        return bundled(data_set)
    assert file is not None
    return FILES[data_set][1](Path(file))


def _noisy(
    chunk: Callable[[int, int, int], Chunk], noise: float, n_labels: int, seed: int, place: int, n: int
) -> Chunk:
    """Replace each label of a chunk by another one with probability `noise`."""
    contexts, labels, *_ = chunk(seed, place, n)
    uniforms = np.random.default_rng([seed, 5, place]).random((n, 2))
    others = (labels + 1 + (uniforms[:, 1] * (n_labels - 1)).astype(np.int64)) % n_labels
    return Chunk(contexts, np.where(uniforms[:, 0] < noise, others, labels))


def _synsep(noise: float) -> Stream:
    def chunk(seed: int, place: int, n: int) -> Chunk:
        return Chunk(*documents(n, seed, place, noise))

    return Stream(Problem(N_CLASSES, N_WORDS, float(np.sqrt(LONGEST))), None, chunk)


def _groups(margins: Margins) -> Stream:
    def chunk(seed: int, place: int, n: int) -> Chunk:
        return Chunk(*grouped_points(n, seed, place, margins))

    return Stream(Problem(9, 2), None, chunk)


SYNTHETIC = {
    "synsep": _synsep(0.0),
    "synnonsep": _synsep(0.05),
    "groups": _groups(LITERAL),
    "groups-doubled": _groups(DOUBLED),
    "groups-joint": _groups(JOINT),
    **BATTERY,
    **TRAFFIC,
}


def _shuffled(examples: Examples, seed: int, place: int, n: int) -> Chunk:
    size = len(examples.labels)
    positions = place * CHUNK + np.arange(n)
    rows = np.empty(n, dtype=np.int64)
    for turn in range(positions[0] // size, positions[-1] // size + 1):
        mine = positions // size == turn
        rows[mine] = np.random.default_rng([seed, 4, turn]).permutation(size)[positions[mine] % size]
    rewards = None if examples.rewards is None else examples.rewards[rows]
    contexts, labels = _taken(examples.contexts, rows), examples.labels[rows]
    if rewards is not None and np.isin(rewards, (0.0, 1.0)).all():
        return Chunk(contexts, labels, rewards == 1.0)
    return Chunk(contexts, labels, None, rewards)


def _taken(contexts: Contexts, rows: IntArray) -> Contexts:
    """Return these rows in this order."""
    lengths = np.diff(contexts.starts)[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.repeat(contexts.starts[rows] - starts[:-1], lengths) + np.arange(starts[-1])
    indices = contexts.indices if contexts.shared else contexts.indices[entries]
    return Contexts(starts, indices, contexts.values[entries], contexts.shared)
