"""Runs the Locust file, if Locust is installed."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.service.wager import Wager

LOCUST = os.environ.get("LOCUST") or shutil.which("locust")
FILE = Path(__file__).parents[3] / "benchmarks" / "locustfile.py"


@pytest.mark.skipif(LOCUST is None, reason="no locust on the PATH, nor named by LOCUST")
def test_the_locust_file_runs(live: Wager) -> None:
    """Two users make predictions and give feedback for two seconds, without failures."""
    assert LOCUST is not None
    options = ["--headless", "-u", "2", "-r", "2", "-t", "2s", "--json", "--skip-log", "--host", live.url]
    ended = subprocess.run(
        [LOCUST, "-f", str(FILE), *options], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
    rows = {row["name"]: row for row in json.loads(ended.stdout)}
    assert rows["/predict"]["num_requests"] > 0
    assert rows["/feedback"]["num_requests"] > 0
    assert all(row["num_failures"] == 0 for row in rows.values())
