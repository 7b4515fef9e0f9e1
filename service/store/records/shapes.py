"""What `lua/add_feedback_format_3.lua` knows of a model's records, to find damaged ones."""

from typing import NamedTuple


class RecordShape(NamedTuple):
    """The lengths of a model's records of version 3, and what answers they may hold."""

    kind: str  # of answer
    n_labels: int
    answer_bytes: int
    body_bytes: int  # without a sparse context
    sparse_features: int  # 0: contexts are dense
