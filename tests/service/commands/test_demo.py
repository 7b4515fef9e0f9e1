"""The laws of `wager demo`."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from service.__main__ import app
from tests.servers import free_port
from tests.service.wager import Wager
from toolkit import demo

KEY = "wk_000000000000_" + "0" * 64


@pytest.fixture(autouse=True)
def _isolated_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Point the demo to an unused port, and its temporary files to the test's folder."""
    monkeypatch.setattr(demo, "DEFAULT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def share_of(row: str, printed: str) -> float:
    """Return the percentage in a row of the printed table."""
    found = re.search(rf"{row} *│ *([0-9.]+)%", printed)
    assert found, printed
    return float(found[1])


def names(url: str) -> list[str]:
    """Return the names of the models of a service."""
    return [model["name"] for model in httpx2.get(f"{url}/models").json()["models"]]


def test_the_demo_model_beats_every_single_label(
    live: Wager, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--url` the model at that service beats every single label."""
    monkeypatch.setattr(demo, "_CLASSES", 3)  # learned in few rounds, whatever the random draws
    demo.run(live.url, 800, 1)
    printed = capsys.readouterr().out
    assert f"Service    {live.url}\n" in printed
    assert share_of("all rounds", printed) > share_of("always the best label", printed)
    assert len(re.findall(r"\d+ to \d+ ", printed)) == 10
    assert "1600 requests in" in printed


def test_the_demo_keeps_its_model_and_says_how_to_delete_it(live: Wager, capsys: pytest.CaptureFixture[str]) -> None:
    """Each run adds a model; it prints where the dashboard shows it, and a command that deletes it."""
    commands = []
    for url, key in ((live.url, None), (f"{live.url}/", KEY)):
        demo.run(url, 10, 1, key)
        printed = capsys.readouterr().out
        (own,) = re.findall(rf"dashboard at {live.url}/#/models/(\S+)\n", printed)
        (command,) = re.findall(r"Delete it with: (curl .*)\n", printed)
        assert own in names(live.url)
        assert ("$WAGER_API_KEY" in command, KEY in printed) == (key is not None, False)
        commands.append(command)
    assert len(names(live.url)) == len(commands)
    for command in commands:
        subprocess.run(["sh", "-c", command], env=os.environ | {"WAGER_API_KEY": KEY}, check=True, capture_output=True)
    assert names(live.url) == []


def test_the_demo_starts_a_service_and_leaves_nothing(tmp_path: Path) -> None:
    """Without a running service `wager demo` starts one, and removes the service and its data at the end."""
    result = CliRunner().invoke(app, ["demo", "--rounds", "20"])
    assert result.exit_code == 0, result.output
    found = re.search(r"Service {4}(http:\S+), started for this demonstration\n", result.stdout)
    assert found, result.stdout
    assert "40 requests in" in result.stdout
    assert "curl" not in result.stdout  # the model is gone
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(found[1])


def test_an_unreachable_service_is_named() -> None:
    """`wager demo --url` ends with code 1 and one line if no service answers."""
    result = CliRunner().invoke(app, ["demo", "--url", demo.DEFAULT_URL])
    assert result.exit_code == 1
    assert result.stderr == f"wager: no service is ready at {demo.DEFAULT_URL}\n"


def test_examples_depend_on_the_seed_only() -> None:
    """Equal seeds give equal contexts, of length 1, and labels; different seeds give different ones."""
    first, again, other = (list(demo.examples(50, seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert all(sum(number**2 for number in context) == pytest.approx(1.0) for context, _ in first)
