"""Converts labelled files to examples, with contexts as a model of the service would have them."""

import hashlib
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pydantic

from learners.base import Contexts
from learners.estimators.runs import Examples
from service.contexts.registry import Features, context_kind
from service.errors import WagerError
from service.json_values import JsonObject
from toolkit.compare.standardising import MOST_RATIO, Scale, scale_ratio, scales_of, standardised
from toolkit.files.columns import no_column
from toolkit.files.lines import FileError, read_lines
from toolkit.files.parquet import check_feature_types
from toolkit.files.rows import listed
from toolkit.files.tables import Table, is_parquet, read_table, suffix_of


class SparseRows(NamedTuple):
    """Labels and sparse features, with the indices that the file has."""

    labels: list[str]
    contexts: Contexts
    size: int  # the largest index + 1


def read_svmlight(path: Path) -> SparseRows:
    """Read lines with a label and `index:value` pairs. Ignore `qid:` pairs and text after `#`."""
    labels: list[str] = []
    lengths: list[int] = []
    indices: list[int] = []
    values: list[float] = []
    for number, line in read_lines(path):
        label, *pairs = line.partition("#")[0].split() or [""]
        if not label:
            continue
        if ":" in label or "," in label:
            raise FileError(path, f"line {number}", f"must begin with a single label, not {label[:60]!r}")
        entries = [_pair(path, number, pair) for pair in pairs if not pair.startswith("qid:")]
        if len(dict(entries)) != len(entries):
            raise FileError(path, f"line {number}", "an index occurs twice")
        labels.append(label)
        lengths.append(len(entries))
        indices += [index for index, _ in entries]
        values += [value for _, value in entries]
    if not indices:
        raise FileError(path, "", "has no rows with features")
    return SparseRows(labels, Contexts.sparse(lengths, indices, values), max(indices) + 1)


def _pair(path: Path, number: int, pair: str) -> tuple[int, float]:
    index, colon, value = pair.partition(":")
    try:
        entry = int(index), float(value)
    except ValueError:
        entry = -1, math.nan
    if not colon or not 0 <= entry[0] < 2**31 or not math.isfinite(entry[1]):
        reason = f"got {pair[:60]!r}; must be index:value, with an index from 0 to 2³¹ - 1"
        raise FileError(path, f"line {number}", reason)
    return entry


class Wish(NamedTuple):
    """How to read a table."""

    label: str | None = None
    categorical: Collection[str] = ()  # columns whose numbers are categories
    drop: Collection[str] = ()
    kind: str = "auto"  # or dense, or named
    size: int = 2**18  # the number of indices to which named features are hashed
    has_header: bool = True
    standardise: bool | None = None  # None: only if column scales differ by more than `MOST_RATIO`


class Data(NamedTuple):
    """The examples of a file, and the `features` field of a model definition that fits them."""

    examples: Examples
    features: JsonObject
    digest: str  # of the examples
    ratio: float  # the largest scale of a column, divided by the smallest; 1 for svmlight
    scales: dict[str, Scale]  # of the columns that are standardised


def read_data(path: Path, wish: Wish) -> Data:
    """Read labelled examples from svmlight (`.svm`, `.svmlight` or `.libsvm`), Parquet, or otherwise CSV or TSV.

    Text files may be compressed. Raises `FileError`.
    """
    if suffix_of(path) in {".svm", ".svmlight", ".libsvm"}:
        if wish.standardise:
            raise FileError(path, "", "has no columns, as it is svmlight; --standardise is for tables")
        sparse = read_svmlight(path)
        features: JsonObject = {"kind": "sparse", "size": sparse.size}
        return Data(*_examples(path, sparse.contexts, sparse.labels, sparse.size, features), 1.0, {})
    table = read_table(path, wish.has_header)
    if wish.label is None:
        raise FileError(path, "", f"--label is missing; its columns are {listed(table.names)}")
    for option, given in ("label", [wish.label]), ("categorical", wish.categorical), ("drop", wish.drop):
        for name in given:
            if name not in table.names:
                raise FileError(path, "", f"{no_column(name, table.names)} (--{option})")
    labels = _labels(path, table, wish.label)
    names = [name for name in table.names if name != wish.label and name not in wish.drop]
    if not names:
        raise FileError(path, "", "no column is left for features")
    if is_parquet(path):
        check_feature_types(path, names)
    typed = {name: _typed(table.column(name), name in wish.categorical) for name in names}
    is_numeric = all(_is_number(value) for column in typed.values() for value in column)
    ratio = scale_ratio(typed.values())
    is_scaled = ratio > MOST_RATIO if wish.standardise is None else wish.standardise
    scales = scales_of(typed) if is_scaled else {}
    typed = standardised(typed, scales)
    if wish.kind == "dense" or (wish.kind == "auto" and is_numeric):
        contexts, size = Contexts.dense(_matrix(path, table, typed)), len(names)
        features = {"kind": "dense", "size": size}
    else:
        contexts, size = _named(path, table, typed, wish.size), wish.size
        features = {"kind": "named"} | ({"size": size} if size != 2**18 else {})
    return Data(*_examples(path, contexts, labels, size, features), ratio, scales)


def _examples(
    path: Path, contexts: Contexts, labels: Sequence[str], n_features: int, features: JsonObject
) -> tuple[Examples, JsonObject, str]:
    classes, places = np.unique(np.array(labels), return_inverse=True)
    if len(classes) < 2:
        raise FileError(path, "", f"all rows have the label {labels[0]!r}; at least 2 are needed")
    examples = Examples(contexts, places.astype(np.int64), n_features, tuple(classes.tolist()))
    parts = contexts.starts, contexts.indices, contexts.values, examples.labels
    digest = hashlib.sha256(repr((n_features, examples.classes)).encode())
    for part in parts:
        digest.update(part.tobytes())
    return examples, features, digest.hexdigest()


def _labels(path: Path, table: Table, name: str) -> list[str]:
    labels = []
    for place, value in zip(table.places, table.column(name), strict=True):
        text = _label(value)
        if text is None:
            raise FileError(path, place, f"{name}: got {value!r}; every row needs a label")
        labels.append(text)
    if (count := len(set(labels))) > max(2, len(labels) // 2):
        found = f"{count} different labels in {len(labels)} rows"
        raise FileError(path, "", f"{name}: has {found}; a label must be one of a few classes")
    return labels


def _label(value: object) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str() if str(value).strip():
            return str(value).strip()
        case float() if math.isfinite(value):
            return str(int(value)) if value == math.floor(value) else str(value)
    return None


def _typed(column: list[Any], is_categorical: bool) -> list[Any]:
    """Return a column as JSON values, with None for empty cells.

    A column of text becomes numbers if all cells that are not empty are numbers, unless it is categorical.
    """
    given = [None if value == "" else value for value in column]
    if is_categorical:
        return [None if value is None else _label(value) for value in given]
    if not all(value is None or isinstance(value, str) for value in given):
        return given
    numbers = [_number(value) for value in given]
    is_text = any(number is None and value is not None for number, value in zip(numbers, given, strict=True))
    return given if is_text else numbers


def _number(value: str | None) -> float | None:
    try:
        number = math.nan if value is None else float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _matrix(path: Path, table: Table, typed: dict[str, list[Any]]) -> Any:
    for name, column in typed.items():
        for place, value in zip(table.places, column, strict=True):
            if not _is_number(value) or not math.isfinite(value):
                shown = "nothing" if value is None else repr(value)
                raise FileError(path, place, f"{name}: got {shown}; dense features need a finite number")
    return np.array(list(typed.values()), dtype=np.float64).T


def _named(path: Path, table: Table, typed: dict[str, list[Any]], size: int) -> Contexts:
    """Hash the rows as the service hashes named features. Missing values are left out."""
    kind = context_kind(pydantic.TypeAdapter[Features](Features).validate_python({"kind": "named", "size": size}))
    checked = []
    for place, row in zip(table.places, zip(*typed.values(), strict=True), strict=True):
        context = {name: value for name, value in zip(typed, row, strict=True) if value is not None}
        try:
            checked.append(kind.check(context))
        except WagerError as error:
            raise FileError(path, place, f"{error.field}: {error.detail}") from error
    return kind.to_batch(checked)
