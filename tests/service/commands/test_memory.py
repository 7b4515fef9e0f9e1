"""The law of `wager memory`: it ranks models by their bytes in the store, and says what uses them."""

import json
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

from service.__main__ import app
from tests.service.sample_models import definition, some_contexts
from tests.service.threads import Served


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["memory", *arguments])
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def parts() -> dict[str, dict[str, int]]:
    return {each.pop("model"): each for each in json.loads(run("--json"))["models"]}


def test_models_are_ranked_by_the_memory_that_they_use(live: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAGER_STORE_URL", live.store_url)
    with httpx2.Client(base_url=live.url, timeout=60.0) as client:

        def post(path: str, **body: Any) -> Any:
            answer = client.post(path, json=body)
            assert answer.is_success, answer.text
            return answer.json()

        for name in ("idle", "busy"):
            client.post("/models", json=definition(name)).raise_for_status()
        idle = parts()["idle"]
        made = post("/predict/batch", model="busy", contexts=some_contexts(1, 500))["predictions"]
        opened = parts()["busy"]
        post("/feedback/batch", feedback=[{"prediction_id": each["prediction_id"], "correct": True} for each in made])
        judged = parts()["busy"]
        post("/models/busy/snapshots", id="mine")
        client.put("/models/busy/shadows/rival", json={"learner": "gaptron"}).raise_for_status()
        whole = json.loads(run("--json"))
    assert idle["bytes"] == idle["other"] > 0
    assert opened["open"] > 500 * 8 * len(some_contexts(1, 1)[0])
    assert (opened["log"], judged["open"]) == (0, 0)
    assert judged["log"] > 500 * 8 * len(some_contexts(1, 1)[0])
    first, second = whole["models"]
    assert [first["model"], second["model"]] == ["busy", "idle"]
    assert first["kept"] > 0 < first["shadows"]
    for each in whole["models"]:
        assert each["bytes"] == sum(each[field] for field in ("log", "state", "kept", "shadows", "open", "other"))
    assert first["bytes"] + second["bytes"] < whole["used"] < whole["limit"]
    lines = run("--most", "1").splitlines()
    assert [line.split()[0] for line in lines] == ["model", "busy", "2"]
