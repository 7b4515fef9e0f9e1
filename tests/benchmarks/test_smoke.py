"""The benchmarks run at their smallest sizes, and quick ratios are close to the tables of benchmarks/results.

It compares only ratios of two measurements from the same run, because those carry over to other machines. It allows a
factor of three, so it detects a path that became several times slower than its baseline. All sections but the fastest
are slow.
"""

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from benchmarks.log_filler import BATCH, environment, fill, fold, open_session
from benchmarks.measurements.hot import MODEL, play
from benchmarks.sections import SECTIONS
from benchmarks.server import Server
from benchmarks.traffic import create_model
from tests.service.wager import Wager

_ROOT = Path(__file__).parents[2]
COMPARED = ("fold", "simulation", "http", "batches")
QUICK = [name for name, section in SECTIONS.items() if section.quick]
LOOKS = 3  # at most


@pytest.mark.parametrize(
    "section", [name if name == "fold" else pytest.param(name, marks=pytest.mark.slow) for name in QUICK]
)
def test_a_quick_run_prints_a_table(section: str) -> None:
    """A ratio far from the table must be so in every look, because machines are busy."""
    command = [sys.executable, "-m", "benchmarks", section, "--quick", "--compare"]
    for _ in range(LOOKS):
        look = subprocess.run(command, cwd=_ROOT, capture_output=True, check=False, encoding="utf-8")
        assert section in look.stdout, look.stderr
        if look.returncode == 0 or section not in COMPARED:
            return
    pytest.fail(look.stderr)


async def test_the_load_and_the_filler_make_rounds(live: Wager) -> None:
    """Each context is played to its end, and a filled history is one that a model can continue."""
    server = Server((live.port, live.port), (live.pid,), live.store_url, 0)
    create_model(server, MODEL, algorithm="gaptron")
    await play(server, 90, seed=1)
    async with environment(server) as world:
        session = await open_session(world, MODEL)
        await fill(world, session, 2 * BATCH)
        await fold(session)
        assert session.replica.round_count == 90 + 2 * BATCH
    model = httpx2.get(f"{live.url}/models/{MODEL}").json()
    assert (model["rounds_seen"], model["predictions"] >= 90) == (90 + 2 * BATCH, True)
    assert BATCH // 2 < model["correct"] < model["rounds_seen"]
