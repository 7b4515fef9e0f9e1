"""The laws of `wager repair`: it lists damage and changes nothing."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from learners.codec import encode_state
from service.__main__ import app
from service.settings import Settings
from service.store import keys
from service.store.embedded.server import EmbeddedServer
from service.store.redis.redis_store import RedisStore
from service.store.values import Snapshot
from tests.servers import raw
from tests.service.damaging import changed, rewrite
from tests.service.sample_models import make_model, play, whole_log
from tests.service.workers import worker


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"WAGER_{name.upper()}", raising=False)
    monkeypatch.setenv("WAGER_DATA_DIR", str(tmp_path / "data"))


def repair(*arguments: str) -> Result:
    """Run `wager repair` with these arguments in this process."""
    return CliRunner().invoke(app, ["repair", *arguments])


async def create_damaged_models(url: str) -> None:
    """Store one intact model, one with each kind of damage, and one of a newer version."""
    store = RedisStore(url, timeout=5.0)
    for name in ("whole", "definition", "snapshot", "log", "prediction", "recorded", "newer"):
        model = await make_model(store, name)
        await play(store, model, 4)
        log = await whole_log(store, model.key)
        state = bytes(encode_state(model.learner, model.learner.init()))
        if name == "definition":
            await store.command("HSET", keys.model(name), "definition", "{")
        await store.save_snapshot(
            model.key, Snapshot(1, state[:-1] if name == "snapshot" else state, digest=model.digest), 100
        )
        if name == "log":
            await rewrite(store, model, [changed(e, 60, b"\xff" * 30) if e.last_round in {2, 3} else e for e in log])
        async with worker(url) as client:
            if name in {"prediction", "whole"}:
                body = {"model": name, "context": [0.6, 0.8, 0.0], "prediction_id": "open"}
                (await client.post("/predict", json=body)).raise_for_status()
            if name == "prediction":
                await store.command("SETRANGE", keys.block(*model.key, "open"), 100, b"\xff" * 40)
            if name == "recorded":
                await rewrite(store, model, [changed(e, 60, b"\xff" * 30) if e.last_round == 4 else e for e in log])
                (await client.post("/predict", json={"model": name, "context": [1, 2, 3]})).raise_for_status()
        if name == "newer":
            await store.command("HSET", keys.snapshot(*model.key), "later", "1")
    await store.close()


def test_repair_lists_all_damage_and_changes_nothing(tmp_path: Path) -> None:
    """Each unreadable item has a line; the exit code is 1 if any is damaged, else 0."""
    with EmbeddedServer(tmp_path / "data") as server:
        asyncio.run(create_damaged_models(server.url))
        with raw(server.url) as client:
            before = {key: client.dump(key) for key in client.scan_iter()}
        found = repair()
        with raw(server.url) as client:
            assert {key: client.dump(key) for key in client.scan_iter()} == before
    assert found.exit_code == 1
    lines = [line for line in found.stdout.splitlines() if ": " in line]
    expected = [
        "definition: definition: damaged:",
        "log: round 2: damaged:",
        "log: round 3: damaged:",
        "newer: snapshot: written by a newer version, not searched:",
        "prediction: prediction open: damaged:",
        "recorded: round 4, on record: damaged:",
        "snapshot: snapshot of 1 rounds: damaged:",
    ]
    assert len(lines) == len(expected)
    assert all(line.startswith(start) for line, start in zip(sorted(lines), sorted(expected), strict=True))
    assert found.stdout.splitlines()[-1] == "6 damaged"
    for name, code in (("whole", 0), ("newer", 0), ("log", 1)):
        assert repair("--model", name).exit_code == code
    assert repair("--model", "whole").stdout.strip() == "nothing is damaged"


def test_the_help_says_that_nothing_changes() -> None:
    """The help states that nothing is changed, and lists the exit codes."""
    text = " ".join(repair("--help").stdout.split())
    assert "without changing anything" in text
    assert "Exit codes: 0 without damage" in text


def test_an_unknown_model_is_an_error(tmp_path: Path) -> None:
    """A misspelled name must not look like an intact model."""
    with EmbeddedServer(tmp_path / "data"):
        found = repair("--model", "nothing")
    assert found.exit_code == 2
    assert 'there is no model "nothing"' in found.stderr
