"""What the store's scripts know of a model's records, to tell damaged ones."""

from typing import NamedTuple


class RecordShape(NamedTuple):
    """The lengths of a model's records, and what answers they may hold."""

    kind: str  # of answer
    n_labels: int
    answer_bytes: int
    body_bytes: int  # without a sparse context
    sparse_features: int  # 0: contexts are dense
