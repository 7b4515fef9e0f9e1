"""The precision of the numbers of contexts."""

from array import array
from math import isfinite
from typing import Annotated, Any, Literal

from pydantic import Field

from service.contexts.kind import ContextKind
from service.input_errors import NotFiniteError
from service.wording.values import shown

Precision = Annotated[
    Literal["float64", "float32"],
    Field(
        description="With `float32`, each number of a context is rounded to single precision when it is read, and "
        "stored in half the bytes. The log shows the rounded numbers. Models with actions need `float64`.",
    ),
]

NUMBERS = {"float64": "<f8", "float32": "<f4"}
"""The dtype of a stored number."""

_LARGEST = 3.4e38  # of float32, approximately


def rounded(kind: ContextKind[Any], context: Any) -> list[float]:
    """Return the numbers of a checked context in single precision.

    Raises:
        NotFiniteError: if one is too large for it; names the entry.
    """
    given = kind.numbers(context)
    numbers = array("f", given).tolist()
    if isfinite(sum(numbers)):  # faster than each number
        return numbers
    position = [isfinite(number) for number in numbers].index(False)
    feature, field = kind.entry(context, position)
    limits = f"must be between -{_LARGEST:g} and {_LARGEST:g}, as the model's features have the precision float32"
    raise NotFiniteError(f"got {shown(given[position])} for feature {feature}; {limits}", field)
