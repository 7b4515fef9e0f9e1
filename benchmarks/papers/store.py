"""Finished runs: a small JSON file each, under its parameters' name. What is there is never played again."""

import json
import os
from pathlib import Path

from benchmarks.papers.runs import Outcome, Run, play
from benchmarks.papers.versions import name_of


def path_of(folder: Path, run: Run) -> Path:
    """Where a run's outcome is kept, or will be."""
    return folder / "runs" / name_of(run)


def load(folder: Path, run: Run) -> Outcome:
    """The outcome of a finished run."""
    kept = json.loads(path_of(folder, run).read_text())
    return Outcome(kept["checkpoints"], kept["mistakes"], kept["seconds"])


def play_and_keep(path: Path, run: Run) -> None:
    """Plays a run and keeps its outcome, whole or not at all."""
    outcome = play(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    unfinished.write_text(json.dumps({"run": run._asdict(), **outcome._asdict()}))
    unfinished.replace(path)
