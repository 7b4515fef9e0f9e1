"""The law of the runbook: its calls of the service can be pasted, and a service accepts them."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service.sample_models import definition, some_contexts
from tests.service.threads import Served

BOOK = (Path(__file__).parents[3] / "docs/guides/runbook.md").read_text()
PREFACE, *SECTIONS = re.split(r"^## \w+$", BOOK, flags=re.MULTILINE)
NAMES = re.findall(r"^## (\w+)$", BOOK, re.MULTILINE)


def commands_in(text: str) -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]


def calls(section: str) -> list[str]:
    """Return the calls of a section, without the filters of their answers."""
    parts = [part.strip() for line in commands_in(section) for part in line.partition(" | ")[0].split("; ")]
    return [part for part in parts if part.startswith(("api ", "change "))]


def play(client: httpx2.Client, model: str) -> None:
    body: dict[str, Any] = definition(model, learner="soba")
    client.post("/models", json=body).raise_for_status()
    made = client.post("/predict/batch", json={"model": model, "contexts": some_contexts(1, 3)}).raise_for_status()
    given = [{"prediction_id": each["prediction_id"], "correct": True} for each in made.json()["predictions"]]
    client.post("/feedback/batch", json={"feedback": given}).raise_for_status()


@pytest.mark.parametrize(("name", "section"), list(zip(NAMES, SECTIONS, strict=True)), ids=NAMES)
def test_the_calls_of_a_section_succeed(live: Served, name: str, section: str) -> None:
    if not (found := calls(section)):
        pytest.skip("it has no calls")
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        play(client, name)
    values = f"URL={live.url} MODEL={name} KEY="
    functions = [line for line in commands_in(PREFACE) if re.match(r"\w+\(\)", line)]
    script = "\n".join(["set -e", values, *functions, *found])
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr


def test_no_section_advises_to_create_a_model_for_what_can_be_changed() -> None:
    """Windows, retention and learners change live: creating the model again would lose its rounds."""
    assert not re.search(r"create (?:a |the |new )*models?\b(?! with the settings)", BOOK, re.IGNORECASE)
