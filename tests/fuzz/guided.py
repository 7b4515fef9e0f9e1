"""Fuzzing guided by coverage, with atheris, one process for each target."""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.target import Target


def fuzz(targets: Sequence[Target], seconds: float) -> int:
    """Fuzz each target for its share of the time; return 1 if one fails. libFuzzer prints the number of runs."""
    failed = False
    for target in targets:
        child = os.fork()
        if child == 0:
            _fuzz(target, max(1, int(seconds / len(targets))))
        failed |= os.waitpid(child, 0)[1] != 0
    return int(failed)


def _fuzz(target: Target, seconds: int) -> None:
    """Fuzz one target; end the process."""
    import atheris  # type: ignore[import-untyped]

    folder = Path(tempfile.mkdtemp(prefix="wager-fuzz-"))
    for i, data in enumerate(target.intact):
        (folder / f"intact-{i}").write_bytes(data)

    def one(data: bytes) -> None:
        target.check(data)

    print(f"--- {target.name}", flush=True)
    limits = [f"-max_total_time={seconds}", "-max_len=20000", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={folder}/", str(folder)], one)
    atheris.Fuzz()
