"""Labels in requests."""

from typing import Annotated

from pydantic import StringConstraints
from pydantic_core import PydanticCustomError

from service.wording.values import quoted, shown

Label = Annotated[str, StringConstraints(min_length=1, max_length=256)]

MOST_LABELS = 100_000
"""Maximum labels of a model, retired ones included."""


def several(labels: list[str]) -> list[str]:
    """Check that there are two labels or more, and that they differ; return them.

    Raises:
        PydanticCustomError: of type `too_few_labels` or `duplicate_labels`.
    """
    if len(labels) < 2:
        message = "got {given}; a model needs at least 2 labels"
        raise PydanticCustomError("too_few_labels", message, {"given": shown(labels)})
    return unique(labels)


def unique(labels: list[str]) -> list[str]:
    """Check that labels differ; return them.

    Raises:
        PydanticCustomError: of type `duplicate_labels`.
    """
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            message = "got {label} twice; must be unique"
            raise PydanticCustomError("duplicate_labels", message, {"label": quoted(label)})
        seen.add(label)
    return labels
