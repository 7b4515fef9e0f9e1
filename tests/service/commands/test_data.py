"""The laws of `wager replay` and `wager export`, with a running service."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from service.__main__ import app
from tests.servers import wait_until
from tests.service.wager import Wager


def run(live: Wager, *words: str) -> Any:
    """Run a command; return what it prints as JSON, or its error."""
    result = CliRunner().invoke(app, [*words, "--url", live.url, "--json"])
    return json.loads(result.stdout) if result.exit_code == 0 else result.stderr.strip().splitlines()[-1]


def rows(n: int, offset: int = 0) -> str:
    """Return lines of a CSV file of logged rounds."""
    return "".join(f"{i % 7},{i % 5},{'ab'[i % 2]},0.5,{i % 2}\n" for i in range(offset, offset + n))


HEADER = "x,y,label,propensity,reward\n"


def test_a_file_is_imported_once(live: Wager, name: str, tmp_path: Path) -> None:
    """Repeating the command imports nothing again; an interrupted one continues; a bad file changes nothing."""
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


def test_a_refused_round_is_named_by_its_line(live: Wager, name: str, tmp_path: Path) -> None:
    """What only the service refuses is reported with the line and the position, and --source continues after it."""
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


def test_distributions_are_recomputed(live: Wager, name: str, tmp_path: Path) -> None:
    """Every prediction gets the distribution that its request got, though feedback is late and in another order."""
    shuffled, asked = random.Random(1), dict[str, Any]()
    with httpx2.Client(base_url=live.url) as client:
        model = f"{name}-late"
        body = {"name": model, "labels": list("abc"), "features": {"kind": "named"}}
        client.post("/models", json=body | {"holdout": {"fraction": 0.2, "policy": "uniform"}})
        waiting = list[Any]()
        for step in range(30):
            contexts = [{"age": step + i, "tag": "xy"[i % 2]} for i in range(4)]
            batch = {"model": model, "contexts": contexts, "include_distribution": True}
            made = client.post("/predict/batch", json=batch).json()["predictions"]
            asked.update({each["prediction_id"]: each for each in made})
            waiting += made
            shuffled.shuffle(waiting)
            given, waiting = waiting[:3], waiting[3:]
            feedback = [{"prediction_id": each["prediction_id"], "correct": each["label"] == "a"} for each in given]
            client.post("/feedback/batch", json={"feedback": feedback})
    out = ("export", "--model", model, "--output", str(tmp_path / "out"), "--part-rounds", "40")
    first = run(live, *out, "--limit", "50")
    assert (first["rounds"], first["distributions"], first["parts"]) == (50, 50, 2)
    rest = run(live, *out)
    assert (rest["rounds"], rest["distributions"], rest["last_round"], rest["reason"]) == (40, 40, 90, None)
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(tmp_path / "out")
    assert table["round"].to_pylist() == list(range(1, 91))
    for row in table.to_pylist():
        answer = asked[row["prediction_id"]]
        assert row["distribution"] == pytest.approx(list(answer["distribution"].values()), abs=1e-12)
        assert row["holdout"] == answer["holdout"]


def test_an_export_follows_the_log(live: Wager, name: str, tmp_path: Path) -> None:
    """With --follow, rounds that come later become further parts, and an interrupt ends the command with success."""
    path, model, out = tmp_path / "log.csv", f"{name}-follow", tmp_path / "out"
    path.write_text(HEADER + rows(90))
    assert run(live, "replay", str(path), "--model", model, "--create", "--limit", "40")["imported"] == 40
    words = ["export", "--model", model, "--output", str(out), "--format", "ndjson", "--follow", "--every", "0.1"]
    command = [sys.executable, "-m", "service", *words, "--url", live.url, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            wait_until((out / "part-000000000001.ndjson").exists)
            assert run(live, "replay", str(path), "--model", model)["imported"] == 50
            wait_until((out / "part-000000000041.ndjson").exists)
            process.send_signal(signal.SIGINT)
            result = json.loads(process.communicate(timeout=60)[0])
        finally:
            process.kill()
    assert (process.returncode, result["rounds"], result["last_round"], result["parts"]) == (0, 90, 90, 2)
    assert run(live, *words[:-3])["rounds"] == 0


def test_an_export_fills_holes(live: Wager, name: str, tmp_path: Path) -> None:
    """A deleted part is written again with the same rounds and distributions, and a damaged one stops the command."""
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
    """Run Vowpal Wabbit."""
    options = (
        ["--dsjson", "--quiet"]
        if "-i" in words
        else ["--cb_explore_adf", "--dsjson", "-q", "::", "--epsilon", "0.1", "--quiet"]
    )
    subprocess.run([sys.executable, "-m", "vowpalwabbit", *options, *words], check=True, timeout=60)


def test_vowpal_wabbit_learns_from_an_export(live: Wager, name: str, tmp_path: Path) -> None:
    """VW reads every line of an export, and learns which label is right; the export is imported again."""
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


@pytest.mark.parametrize("suffix", ["ndjson", "dsjson", "parquet", ""])
def test_the_suffix_names_the_format(live: Wager, name: str, tmp_path: Path, suffix: str) -> None:
    """A suffix of a format makes a file of this format, and its absence a folder of Parquet."""
    path, model, out = tmp_path / "log.csv", f"{name}-{suffix}", tmp_path / f"out.{suffix}".rstrip(".")
    path.write_text(HEADER + rows(3))
    run(live, "replay", str(path), "--model", model, "--create")
    assert run(live, "export", "--model", model, "--output", str(out))["format"] == (suffix or "parquet")
    assert out.is_file() == bool(suffix)


def test_wrong_options_end_with_one_line(live: Wager, name: str, tmp_path: Path) -> None:
    """An unknown format, model or rule of costs is one line of error."""
    path = tmp_path / "log.csv"
    path.write_text(HEADER + rows(3))
    assert "--format: got 'xml'" in run(live, "export", "--model", name, "--output", "x", "--format", "xml")
    assert "--follow: needs a folder" in run(
        live, "export", "--model", name, "--output", str(tmp_path / "x.ndjson"), "--format", "ndjson", "--follow"
    ) or "no model" in run(live, "export", "--model", name, "--output", str(tmp_path / "x.ndjson"))
    odd = str(tmp_path / "x.ndjson")
    assert "has the suffix of ndjson" in run(live, "export", "--model", name, "--output", odd, "--format", "dsjson")
    assert "--costs: got 'x'" in run(live, "replay", str(path), "--model", name, "--costs", "x")
    assert "the format 'xml' is unknown" in run(live, "replay", str(path), "--model", name, "--format", "xml")
    assert "cannot be read" in run(live, "replay", str(tmp_path / "none.csv"), "--model", name)
