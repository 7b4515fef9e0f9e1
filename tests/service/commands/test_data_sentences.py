"""The laws of what `wager replay` and `wager export` say: to several clients, of parts, and when interrupted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner, Result

from service.__main__ import app
from tests.toolkit.files.test_readers import line

MODEL = {
    "name": "m", "created_at": "2026-01-01T00:00:00Z", "labels": ["a", "b"], "actions": None, "mode": "learning",
    "features": {"kind": "named", "size": 2**18}, "rounds_seen": 25, "changes": {"count": 0},
}  # fmt: skip

PLACE = {"changes": 0, "changes_seen": 0}


class Service:
    """Answers a command, and notes what it was asked."""

    def __init__(self, position: int = 0, ahead: int = 0) -> None:
        self.asked = list[str]()
        self.exists = True
        self._position, self._ahead = position, ahead  # rounds of the source, and of them those of faster clients
        self.interrupt_at = ""

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request."""
        path = f"{request.method} {request.url.path}"
        self.asked.append(path)
        if path == self.interrupt_at:
            raise KeyboardInterrupt
        match path:
            case "GET /models/m":
                missing = {"title": "t", "detail": "d", "type": "urn:wager:problem:model-not-found"}
                return httpx2.Response(200, json=MODEL) if self.exists else httpx2.Response(404, json=missing)
            case "GET /models/m/changes":
                return httpx2.Response(200, json={"count": 0, "definition": MODEL, "changes": [], "next_after": None})
            case "GET /models/m/imports":
                return httpx2.Response(200, json={"imports": [{"source": "s", "position": self._position}]})
            case "POST /models/m/rounds":
                return self._added(json.loads(request.content))
            case "GET /models/m/rounds":
                after, limit = (int(request.url.params[name]) for name in ("after", "limit"))
                lines = [json.dumps(line(n) | PLACE) + "\n" for n in range(after + 1, min(after + limit, 25) + 1)]
                return httpx2.Response(200, content="".join(lines))
        return httpx2.Response(201, json={})

    def _added(self, body: dict[str, Any]) -> httpx2.Response:
        end = body["offset"] + len(body["rounds"])
        new = max(0, end - max(self._ahead, body["offset"]))
        self._position = max(self._position, self._ahead, end)
        if self._position >= 20 and self.interrupt_at == "later":
            self.interrupt_at = "POST /models/m/rounds"
        return httpx2.Response(200, json={"imported": new, "position": self._position})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return what runs a command against a service."""

    def runs(service: Service, *words: str | Path) -> Result:
        client = lambda *_: httpx2.Client(base_url="http://service", transport=httpx2.MockTransport(service))  # noqa: E731
        monkeypatch.setattr(f"toolkit.{words[0]}.connect", client)
        return CliRunner().invoke(app, [str(word) for word in words])

    return runs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a file of 30 rounds."""
    path = tmp_path / "log.csv"
    path.write_text("f,label,propensity,reward\n" + "1,a,0.5,1\n" * 30)
    return path


REPLAY = ("--model", "m", "--source", "s", "--batch", "10")


def test_only_new_rounds_are_counted(run: Callable[..., Result], log: Path) -> None:
    """A client that is overtaken says how many rounds it imported, and how many are there."""
    found = run(Service(ahead=15), "replay", log, *REPLAY)
    assert found.stdout.startswith("15 rounds imported into m, ")
    assert "; 30 of 30 are there; source s" in found.stdout
    assert json.loads(run(Service(ahead=30), "replay", log, *REPLAY, "--json").stdout)["imported"] == 0


def test_a_part_of_a_file_is_there_as_a_part(run: Callable[..., Result], log: Path) -> None:
    """With --limit after a whole import, no more rounds are there than the command is about."""
    found = run(Service(position=30), "replay", log, *REPLAY, "--limit", "4")
    assert (found.exit_code, "0 rounds imported" in found.stdout, "; 4 of 4 are there" in found.stdout) == (
        0,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("GET /models/m", "nothing was sent"),
        ("POST /models/m/rounds", "0 rounds of source s are imported"),
        ("later", "20 rounds of source s are imported"),
    ],
)
def test_an_interrupted_import_says_its_position(run: Callable[..., Result], log: Path, at: str, said: str) -> None:
    """SIGINT ends the command with one line and 130."""
    service = Service()
    service.interrupt_at = at
    found = run(service, "replay", log, *REPLAY)
    end = f"wager: interrupted: {said}; repeat the command to continue"
    assert (found.exit_code, found.stderr.strip().splitlines()[-1]) == (130, end)


@pytest.mark.parametrize("format_", ["ndjson", "file.ndjson"])
def test_an_interrupted_export_says_what_is_written(
    run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    """Whole parts stay, and a repeated command writes the rest; a single file appears when it is complete."""
    monkeypatch.setattr("toolkit.remote.PAGE", 10)
    service, out = Service(), tmp_path / ("out" if format_ == "ndjson" else format_)
    words = (
        "export",
        "--model",
        "m",
        "--output",
        out,
        "--format",
        "ndjson",
        "--part-rounds",
        "10",
        "--no-distributions",
    )

    def third(request: httpx2.Request) -> httpx2.Response:
        if service.asked.count("GET /models/m/rounds") == 2:
            raise KeyboardInterrupt
        return service(request)

    found = run(third, *words)
    said = f"20 rounds are written to {out}" if format_ == "ndjson" else "nothing is written"
    assert (found.exit_code, found.stderr.strip()) == (
        130,
        f"wager: interrupted: {said}; repeat the command for the rest",
    )
    rest = json.loads(run(Service(), *words, "--json").stdout)
    assert rest["rounds"] == (5 if format_ == "ndjson" else 25)


@pytest.mark.parametrize(
    "bad", ["1,a,7,1", "1,a,1e-13,1", f"{'x' * 1025},a,0.5,1", "1,,0.5,1", "1,a,0.5,2", "1,a,0.5,1,1"]
)
def test_a_file_with_a_mistake_creates_no_model(run: Callable[..., Result], log: Path, bad: str) -> None:
    """With --create, the whole file is checked before the model is created."""
    service = Service()
    service.exists = False
    log.write_text(log.read_text() + bad + "\n")
    found = run(service, "replay", log, *REPLAY, "--create")
    assert (found.exit_code, "log.csv: line 32: " in found.stderr) == (1, True)
    assert not [each for each in service.asked if each.startswith("POST")]


def test_times_in_the_future_are_refused(run: Callable[..., Result], log: Path) -> None:
    """A time after now is named by its line, before anything is sent."""
    log.write_text(
        "f,label,propensity,reward,predicted_at\n1,a,0.5,1,2026-01-01T00:00:00Z\n1,a,0.5,1,2999-01-01T00:00:00Z\n"
    )
    service = Service()
    found = run(service, "replay", log, *REPLAY)
    assert "log.csv: line 3: got the time 2999-01-01T00:00:00Z; must be from 1970 to now" in found.stderr
    assert not [each for each in service.asked if each.startswith("POST")]
