"""Streams of candidates, and the page that compares learners of actions with Vowpal Wabbit."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers.catalogues import catalogue, classes_as_actions
from benchmarks.papers.data.streams import open_stream
from learners.kernels import row

for _package in ("joblib", "matplotlib", "vowpalwabbit"):
    pytest.importorskip(_package, reason="needs the dependency group `bench`")

actions = importlib.import_module("benchmarks.papers.actions")


@pytest.mark.parametrize("stream", ["synnonsep", "groups"])
def test_classes_are_candidates_with_the_context_of_their_own(stream: str) -> None:
    """Candidate k has a constant, its class, and the context at features that no other class has; one is right."""
    made, n = classes_as_actions(stream, None, 20, 3), 20
    plain = open_stream(stream, None)
    K, chunk = plain.problem.n_labels, next(iter(plain.chunks(n, 3)))
    assert made.n_features == 1 + K + K * plain.problem.n_features
    for t in range(n):
        context, values = row(chunk.contexts, t)
        for k in range(K):
            features, numbers = row(made.candidates.vectors, t * K + k)
            assert features.tolist() == [0, 1 + k, *(1 + K + context * K + k)]
            assert numbers.tolist() == [1.0, 1.0, *values]
            assert made.rewards[t * K + k] == (chunk.labels[t] == k)


def test_items_of_a_catalogue_come_and_go() -> None:
    """Rounds show distinct items of a window that moves; the same seed gives the same rounds."""
    one, same, other = (catalogue(200, seed, True, False) for seed in (1, 1, 2))
    ids = one.candidates.vectors.indices.reshape(200, 10, -1)[:, :, -1]
    assert all(len(set(shown)) == 10 for shown in ids.tolist())
    assert not set(ids[0].tolist()) & set((ids[-1] + 40).tolist())
    assert ids[:20].max() < ids[-20:].max()
    assert ids[:20].min() < ids[-20:].min()
    assert set(np.unique(one.rewards)) == {0.0, 1.0}
    assert one.rewards.tolist() == same.rewards.tolist() != other.rewards.tolist()


def test_a_page_has_a_row_for_each_stream(tmp_path: Path) -> None:
    """A short run plays every player on every stream."""
    found = actions.results({"synnonsep": None}, 60, 2, 1)
    actions.report(found, 2, tmp_path)
    text = (tmp_path / "actions.md").read_text()
    for one in found:
        assert f"| {one.stream} | 60 |" in text
        assert all((losses >= 0.0).all() and (losses <= 1.0).all() for losses in one.losses.values())
    assert {"fastcb", *actions.PEERS} == set(found[0].losses)
