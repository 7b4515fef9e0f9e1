"""Reads the rows of CSV files, and of those with tabs."""

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from service.files.errors import FileError
from service.files.lines import MOST_LINE_BYTES, raw_lines

_PACKED = {".gz", ".xz", ".bz2"}


def suffix_of(path: Path) -> str:
    """Return the suffix of a file without that of its compression, in lower case."""
    inner = path.with_suffix("") if path.suffix.lower() in _PACKED else path
    return inner.suffix.lower()


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the values of each row that is not empty, with the number of its first line.

    Commas separate them, or tabs if the suffix is `.tsv`. Quoted values may contain line breaks.

    Raises:
        FileError: if the file is damaged, or a row has another number of values than the first one.
    """
    csv.field_size_limit(MOST_LINE_BYTES)
    delimiter = "\t" if suffix_of(path) == ".tsv" else ","
    lines, width = raw_lines(path), 0
    rest = (text for _, text in lines)
    for number, text in lines:
        if not text.strip(" \r\n"):
            continue
        values = _split_row(path, number, text, rest, delimiter)
        width = width or len(values)
        if len(values) != width:
            raise FileError(path, f"line {number}", f"has {len(values)} values; the first row has {width}")
        yield number, values


def _split_row(path: Path, number: int, text: str, rest: Iterator[str], delimiter: str) -> list[str]:
    if "\0" in text:
        raise FileError(path, f"line {number}", "has a null byte: it is not CSV")
    if '"' not in text:
        return text.rstrip("\r\n").split(delimiter)
    try:
        return next(csv.reader(chain([text], rest), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise FileError(path, f"line {number}", f"is not CSV: {error}") from None
