"""Commands leave no process running, and their output ends with them, whatever ends them."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import joblib
import pytest

from learners.estimators.processes import Processes
from tests.servers import wait_until
from tests.service.commands.test_compare import as_csv

SECONDS = 250.0  # within the limit of a test


def start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "service", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def left(session: int) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, its_session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found.append((folder / "cmdline").read_text().replace("\0", " ").strip())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def ended(command: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    try:
        output, _ = command.communicate(timeout=SECONDS)
        wait_until(lambda: not left(command.pid), SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)
    return command.returncode, output


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, signal.SIGINT, signal.SIGTERM))]
)
def test_a_comparison_in_processes_leaves_none(tmp_path: Path, number: int) -> None:
    file, kept = tmp_path / "a.csv", tmp_path / "runs.jsonl"
    file.write_bytes(as_csv())
    size = ("--seeds", "9999", "--rounds", "20000") if number else ("--seeds", "2")
    options = ("--label", "answer", "--learners", "uniform", "--jobs", "2", "--resume", str(kept))
    command = start("compare", str(file), *size, *options)
    if number:
        wait_until(lambda: kept.exists() and kept.read_bytes().count(b"\n") > 2, SECONDS)
        assert len(left(command.pid)) >= 3
        os.kill(command.pid, number)
    code, output = ended(command)
    assert (code == 0, b"Use uniform" in output) == (number == 0, number == 0)


def process_of(_: int) -> int:
    return os.getpid()


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_processes_end_with_their_context() -> None:
    """Unless joblib had them before."""
    with Processes(2) as processes:
        found = set(processes.map(process_of, range(8)))
    assert os.getpid() not in found
    assert not any(map(runs, found))
    kept = set(joblib.Parallel(n_jobs=2)(joblib.delayed(process_of)(n) for n in range(8)))
    with Processes(2) as processes:
        assert set(processes.map(process_of, range(8))) <= kept
    assert all(map(runs, kept))
