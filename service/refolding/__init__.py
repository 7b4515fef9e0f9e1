"""The distributions of a log, recomputed by folding it again."""
