"""Standardises columns of numbers, so that the units of a file do not decide which learner is best."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from learners.base import FloatArray

MOST_RATIO = 10.0  # by default, columns whose scales have a greater ratio are standardised

Column: TypeAlias = list[Any]
"""JSON values, one per row; None for a missing value."""


class Scale(NamedTuple):
    """The numbers that standardise a column: z = (x - mean) / deviation."""

    mean: float
    deviation: float  # > 0; 1 for a constant column


def scale_ratio(columns: Iterable[Column]) -> float:
    """Return the ratio of the largest to the smallest scale of the columns of numbers, at least 1.

    A column's scale is its root mean square. An indicator, which has only 0 and 1, has the scale 1, however rare the 1.
    Columns of zeros have no scale, and a file without scales has the ratio 1.
    """
    found = [_scale(numbers) for column in columns if (numbers := _numbers(column)) is not None and numbers.any()]
    return max(found) / min(found) if found else 1.0


def _scale(numbers: FloatArray) -> float:
    largest = float(np.abs(numbers).max())
    return 1.0 if _is_indicator(numbers) else largest * math.sqrt(float(np.mean((numbers / largest) ** 2)))


def scales_of(columns: Mapping[str, Column]) -> dict[str, Scale]:
    """Return the `Scale` of each column of numbers, except indicators, which have no units."""
    found = {name: _numbers(column) for name, column in columns.items()}
    return {
        name: _scale_of(numbers)
        for name, numbers in found.items()
        if numbers is not None and not _is_indicator(numbers)
    }


def _scale_of(numbers: FloatArray) -> Scale:
    largest = float(np.abs(numbers).max()) or 1.0  # avoids overflow in squares
    deviation = 0.0 if numbers.min() == numbers.max() else float((numbers / largest).std()) * largest
    return Scale(float((numbers / largest).mean()) * largest, deviation or 1.0)  # the deviation may round to 0


def standardised(columns: Mapping[str, Column], scales: Mapping[str, Scale]) -> dict[str, Column]:
    """Return all columns. Those that have a scale are standardised."""
    return {name: _standardised(column, scales.get(name)) for name, column in columns.items()}


def _standardised(column: Column, scale: Scale | None) -> Column:
    if scale is None:
        return column
    return [None if value is None else (value - scale.mean) / scale.deviation for value in column]


def _numbers(column: Column) -> FloatArray | None:
    """Return the present numbers of a column; None if it has other values, or no values."""
    present = [value for value in column if value is not None]
    if not present or not all(type(value) in {int, float} and abs(value) < math.inf for value in present):
        return None
    return np.array(present, np.float64)


def _is_indicator(numbers: FloatArray) -> bool:
    return bool(np.isin(numbers, (0.0, 1.0)).all())
