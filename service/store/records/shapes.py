"""The shape of a model's version 3 records, by which `lua/add_feedback_format_3.lua` detects damaged ones."""

from typing import NamedTuple


class RecordShape(NamedTuple):
    """The sizes of a model's version 3 records, and the answers they may contain."""

    kind: str  # of answer
    n_labels: int
    answer_bytes: int
    body_bytes: int  # without a sparse context
    sparse_features: int  # d; 0 for dense contexts
