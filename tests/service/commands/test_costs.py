"""The laws of costs in files: an export keeps them, a replay sends them, and an evaluation reads them."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from service.__main__ import app
from tests.service.commands.test_export_of_changes import PRICED, Life, price_all
from tests.service.threads import Served


def run(live: Served, *words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*words, "--url", live.url, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if code == 0 else result.stderr.strip().splitlines()[-1]


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".ndjson":
        return [json.loads(line) for line in path.read_text().splitlines()]
    table = pytest.importorskip("pyarrow.parquet").read_table(path)
    return list(table.to_pylist(maps_as_pydicts="strict"))


def copied(live: Served, client: httpx2.Client, source: str, path: Path, **fields: Any) -> list[dict[str, Any]]:
    """Export a model, replay its rounds into a new one, and export that; return the rounds of the second export."""
    run(live, "export", "--model", source, "--output", str(path))
    copy = f"{source}-{path.suffix[1:]}"
    answer = client.post("/models", json={"name": copy, **fields})
    assert answer.status_code == 201, answer.text
    assert run(live, "replay", str(path), "--model", copy)["imported"] == len(rows_of(path))
    again = path.with_stem("again")
    run(live, "export", "--model", copy, "--output", str(again))
    return rows_of(again)


@pytest.mark.parametrize("suffix", ["parquet", "ndjson"])
def test_costs_outlive_a_replay(live: Served, name: str, tmp_path: Path, suffix: str) -> None:
    """Where the costs of the models differ, the copy has at least what the answer cost."""
    path, features = tmp_path / f"out.{suffix}", {"kind": "dense", "size": 2}
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        life = Life(client, name, learner="fastcb", learn="on_arrival", **PRICED)
        price_all(life)
        life.change(costs={"a": 0.3}, labels={"retire": ["b"]})
        life.predict(9, costs={"a": 5.0})
        life.judge()
        again = copied(live, client, name, path, labels=list("abcd"), features=features, costs={"a": 0.3})
    same = different = 0
    for before, after in zip(rows_of(path), again, strict=True):
        assert after["cost_weight"] is None
        own = {"a": 0.3}.get(before["label"], 0.0)
        if before["cost"] is None:
            assert (after["cost"], after["costs"]) == (own, None)
            continue
        given = before["costs"] or {}
        if before["label"] not in given and before["cost"] != own:  # the model had other costs at the time
            given = {**given, before["label"]: before["cost"]}
            different += 1
        assert (after["cost"], after["costs"] or {}) == (before["cost"], given)
        same += 1
    assert (same > 30, different > 10) == (True, True)


def test_costs_of_retired_labels_are_left_out(live: Served, name: str, tmp_path: Path) -> None:
    """The log has costs that no request may give any more."""
    path = tmp_path / "out.parquet"
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        lives = [Life(client, each) for each in (name, f"{name}-copy")]
        lives[0].predict(5, costs={"a": 1.0, "c": 2.0}, eligible=["a", "b"])
        lives[0].judge()
        for life in lives:
            life.change(labels={"retire": ["c"]})
    run(live, "export", "--model", name, "--output", str(path))
    assert {tuple(row["costs"].items()) for row in rows_of(path)} == {(("a", 1.0), ("c", 2.0))}
    assert run(live, "replay", str(path), "--model", f"{name}-copy")["imported"] == 5


@pytest.mark.parametrize("suffix", ["parquet", "ndjson"])
def test_costs_and_tags_of_actions_outlive_a_replay(live: Served, name: str, tmp_path: Path, suffix: str) -> None:
    named = {"features": {"kind": "named"}}
    fields = {**named, "actions": named | {"log_actions": "all"}}
    actions = [
        {"id": "x", "features": {"f": 1}, "cost": 2.0},
        {"id": "y", "features": {"f": 2}, "tag": "t"},
        {"id": "z", "features": {"f": 2}, "tag": "t", "cost": 0.5},
    ]
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        assert client.post("/models", json={"name": name, **fields, "cost_weight": 0.25}).status_code == 201
        for i in range(6):
            made = client.post("/predict", json={"model": name, "context": {}, "actions": actions}).json()
            client.post("/feedback", json={"prediction_id": made["prediction_id"], "correct": i % 2 == 0})
        again = copied(live, client, name, tmp_path / f"out.{suffix}", **fields)
        evaluated = client.get(f"/models/{name}/evaluation").json()["policies"]
    before = rows_of(tmp_path / f"out.{suffix}")
    mean = sum(row["cost"] for row in before) / len(before)
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path / f"out.{suffix}"), "--json", "--replicates", "20"])
    for policies in (evaluated, json.loads(result.stdout)["policies"]):
        assert [each["cost"]["value"] for each in policies if each["policy"] == "served"] == [pytest.approx(mean)]
    assert [row["cost"] for row in again] == [row["cost"] for row in before]
    assert {row["cost_weight"] for row in before} == {0.25}
    for row in again:
        found = json.loads(row["actions"]) if suffix == "parquet" else row["actions"]
        assert [(each["id"], each["tag"], each["cost"]) for each in found] == [
            ("x", None, 2.0), ("y", "t", None), ("z", "t", 0.5),
        ]  # fmt: skip


def test_costs_can_be_left_out_for_a_learner_that_does_not_weigh_them(live: Served, name: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("f,label,propensity,reward,cost\n" + "1,a,0.5,1,0.25\n2,b,0.5,0,0\n" * 20)
    with httpx2.Client(base_url=live.url) as client:
        for model, learner in ((name, "fastcb"), (f"{name}-gaptron", "gaptron")):
            body = {"name": model, "labels": ["a", "b"], "features": {"kind": "named"}, "learner": learner}
            assert client.post("/models", json=body).status_code == 201
        assert run(live, "replay", str(path), "--model", name)["imported"] == 40
        lines = client.get(f"/models/{name}/rounds").text.splitlines()
        assert [json.loads(line)["cost"] for line in lines[:2]] == [0.25, 0.0]
        replay = ("replay", str(path), "--model", f"{name}-gaptron")
        refused = run(live, *replay, code=1)
        assert "log.csv: line 2: " in refused
        assert "rounds.0.costs: must be left out: gaptron estimates no rewards to weigh costs against" in refused
        assert client.get(f"/models/{name}-gaptron").json()["rounds_seen"] == 0
        assert run(live, *replay, "--without-costs")["imported"] == 40


def test_every_evaluation_finds_the_same_costs(live: Served, name: str, tmp_path: Path) -> None:
    """The endpoint, the command with the service, and the command with each file of an export agree."""
    paced = {"costs": {"a": 1.0, "b": 0.5}, "budget": {"cost": 0.4}}
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        life = Life(client, name, learn="on_arrival", **PRICED | {"cost_weight": 0.0} | paced)
        life.live(20)
        life.predict(20, costs={"c": 2.0})
        life.judge()
        answered = client.get(f"/models/{name}/evaluation").json()["policies"]
        old = Life(client, f"{name}-free")
        old.live()
        assert {each["cost"] for each in client.get(f"/models/{name}-free/evaluation").json()["policies"]} == {None}
    words = ("--policy", "uniform", "--learner", "fastcb", "--replicates", "20")
    reports = []
    result = CliRunner().invoke(app, ["evaluate", "--model", name, "--url", live.url, "--json", *words])
    reports.append(json.loads(result.stdout))
    for suffix in ("parquet", "ndjson"):
        path = tmp_path / f"out.{suffix}"
        run(live, "export", "--model", name, "--output", str(path))
        result = CliRunner().invoke(app, ["evaluate", str(path), "--json", *words])
        assert result.exit_code == 0, result.output
        reports.append(json.loads(result.stdout))
    costs = [{each["policy"]: each["cost"]["value"] for each in one["policies"]} for one in reports]
    assert costs[0] == pytest.approx(costs[1])
    for policy in ("served", "uniform"):
        endpoint = next(each["cost"]["value"] for each in answered if each["policy"] == policy)
        assert [one[policy] for one in costs] == pytest.approx([endpoint] * 3)
    lines = rows_of(tmp_path / "out.ndjson")
    assert costs[0]["served"] == pytest.approx(sum(line["cost"] for line in lines) / len(lines))
