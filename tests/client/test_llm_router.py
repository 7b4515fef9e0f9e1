"""The laws of the LLM router: it learns within its budget, each attempt is one round, and it answers without Wager.

LiteLLM pins other versions than the service, so the example has another environment (`make examples`).
"""

import json
import os
import re
import subprocess
import uuid
from collections import Counter
from operator import itemgetter
from pathlib import Path

import pytest

from tests.servers import free_port
from tests.service.wager import Wager as Service
from wager_client import Wager

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "examples" / "bin" / "python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no LiteLLM: `make examples` installs it")


def ran(script: str, *arguments: str) -> str:
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("client", "examples"))
    command = [str(PYTHON), str(ROOT / script), *arguments]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def table(output: str) -> dict[str, tuple[float, float]]:
    """Read the quality and the cost of each line."""
    rows = re.findall(r"^(.+?) +quality (\S+)  cost (\S+)", output, re.MULTILINE)
    return {name: (float(quality), float(cost)) for name, quality, cost in rows}


def test_it_learns_and_keeps_its_budget(running: Service) -> None:
    """It answers better than any fixed mix of models does for the budget, 0.35, which it exceeds by 5 % at most.

    The users are fixed, the draws are not. In 24 runs, the quality was 0.817 on average, with a standard deviation of
    0.018, where the mix has 0.696; and the cost 0.346, with 0.003. So both limits are 6 standard deviations away, and
    chance alone exceeds them in less than one of a million runs.
    """
    output = ran("examples/llm_router/program.py", "--url", running.url, "--rounds", "600")
    (quality, cost), (of_medium, medium), (of_large, large) = itemgetter("all", "only medium", "only large")(
        table(output)
    )
    share = (0.35 - medium) / (large - medium)
    assert quality > (1.0 - share) * of_medium + share * of_large
    assert cost < 1.05 * 0.35
    assert "defaults: 0" in output


def test_each_attempt_is_a_round_of_the_deployment_that_was_called(running: Service) -> None:
    """With retries, fallbacks, streams and without asyncio. A deployment that fails earns 0, and cools down."""
    model = f"calls-{uuid.uuid4().hex[:8]}"
    called = json.loads(ran("tests/client/llm_router_calls.py", running.url, model))
    failing = {"bad", "worse", "worst", "poor"}
    assert called.count("worse") == called.count("worst") == called.count("poor") == 1
    assert called.count("bad") <= 1
    assert len([name for name in called if name not in failing]) == 32
    with Wager(running.url) as wager:
        rounds = Counter((one.label, one.raw["reward"]) for one in wager.rounds(model))
    assert rounds == Counter((name, 0.0 if name in failing else 0.75) for name in called)


def test_without_wager_the_default_answers() -> None:
    output = ran("examples/llm_router/program.py", "--url", f"http://127.0.0.1:{free_port()}", "--rounds", "20")
    assert "defaults: 20" in output
    assert re.search(r"^all .* small 100%", output, re.MULTILINE)
