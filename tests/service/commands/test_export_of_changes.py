"""The laws of `wager export` for models that were changed: every distribution is the one that the request got."""

import json
import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from service.__main__ import app
from tests.service.threads import Served

LEARNERS: dict[str, Any] = {
    "default": {"algorithm": "fastcb"},
    "matrices": {"algorithm": "soba-diagonal"},
    "scores as evidence": {"algorithm": "gaptron"},
    "support vectors": {"algorithm": "bandit-perceptrons"},
}


class Life:
    def __init__(self, client: httpx2.Client, name: str, **fields: Any) -> None:
        self.client, self.name = client, name
        self.answers: dict[str, Any] = {}
        self._waiting: list[Any] = []
        self._random = random.Random(name)
        body = {"name": name, "labels": list("abc"), "features": {"kind": "dense", "size": 2}} | fields
        answer = client.post("/models", json=body)
        assert answer.status_code == 201, answer.text

    def predict(self, n: int, **fields: Any) -> None:
        items = [{"context": [self._random.random(), self._random.random()], **fields} for _ in range(n)]
        body = {"model": self.name, "items": [{**each, "include_distribution": True} for each in items]}
        made = self.client.post("/predict/batch", json=body).json()["predictions"]
        self.answers.update({each["prediction_id"]: each for each in made})
        self._waiting += made

    def judge(self, n: int | None = None, *, latest: bool = False) -> None:
        if latest:
            self._waiting.reverse()
        else:
            self._random.shuffle(self._waiting)
        some, self._waiting = self._waiting[:n], self._waiting[len(self._waiting) if n is None else n :]
        items = [{"prediction_id": each["prediction_id"], "correct": each["label"] in "ad"} for each in some]
        answer = self.client.post("/feedback/batch", json={"feedback": items}).json()
        assert all(each["status"] == "recorded" for each in answer["results"])

    def live(self, steps: int = 4) -> None:
        for _ in range(steps):
            self.predict(6)
            self.judge(4)

    def change(self, **patch: Any) -> None:
        self.post("", patch, "PATCH")

    def post(self, path: str, body: Any, method: str = "POST") -> Any:
        answer = self.client.request(method, f"/models/{self.name}{path}", json=body, headers={"If-Match": "*"})
        assert answer.is_success, answer.text
        return answer.json()

    def export(self, url: str, output: Path, *words: str) -> dict[str, Any]:
        command = ["export", "--model", self.name, "--output", str(output), "--url", url, "--json", *words]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def check(self, rows: list[Any], labels: list[str]) -> list[int]:
        for row in rows:
            answer, found = self.answers[row["prediction_id"]], row["distribution"]
            assert (row["holdout"], row["label"]) == (answer["holdout"], answer["label"])
            if found is not None:
                assert len(found) == row["label_count"]
                named = {label: p for label, p in zip(labels, found, strict=False) if label in answer["distribution"]}
                assert named == pytest.approx(answer["distribution"], abs=1e-12)
                assert sum(found) == pytest.approx(1.0)
        return [row["round"] for row in rows if row["distribution"] is None]


def rows_of(path: Path) -> list[Any]:
    rows: list[Any] = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    return rows


def change_all(life: Life) -> None:
    life.live()
    life.change(labels={"add": ["d"]})
    life.live()
    life.change(labels={"retire": ["b"]}, window_seconds=1000.0)
    life.live()
    life.predict(5, eligible=["a", "c"])
    life.change(mode="frozen", rules={"floor": {"c": 0.3}, "cap": {"a": 0.4}, "floor_each": 0.05})
    life.live()
    life.change(mode="online")
    life.live()
    life.change(holdout={"fraction": 0.3, "policy": {"label": "c"}})
    life.live()
    labels, rules = {"add": ["e", "f"], "retire": ["a"]}, {"groups": {"new": ["e", "f"]}, "cap": {"new": 0.2}}
    life.change(holdout={"fraction": 0.3, "policy": "uniform"}, labels=labels, rules=rules)
    life.live()
    life.post("/reset", {})
    life.live()
    life.change(labels={"add": ["g"]}, holdout=None, rules=None)
    life.live()
    life.judge()


def price_all(life: Life) -> None:
    """Let predictions with costs of the request, with its λ, and of the model wait while the model's costs change."""
    life.live()
    life.predict(6)
    life.predict(6, costs={"b": 2.5, "c": 0.5})
    life.predict(6, cost_weight=3.0)
    life.change(costs={"a": 0.8, "b": 0.1}, cost_weight=1.0)
    life.predict(6, costs={"a": 4.0}, cost_weight=0.5, eligible=["a", "c"])
    life.live()
    life.judge(20)
    life.change(labels={"add": ["d"]}, costs={"a": 0.8, "d": 0.6})
    life.live()
    life.change(cost_weight=0.0, budget={"cost": 0.4})
    life.live(8)
    life.predict(6, costs={"a": 0.1, "d": 0.9})
    life.change(budget={"cost": 0.2}, holdout={"fraction": 0.3, "policy": "uniform"})
    life.live(8)
    life.change(costs=None, budget=None, holdout=None)
    life.predict(6, costs={"c": 1.0}, cost_weight=2.0)
    life.live()
    life.judge()


PRICED: dict[str, Any] = {"costs": {"a": 0.3}, "cost_weight": 0.5, "on_expiry": "incorrect", "window_seconds": 1000.0}


@pytest.mark.parametrize("algorithm", ["fastcb", "squarecb", "epsilon-greedy-ridge"])
def test_decisions_with_costs_are_known_after_changes(live: Served, name: str, tmp_path: Path, algorithm: str) -> None:
    """Parquet and JSON lines have what each decision weighed, and what its answer cost."""
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        life = Life(client, name, learner=algorithm, learn="on_arrival", **PRICED)
        price_all(life)
        result = life.export(live.url, tmp_path / "out.parquet")
        life.export(live.url, tmp_path / "out.ndjson")
    rows = rows_of(tmp_path / "out.parquet")
    assert (result["distributions"], result["reason"]) == (result["rounds"], None)
    assert life.check(rows, list("abcd")) == []
    lines = [json.loads(line) for line in (tmp_path / "out.ndjson").read_text().splitlines()]
    names = ("cost", "cost_weight", "costs")
    found = [[row[key] and dict(row[key]) if key == "costs" else row[key] for key in names] for row in rows]
    assert found == [[line[key] for key in names] for line in lines]
    for costs in ({"a": 4.0}, {"a": 0.1, "d": 0.9}, {"c": 1.0}):
        assert sum(each[2] == costs for each in found) == 6
    given = [(row["cost"], dict(row["costs"]), row["label"]) for row in rows if row["costs"] is not None]
    assert all(cost == costs[label] for cost, costs, label in given if label in costs)
    assert [None, None, None] in found  # without costs at the end
    weights = [weight for _, weight, _ in found]
    assert weights.count(3.0) == 6
    assert len({*weights} - {0.5, 1.0, 2.0, 3.0, None}) > 10  # of the budget
    schema = pytest.importorskip("pyarrow.parquet").read_schema(tmp_path / "out.parquet")
    types = ["double", "double", "map<string, double ('costs')>"]
    assert [str(schema.field(key).type) for key in names] == types


def test_every_distribution_is_known_after_changes(live: Served, name: str, tmp_path: Path) -> None:
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        for kind, learner in LEARNERS.items():
            life, out = Life(client, f"{name}-{kind}".replace(" ", "-"), learner=learner), tmp_path / kind
            change_all(life)
            first = life.export(live.url, out, "--part-rounds", "50", "--limit", "70")
            rest = life.export(live.url, out)
            assert (first["rounds"], first["distributions"], first["reason"]) == (70, 70, None)
            assert (rest["rounds"], rest["distributions"], rest["reason"]) == (151, 151, None), kind
            rows = rows_of(out)
            assert life.check(rows, list("abcdefg")) == []
            assert {len(row["distribution"]) for row in rows} == {3, 4, 6, 7}
            assert {row["changes"] for row in rows if row["changes_seen"] == 1} > {1}


def test_distributions_are_unknown_from_a_rollback_to_a_reset(live: Served, name: str, tmp_path: Path) -> None:
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        for algorithm in ("fastcb", "gaptron"):
            life, out = Life(client, f"{name}-{algorithm}", learner=algorithm), tmp_path / f"{algorithm}.parquet"
            life.live()
            life.post("/snapshots", {"id": "kept"})
            life.live(2)
            life.post("/rollback", {"snapshot": "kept"})  # after round 24
            life.predict(5)
            life.judge()  # 12 predictions of before, and 5 of after
            life.post("/reset", {})  # after round 41
            life.live()
            life.judge()
            result = life.export(live.url, out)
            unknown = life.check(rows_of(out), list("abc"))
            assert unknown == [row["round"] for row in rows_of(out) if row["changes_seen"] == 1]
            assert (result["rounds"], result["distributions"], len(unknown)) == (65, 60, 5)
            assert result["reason"] == "change 1, a rollback after round 24, continues from snapshot 'kept'"


def test_an_update_of_an_unknown_prediction_makes_a_state_unknown(live: Served, name: str, tmp_path: Path) -> None:
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        for algorithm, known in (("fastcb", 20), ("gaptron", 5)):
            life, out = Life(client, f"{name}-{algorithm}", learner=algorithm), tmp_path / f"{algorithm}.parquet"
            life.post("/snapshots", {"id": "kept"})
            life.post("/rollback", {"snapshot": "kept"})
            life.predict(5)
            life.post("/reset", {})
            life.judge()
            life.predict(15)
            life.judge()
            life.post("/reset", {})
            life.predict(5)
            life.judge()
            result = life.export(live.url, out)
            life.check(rows_of(out), list("abc"))
            assert (result["rounds"], result["distributions"]) == (25, known)
            lost = "round 1 was predicted with an unknown state, which its update depends on"
            assert (lost in result["reason"]) == (algorithm == "gaptron")


def test_a_promoted_learner_is_known_after_a_reset(live: Served, name: str, tmp_path: Path) -> None:
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        life, out = Life(client, name, learner="soba-diagonal"), tmp_path / "out.parquet"
        life.live()
        life.predict(30)
        life.post("/shadows/rival", {"learner": "newtron"}, "PUT")
        life.post("/promote", {"shadow": "rival"})
        life.predict(3)
        life.judge(3, latest=True)  # 38 predictions of the first learner wait
        life.change(labels={"add": ["d"]})
        life.post("/reset", {})
        life.live()
        life.judge()
        result = life.export(live.url, out)
        unknown = life.check(rows_of(out), list("abcd"))
        assert unknown == [row["round"] for row in rows_of(out) if row["changes_seen"] == 1]
        assert (len(unknown), result["rounds"]) == (3, 81)
        assert "change 1, a promote after round 16" in result["reason"]


def test_predictions_of_a_policy_are_unknown(live: Served, name: str, tmp_path: Path) -> None:
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        life, out = Life(client, name, mode="logging"), tmp_path / "out.parquet"
        life.predict(10, policy={"a": 0.5, "b": 0.25, "c": 0.25})
        life.predict(10)
        life.change(mode="online")
        life.judge(10)
        life.live()
        life.judge()
        result = life.export(live.url, out)
        unknown = life.check(rows_of(out), list("abc"))
        assert unknown == [row["round"] for row in rows_of(out) if row["changes_seen"] == 0]
        assert (len(unknown), result["rounds"]) == (20, 44)
        assert result["reason"].startswith("in the mode logging")


def test_dsjson_has_the_labels_of_each_prediction(live: Served, name: str, tmp_path: Path) -> None:
    out = tmp_path / "out.dsjson"
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        life = Life(client, name)
        change_all(life)
        assert life.export(live.url, out, "--format", "dsjson", "--after", "60")["distributions"] == 161
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert len(lines) == 161
        out = tmp_path / "out.parquet"
        assert life.export(live.url, out, "--no-distributions")["distributions"] == 0
        assert {row["label_count"] for row in rows_of(out)} == {3, 4, 6, 7}
        for line in lines:
            ids = [each["_tag"] for each in line["c"]["_multi"]]
            found = {ids[number - 1]: p for number, p in zip(line["a"], line["p"], strict=True)}
            assert found == pytest.approx(life.answers[line["EventId"]]["distribution"], abs=1e-9)


def test_an_export_that_follows_the_log_notices_changes(
    live: Served, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:
        life, out = Life(client, name), tmp_path / "out"
        life.live()
        steps = iter([("", {"labels": {"add": ["d"]}}, "PATCH"), ("/reset", {}, "POST")])

        def instead_of_sleeping(_: float) -> None:
            step = next(steps, None)
            if step is None:
                raise KeyboardInterrupt
            life.post(*step)
            life.live()

        clock = SimpleNamespace(sleep=instead_of_sleeping, monotonic=time.monotonic)  # other threads sleep as ever
        monkeypatch.setattr("toolkit.export.time", clock)
        result = life.export(live.url, out, "--follow")
        assert (result["rounds"], result["distributions"], result["reason"], result["parts"]) == (48, 48, None, 3)
        assert life.check(rows_of(out), list("abcd")) == []
        parquet = pytest.importorskip("pyarrow.parquet")
        described = [json.loads(parquet.read_schema(path).metadata[b"wager"]) for path in sorted(out.glob("part-*"))]
        assert [len(each["model"]["labels"]) for each in described] == [3, 4, 4]
        assert json.loads((out / "_model.json").read_text())["model"]["labels"] == list("abcd")
