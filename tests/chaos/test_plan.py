"""A plan records each stage when it ends, goes on where it was interrupted, and counts what is outside the limits."""

from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.faults.fault import MissedError
from tests.chaos.plan import HOUR, Record, Stage, carry_out
from tests.chaos.playing import Length, inject
from tests.chaos.world import Report

FAULTS = Counter({"killed worker": 3, "killed store": 2, "cut": 1})


class Played:
    """A run that only counts how often it was made, and that loses one round."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    async def __call__(self, _: Path, length: Length) -> tuple[Report, Counter[str]]:
        """Make the run."""
        self.seeds.append(length.seed)
        return Report(10, 10, ["0-1"], [], [], Counter()), FAULTS


async def break_off(*_: object) -> tuple[Report, Counter[str]]:
    """Fail, as a run does whose service does not return."""
    raise TimeoutError("not within 60 s")


def test_a_plan_goes_on_where_it_was_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stages in the record are not run again, their rows are; another seed or share runs them again."""
    played = Played()
    stages = [Stage("first", 1.0, played), Stage("second", 1.0, played)]
    before = carry_out(stages[:1], 5, 1.0, tmp_path / "record.json")
    after = carry_out(stages, 5, 1.0, tmp_path / "record.json")
    assert played.seeds == [5, 6]
    assert after[0] == before[0] == Record(tmp_path / "record.json").rows[0]
    carry_out(stages, 5, 0.5, tmp_path / "record.json")
    assert played.seeds == [5, 6, 5, 6]
    assert "| all | 2 | 5 | 20 | 20 | 6 | 4 | 2 | 0 | 2 | 2 cut, 4 killed store, 6 killed worker |" in (
        capsys.readouterr().out
    )


def test_losses_are_violations_unless_the_limits_allow_them() -> None:
    """A lost round is a violation in a stage that may lose nothing, and only counted in another."""
    rows = carry_out([Stage("strict", 1.0, Played()), Stage("lax", 1.0, Played(), may_lose=True)], 1, 1.0, None)
    assert [(row.lost, row.violations) for row in rows] == [(1, ["0-1 is lost"]), (1, [])]


def test_a_stage_that_breaks_off_is_a_violation() -> None:
    """A stage that fails is a violation, and the next one still runs."""
    played = Played()
    rows = carry_out([Stage("broken", 1.0, break_off), Stage("next", 1.0, played, may_lose=True)], 1, 1.0, None)
    assert ["broke off" in line for line in rows[0].violations] == [True]
    assert played.seeds == [2]
    assert rows[1].violations == []


def test_the_hour_is_an_hour() -> None:
    """The stages of the hour last an hour, and differ in name, because the record names them."""
    assert sum(stage.seconds for stage in HOUR) == 3600.0
    assert len({stage.name for stage in HOUR}) == len(HOUR)


class OverError(Exception):
    """Ends the faults."""


async def test_a_fault_that_misses_is_not_counted() -> None:
    """A fault without anything to harm is not counted, and the others follow."""
    injected = Counter[str]()

    async def miss() -> None:
        raise MissedError

    async def hit() -> None:
        if injected["hitting"] == 3:
            raise OverError

    with pytest.raises(OverError):
        await inject({"missing": miss, "hitting": hit}, Length(60.0, 1, pauses=(0.0, 0.0)), injected)
    assert injected == Counter(hitting=3)
