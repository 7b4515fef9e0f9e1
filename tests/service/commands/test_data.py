"""The laws of `wager replay` and `wager export`, with a running service, and of what they say."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner, Result

from service.__main__ import app
from tests.service.threads import Served
from tests.toolkit.files.test_readers import line


def run(live: Served, *words: str) -> Any:
    result = CliRunner().invoke(app, [*words, "--url", live.url, "--json"])
    return json.loads(result.stdout) if result.exit_code == 0 else result.stderr.strip().splitlines()[-1]


def rows(n: int, offset: int = 0) -> str:
    return "".join(f"{i % 7},{i % 5},{'ab'[i % 2]},0.5,{i % 2}\n" for i in range(offset, offset + n))


HEADER = "x,y,label,propensity,reward\n"


def test_a_file_is_imported_once(live: Served, name: str, tmp_path: Path) -> None:
    path, model = tmp_path / "log.csv", f"{name}-csv"
    path.write_text(HEADER + rows(700))
    replay = ("replay", str(path), "--model", model)
    assert "has no model" in run(live, *replay) or "no model" in run(live, *replay)
    dry = run(live, *replay, "--create", "--dry-run")
    assert (dry["rounds"], dry["first"]["context"]) == (700, [0.0, 0.0])
    part = run(live, *replay, "--create", "--limit", "300", "--batch", "50")
    assert (part["imported"], part["position"]) == (300, 300)
    assert (run(live, *replay)["imported"], run(live, *replay)["imported"]) == (400, 0)
    with httpx2.Client(base_url=live.url) as client:
        described = client.get(f"/models/{model}").json()
        assert (described["rounds_seen"], described["correct"]) == (700, 350)
        assert described["features"]["size"] == 2
        path.write_text(HEADER + rows(600) + "1,2,a,7,1\n")
        assert "log.csv: line 602: propensity: got 7.0" in run(live, *replay)
        assert client.get(f"/models/{model}").json()["rounds_seen"] == 700


def test_a_refused_round_is_named_by_its_line(live: Served, name: str, tmp_path: Path) -> None:
    path, model = tmp_path / "log.csv", f"{name}-norm"
    features = {"kind": "dense", "size": 2, "norm": "reject", "norm_bound": 10.0}
    with httpx2.Client(base_url=live.url) as client:
        body = {"name": model, "labels": ["a", "b"], "features": features, "learner": "gaptron"}
        assert client.post("/models", json=body).status_code == 201
    path.write_text(HEADER + rows(120) + "1000,2,a,0.5,1\n" + rows(80))
    replay = ("replay", str(path), "--model", model, "--source", "may", "--batch", "50")
    refused = run(live, *replay)
    assert refused.startswith(f"wager: {path}: line 122: ")
    assert refused.endswith("100 rounds of source may are imported")
    path.write_text(HEADER + rows(120) + "10,2,a,0.5,1\n".replace("10", "1") + rows(80))
    assert run(live, *replay)["imported"] == 101


def test_an_export_fills_holes(live: Served, name: str, tmp_path: Path) -> None:
    path, model, out = tmp_path / "log.csv", f"{name}-holes", tmp_path / "out"
    path.write_text("x,y,label\n" + "".join(f"{i % 7},{i % 5},{'ab'[i % 2]}\n" for i in range(52)))
    assert run(live, "replay", str(path), "--model", model, "--create")["imported"] == 52
    words = ("export", "--model", model, "--output", str(out), "--part-rounds", "10")
    assert run(live, *words)["parts"] == 6
    read = pytest.importorskip("pyarrow.parquet").read_table
    known = read(out).sort_by("round").to_pylist()
    for deleted, parts in (((11, 31), 2), ((1,), 1), ((41, 51), 2), ((1, 11, 21, 31, 41), 5)):
        for first in deleted:
            (out / f"part-{first:012}.parquet").unlink()
        again = run(live, *words, "--part-rounds", "30" if len(deleted) == 1 else "10")
        assert (again["parts"], again["last_round"], again["missing"]) == (parts, 52, [])
        assert read(out).sort_by("round").to_pylist() == known
        assert run(live, *words)["rounds"] == 0
    (out / "part-000000000011.parquet").unlink()
    assert [run(live, *words, "--limit", "6")["rounds"] for _ in range(3)] == [6, 4, 0]
    damaged = out / "part-000000000021.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-99])
    refused = run(live, *words)
    assert f"{damaged}: is damaged" in refused
    assert refused.endswith("delete it, and repeat the command")


def vowpal_wabbit(*words: str) -> None:
    options = (
        ["--dsjson", "--quiet"]
        if "-i" in words
        else ["--cb_explore_adf", "--dsjson", "-q", "::", "--epsilon", "0.1", "--quiet"]
    )
    subprocess.run([sys.executable, "-m", "vowpalwabbit", *options, *words], check=True, timeout=60)


def test_vowpal_wabbit_learns_from_an_export(live: Served, name: str, tmp_path: Path) -> None:
    pytest.importorskip("vowpalwabbit")
    path, model, out = tmp_path / "log.csv", f"{name}-vw", tmp_path / "out.dsjson"
    lines = [f"{'ux'[i % 2]},{'ab'[k]},0.5,{int(i % 2 == k)}\n" for i in range(200) for k in [(i // 2) % 2]]
    path.write_text("who,label,propensity,reward\n" + "".join(lines))
    assert run(live, "replay", str(path), "--model", model, "--create")["imported"] == 200
    assert run(live, "export", "--model", model, "--format", "dsjson", "--output", str(out))["rounds"] == 200
    model_file, asked, chances = tmp_path / "vw.model", tmp_path / "asked.dsjson", tmp_path / "chances"
    vowpal_wabbit("--passes", "3", "--cache_file", str(tmp_path / "c"), "-d", str(out), "-f", str(model_file))
    decided = {"_label_cost": 0, "_label_probability": 0.5, "_label_Action": 1, "_labelIndex": 0, "a": [1, 2]}
    labels = {"_multi": [{"_tag": each, "label": {"label": each}} for each in "ab"]}
    shown = [{**decided, "p": [0.5, 0.5], "c": {"who": who, **labels}} for who in "ux"]
    asked.write_text("".join(json.dumps(each) + "\n" for each in shown))
    vowpal_wabbit("-t", "-i", str(model_file), "-d", str(asked), "-p", str(chances))
    found = [dict(pair.split(":") for pair in text.split(",")) for text in chances.read_text().split()]
    assert [float(found[0]["0"]) > 0.9, float(found[1]["1"]) > 0.9] == [True, True]
    again = run(live, "replay", str(out), "--model", f"{model}-again", "--create")
    assert (again["imported"], again["skipped"]) == (200, 0)


def test_the_suffix_names_the_format(live: Served, name: str, tmp_path: Path) -> None:
    """A suffix makes a file of this format, its absence a folder of Parquet; a wrong option has one line."""
    path = tmp_path / "log.csv"
    path.write_text(HEADER + rows(3))
    run(live, "replay", str(path), "--model", name, "--create")
    for suffix in ("ndjson", "dsjson", "parquet", ""):
        out = tmp_path / f"out.{suffix}".rstrip(".")
        assert run(live, "export", "--model", name, "--output", str(out))["format"] == (suffix or "parquet")
        assert out.is_file() == bool(suffix)
    export, odd = ("export", "--model", name, "--output"), str(tmp_path / "x.ndjson")
    for words, said in [
        ((*export, "x", "--format", "xml"), "--format: got 'xml'"),
        ((*export, str(tmp_path / "x.csv")), "a file must end with .parquet, .dsjson, .ndjson"),
        ((*export, str(tmp_path / "x.csv"), "--format", "ndjson"), "a new folder has no suffix"),
        ((*export, odd, "--format", "ndjson", "--follow"), "--follow: needs a folder"),
        ((*export, odd, "--format", "dsjson"), "has the suffix of ndjson"),
        (("replay", str(path), "--model", name, "--costs", "x"), "--costs: got 'x'"),
        (("replay", str(path), "--model", name, "--format", "xml"), "the format 'xml' is unknown"),
        (("replay", str(tmp_path / "none.csv"), "--model", name), "cannot be read"),
    ]:
        assert said in run(live, *words)


MODEL = {
    "name": "m", "created_at": "2026-01-01T00:00:00Z", "labels": ["a", "b"], "actions": None, "mode": "learning",
    "features": {"kind": "named", "size": 2**18}, "rounds_seen": 25, "changes": {"count": 0},
}  # fmt: skip
PLACE = {"changes": 0, "changes_seen": 0}


class Service:
    def __init__(self, position: int = 0, ahead: int = 0) -> None:
        self.asked = list[str]()
        self.exists = True
        self._position, self._ahead = position, ahead  # rounds of the source, and of them those of faster clients
        self.interrupt_at = ""

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
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
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def runs(service: Service, *words: str | Path) -> Result:
        client = lambda *_: httpx2.Client(base_url="http://service", transport=httpx2.MockTransport(service))  # noqa: E731
        monkeypatch.setattr(f"toolkit.{words[0]}.connect", client)
        return CliRunner().invoke(app, [str(word) for word in words])

    return runs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("f,label,propensity,reward\n" + "1,a,0.5,1\n" * 30)
    return path


REPLAY = ("--model", "m", "--source", "s", "--batch", "10")


def test_only_new_rounds_are_counted(command: Callable[..., Result], log: Path) -> None:
    found = command(Service(ahead=15), "replay", log, *REPLAY)
    assert found.stdout.startswith("15 rounds imported into m, ")
    assert "; 30 of 30 rows are in the model; source s" in found.stdout
    assert json.loads(command(Service(ahead=30), "replay", log, *REPLAY, "--json").stdout)["imported"] == 0


def test_labelled_rows_are_said_to_be_learned_in_order(command: Callable[..., Result], log: Path) -> None:
    assert "shuffles" not in command(Service(), "replay", log, *REPLAY).stdout
    log.write_text("f,label\n" + "1,a\n" * 30)
    assert (
        "in the order of the file. `wager compare` shuffles them" in command(Service(), "replay", log, *REPLAY).stdout
    )


def test_progress_is_written_where_no_terminal_is(command: Callable[..., Result], log: Path) -> None:
    lines = command(Service(), "replay", log, *REPLAY).stderr.splitlines()
    assert [line.rpartition(",")[0] for line in lines] == [f"importing: {n} of 30 rounds" for n in (10, 20, 30)]


def test_a_part_of_a_file_is_there_as_a_part(command: Callable[..., Result], log: Path) -> None:
    found = command(Service(position=30), "replay", log, *REPLAY, "--limit", "4")
    assert (found.exit_code, "0 rounds imported" in found.stdout, "; 4 of 4 rows are in the model" in found.stdout) == (
        0,
        True,
        True,
    )


def test_a_dry_run_of_no_row_shows_no_round(command: Callable[..., Result], log: Path) -> None:
    log.write_text("f,label,propensity,reward,abstained\n")
    for row, said in [("", "0 rows"), ("1,c,0.5,0.6,true\n", "0 rows")]:
        log.write_text(log.read_text() + row)
        assert command(Service(), "replay", log, *REPLAY, "--dry-run", "--limit", "0").stdout.strip() == said
    log.write_text(log.read_text() + "1,a,0.5,1,false\n")
    found = command(Service(), "replay", log, *REPLAY, "--dry-run", "--without-abstentions").stdout
    assert found.startswith("1 rows, 1 line left out; the first round is {")


@pytest.mark.parametrize(("at", "said"), [
    ("GET /models/m", "nothing was sent"), ("POST /models/m/rounds", "0 rounds of source s are imported"),
    ("later", "20 rounds of source s are imported"),
])  # fmt: skip
def test_an_interrupted_import_says_its_position(command: Callable[..., Result], log: Path, at: str, said: str) -> None:
    service = Service()
    service.interrupt_at = at
    found = command(service, "replay", log, *REPLAY)
    end = f"wager: interrupted: {said}; repeat the command to continue"
    assert (found.exit_code, found.stderr.strip().splitlines()[-1]) == (130, end)


@pytest.mark.parametrize("format_", ["ndjson", "file.ndjson"])
def test_an_interrupted_export_says_what_is_written(
    command: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
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

    found = command(third, *words)
    said = f"20 rounds are written to {out}" if format_ == "ndjson" else "nothing is written"
    assert (found.exit_code, found.stderr.strip().splitlines()[-1]) == (
        130,
        f"wager: interrupted: {said}; repeat the command for the rest",
    )
    rest = json.loads(command(Service(), *words, "--json").stdout)
    assert rest["rounds"] == (5 if format_ == "ndjson" else 25)


@pytest.mark.parametrize(
    "bad", ["1,a,7,1", "1,a,1e-13,1", f"{'x' * 1025},a,0.5,1", "1,,0.5,1", "1,a,0.5,2", "1,a,0.5,1,1"]
)
def test_a_file_with_a_mistake_creates_no_model(command: Callable[..., Result], log: Path, bad: str) -> None:
    service = Service()
    service.exists = False
    log.write_text(log.read_text() + bad + "\n")
    found = command(service, "replay", log, *REPLAY, "--create")
    assert (found.exit_code, "log.csv: line 32: " in found.stderr) == (1, True)
    assert not [each for each in service.asked if each.startswith("POST")]


def test_times_in_the_future_are_refused(command: Callable[..., Result], log: Path) -> None:
    log.write_text(
        "f,label,propensity,reward,predicted_at\n1,a,0.5,1,2026-01-01T00:00:00Z\n1,a,0.5,1,2999-01-01T00:00:00Z\n"
    )
    service = Service()
    found = command(service, "replay", log, *REPLAY)
    assert "log.csv: line 3: got the time 2999-01-01T00:00:00Z; must be from 1970 to now" in found.stderr
    assert not [each for each in service.asked if each.startswith("POST")]
