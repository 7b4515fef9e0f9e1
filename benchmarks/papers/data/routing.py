"""Prompts with the rewards of several language models, as hashed words or as dense vectors.

A file has one JSON object per line: `prompt`, `source` (the benchmark) and `rewards` (one per model, in [0, 1]).
RouteLLM: Ong et al. 2024; ParetoBandit: https://github.com/ParetoBandit/ParetoBandit.
"""

import gzip
import json
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.datasets import Examples
from learners.base import Contexts, FloatArray, IntArray

_WORDS, _VECTOR, _SEED = 4096, 384, 25


def routing_words(path: Path) -> Examples:
    """Read prompts as hashed words, with norm 1 and square roots of their counts, and a constant 1."""
    lines = _lines(path)
    bags = [np.unique(_hashes(line["prompt"]), return_counts=True) for line in lines]
    indices = np.concatenate([np.append(words, _WORDS) for words, _ in bags])
    values = np.concatenate([np.append(np.sqrt(counts / counts.sum()), 1.0) for _, counts in bags])
    return _examples(Contexts.sparse([len(words) + 1 for words, _ in bags], indices, values), lines, _WORDS + 1)


def prices_of(path: Path) -> FloatArray:
    """Return what each model's answer to each prompt cost, (n, K), in dollars; `costs` in the file."""
    return np.array([line["costs"] for line in _lines(path)], dtype=np.float64)


def routing_vectors(path: Path) -> Examples:
    """Read prompts as vectors of norm 1 in 384 dimensions, and a constant 1.

    An embedding model knows the subject of a prompt. To imitate that without a model, a vector is the sum of two random
    projections of norm 1: of the prompt's words and of the words in the name of its benchmark. Words are weighted by
    their inverse document frequency.
    """
    lines = _lines(path)
    parts = [_projected([_hashes(line[field]) for line in lines]) for field in ("prompt", "source")]
    vectors = _unit(np.sum(parts, axis=0))
    return _examples(Contexts.dense(np.column_stack([vectors, np.ones(len(vectors))])), lines, _VECTOR + 1)


def _projected(texts: Sequence[IntArray]) -> FloatArray:
    """Project weighted bags of words to dense rows of norm 1, (texts, 384)."""
    counts = np.array([np.bincount(words, minlength=_WORDS) for words in texts], dtype=np.float64)
    weights = np.log((1.0 + len(texts)) / (1.0 + (counts > 0.0).sum(axis=0))) + 1.0
    directions = np.random.default_rng(_SEED).standard_normal((_WORDS, _VECTOR))
    return _unit(np.sqrt(counts) * weights @ directions)


def _unit(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


def _hashes(text: str) -> IntArray:
    words = re.findall(r"[^\W_]+", text.lower())
    return np.array([zlib.crc32(word.encode()) % _WORDS for word in words], dtype=np.int64)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def _examples(contexts: Contexts, lines: Sequence[dict[str, Any]], n_features: int) -> Examples:
    rewards = np.array([line["rewards"] for line in lines], dtype=np.float64)
    return Examples(contexts, rewards.argmax(axis=1), rewards.shape[1], n_features, rewards)
