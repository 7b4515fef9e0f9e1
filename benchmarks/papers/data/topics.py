"""Bags of words with a topic each, for up to hundreds of labels.

Each label has 20 keywords at random among the words, so that labels share words. A document has 30 draws of words. Each
draw is a keyword of its label with probability 0.4 by default, and otherwise a word by Zipf's law. The values are the
square roots of the counts, scaled to norm 1.
"""

import numpy as np

from learners.base import Contexts, FloatArray, IntArray

N_WORDS = 2000
_KEYWORDS, _DRAWS = 20, 30


def documents_of_topics(
    n: int, seed: int, chunk: int, shares: FloatArray, noise: float, own_share: float = 0.4
) -> tuple[Contexts, IntArray]:
    """Generate n documents and their labels; the first m of n documents do not depend on n.

    Args:
        n: rounds.
        seed: decides the keywords and the documents.
        chunk: index of the chunk.
        shares: (K,), the probability of each label.
        noise: probability that a label is replaced by a uniform one.
        own_share: probability that a word is a keyword of the label.
    """
    K = len(shares)
    keywords = np.random.default_rng([seed, 5, K]).integers(0, N_WORDS, (K, _KEYWORDS))
    uniforms = np.random.default_rng([seed, 6, chunk]).random((n, 3 + 2 * _DRAWS))
    topics = np.searchsorted(np.cumsum(shares)[:-1], uniforms[:, 0], side="right")
    own = keywords[topics[:, None], (uniforms[:, 3 : 3 + _DRAWS] / own_share * _KEYWORDS).astype(np.int64) % _KEYWORDS]
    words = np.where(uniforms[:, 3 : 3 + _DRAWS] < own_share, own, _generic(uniforms[:, 3 + _DRAWS :]))
    labels = np.where(uniforms[:, 1] < noise, (uniforms[:, 2] * K).astype(np.int64), topics)
    return _bags(words), labels


def zipf(n: int) -> FloatArray:
    """Return n probabilities proportional to 1, 1/2, … 1/n."""
    weights = 1.0 / np.arange(1, n + 1)
    return np.asarray(weights / weights.sum())


def _generic(uniforms: FloatArray) -> IntArray:
    return np.searchsorted(np.cumsum(zipf(N_WORDS))[:-1], uniforms, side="right")


def _bags(words: IntArray) -> Contexts:
    """Return rows of words (n, draws) as bags of norm 1."""
    n = len(words)
    cells, counts = np.unique(words + N_WORDS * np.arange(n)[:, None], return_counts=True)
    lengths = np.bincount(cells // N_WORDS, minlength=n)
    return Contexts.sparse(lengths, cells % N_WORDS, np.sqrt(counts / _DRAWS))
