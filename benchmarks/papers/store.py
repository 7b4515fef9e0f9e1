"""Finished runs: one small JSON file each, named by the parameters. A finished run is never played again."""

import json
import os
from pathlib import Path

from benchmarks.papers.runs import Outcome, Run, play
from benchmarks.papers.versions import name_of


def path_of(folder: Path, run: Run) -> Path:
    """Return the path of a run's outcome, whether or not it exists."""
    return folder / "runs" / name_of(run)


def load(folder: Path, run: Run) -> Outcome:
    """Load the outcome of a finished run."""
    kept = json.loads(path_of(folder, run).read_text())
    return Outcome(kept["checkpoints"], kept["losses"], kept["seconds"])


def play_and_keep(path: Path, run: Run) -> None:
    """Play a run and store its outcome atomically."""
    outcome = play(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    unfinished.write_text(json.dumps({"run": run._asdict(), **outcome._asdict()}))
    unfinished.replace(path)
