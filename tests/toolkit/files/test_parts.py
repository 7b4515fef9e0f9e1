"""The laws of the parts of an exported log: missing rounds are known exactly, and damaged parts are refused."""

from pathlib import Path

import pytest

from tests.toolkit.files.test_readers import DENSE, MODEL, line, rounds
from toolkit.files.exported import SUFFIXES, Export, Hole, Lines
from toolkit.files.lines import FileError


def exported(folder: Path, format_: str, *parts: range) -> Export:
    """Write parts of these rounds."""
    labels = ["a"] * (format_ == "dsjson")
    export = Export(folder, format_, MODEL | {"labels": ["a", "b"]} if labels else MODEL)
    export.begin()
    for numbers in parts:
        export.write(Lines([line(number) for number in numbers], [None] * len(numbers)))
    return export


def part(folder: Path, first: int, format_: str) -> Path:
    """Return the path of a part."""
    return folder / f"part-{first:012}{SUFFIXES[format_]}"


@pytest.mark.parametrize("format_", SUFFIXES)
def test_holes_are_the_rounds_of_no_part(tmp_path: Path, format_: str) -> None:
    """A deleted part is a hole between its neighbours; rounds up to `after` are none."""
    export = exported(tmp_path, format_, range(1, 11), range(11, 21), range(21, 31), range(34, 36))
    assert export.begin() == [Hole(30, 33), Hole(35, None)]
    part(tmp_path, 11, format_).unlink()
    assert export.begin() == [Hole(10, 20), Hole(30, 33), Hole(35, None)]
    assert export.begin(15) == [Hole(15, 20), Hole(30, 33), Hole(35, None)]
    part(tmp_path, 1, format_).unlink()
    assert export.begin() == [Hole(0, 20), Hole(30, 33), Hole(35, None)]
    assert export.begin(40) == [Hole(40, None)]


@pytest.mark.parametrize("format_", SUFFIXES)
def test_damaged_parts_are_named(tmp_path: Path, format_: str) -> None:
    """A part that is cut, lacks bytes within, or has another one's name is refused, wherever it is."""
    export = exported(tmp_path, format_, range(1, 11), range(11, 21), range(21, 31))
    middle = part(tmp_path, 11, format_)
    whole = middle.read_bytes()
    half, third = len(whole) // 2 + 7, len(whole) // 3  # within lines
    other = part(tmp_path, 21, format_).read_bytes()
    within = whole[:50] + whole[60:] if format_ == "parquet" else b""  # in a value of a text, nothing tells it
    for damaged in (b"", whole[:half], whole[:-1], whole[:third] + whole[half:], within, other):
        middle.write_bytes(damaged)
        with pytest.raises(FileError, match="repeat the command") as refused:
            export.begin()
        assert str(middle) in str(refused.value)
        assert "\n" not in str(refused.value)
    middle.write_bytes(whole)
    assert export.begin() == [Hole(30, None)]


def test_a_part_cut_at_the_end_of_a_line_leaves_a_hole(tmp_path: Path) -> None:
    """The lines that are there are whole, and the others are written again."""
    export = exported(tmp_path, "ndjson", range(1, 11), range(11, 21), range(21, 31))
    lines = part(tmp_path, 11, "ndjson").read_bytes().splitlines(keepends=True)
    part(tmp_path, 11, "ndjson").write_bytes(b"".join(lines[:4]))
    assert export.begin() == [Hole(14, 20), Hole(30, None)]


def test_overlapping_parts_are_refused(tmp_path: Path) -> None:
    """Two parts with the same rounds are an error that names both."""
    export = exported(tmp_path, "ndjson", range(1, 11), range(11, 21))
    exported(tmp_path, "ndjson", range(15, 31))
    with pytest.raises(FileError, match=r"part-000000000015.ndjson: begins with round 15, but part-0+11.* round 20"):
        export.begin()


def test_parquet_is_cut(tmp_path: Path) -> None:
    """A Parquet file that lacks its end is refused, both as an input and as a part to continue after."""
    export = Export(tmp_path / "out", "parquet", MODEL)
    export.begin()
    cut = export.write(Lines([line(1)], [None]))
    cut.write_bytes(cut.read_bytes()[:-9])
    with pytest.raises(FileError, match="damaged"):
        rounds(cut, DENSE)
    with pytest.raises(FileError, match="delete it"):
        export.begin()


def test_dsjson_of_chosen_actions_is_refused(tmp_path: Path) -> None:
    """Without the other actions, a log with actions is no dsjson."""
    export = Export(tmp_path / "out", "dsjson", MODEL | {"labels": [], "actions": {}})
    export.begin()
    chosen = line(1, actions=[{"id": "b", "features": {}, "probability": None}], action_count=2)
    with pytest.raises(FileError, match="round 1: has only the chosen action"):
        export.write(Lines([chosen], [None]))
