"""The laws of `wager keys`, and of what `wager serve` says of keys."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner, Result

from service.app import create_app
from service.commands.main import app
from service.commands.options import EXIT_REFUSED, EXIT_STORE
from service.processes import tied_command
from service.settings import Settings
from service.store.embedded.server import EmbeddedServer
from tests.service.wager import serve


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"WAGER_{name.upper()}", raising=False)
    monkeypatch.setenv("WAGER_DATA_DIR", str(tmp_path / "data"))


def keys(*arguments: str) -> Result:
    """Run `wager keys` with these arguments inside this process."""
    return CliRunner().invoke(app, ["keys", *arguments])


def id_of(issued: Result) -> str:
    """The id of a key that was made."""
    assert issued.exit_code == 0, issued.stderr
    return issued.stdout.split("_")[1]


def test_keys_live_in_the_store_that_serves(tmp_path: Path) -> None:
    """A key made beside a running service opens it, is listed without its secret, and ends when it is revoked."""
    with serve(tmp_path, WAGER_AUTH="required", WAGER_KEY_CACHE_SECONDS="0") as wager:

        def status(key: str) -> int:
            headers = {"Authorization": f"Bearer {key}"}
            return httpx2.get(f"{wager.url}/learners", headers=headers, timeout=30.0).status_code

        assert status("none") == 401
        issued = keys("create", "the tests", "--scope", "read", "--models", "a*", "--limit", "9/hour")
        key, key_id = issued.stdout.strip(), id_of(issued)
        assert status(key) == 200
        listed = keys("list").stdout
        assert [row.split() for row in listed.splitlines()][1] == [key_id, "the", "tests", "read", "a*", "9/hour"]
        assert key.rpartition("_")[2] not in listed
        heir = keys("rotate", key_id, "--overlap-hours", "1").stdout.strip()
        assert (status(key), status(heir)) == (200, 200)
        assert keys("revoke", key_id).exit_code == 0
        assert (status(key), status(heir)) == (401, 200)


def test_keys_can_be_made_before_the_first_start(tmp_path: Path) -> None:
    """Without a service the store is started for the command, keeps the key, and is stopped."""
    made = id_of(keys("create", "first", "--scope", "admin", "--expires-in-days", "30"))
    assert made in keys("list").stdout
    with EmbeddedServer(tmp_path / "data", lock_seconds=0.0):  # which nobody holds any more
        assert made in keys("list").stdout


def test_a_wrong_key_is_refused_by_field() -> None:
    """What a key cannot have is named; an id that is not there has a message."""
    for option, value in [("--scope", "write"), ("--models", "a/b"), ("--limit", "some")]:
        arguments = {"--scope": "read"} | {option: value}
        result = keys("create", "x", *(word for pair in arguments.items() for word in pair))
        assert (result.exit_code, result.stdout) == (EXIT_REFUSED, "")
        assert option.strip("-") in result.stderr
    for command in ("rotate", "revoke"):
        result = keys(command, "0" * 12)
        assert result.exit_code == EXIT_REFUSED
        assert "no API key" in result.stderr


def test_a_store_that_is_not_there_has_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says so, without a trace or a password."""
    monkeypatch.setenv("WAGER_STORE_URL", "redis://:hunter2@127.0.0.1:1/0")
    result = keys("list")
    assert result.exit_code == EXIT_STORE
    assert result.stderr.startswith("wager: the store does not answer")
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    ("environment", "status"), [({}, 401), ({"WAGER_HOST": "127.0.0.1"}, 200), ({"WAGER_AUTH": "off"}, 200)]
)
async def test_an_application_that_is_not_told_its_address_needs_keys(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], status: int
) -> None:
    """Whoever imports it may listen on any address: keys are needed, unless the settings say otherwise."""
    for name, value in {"WAGER_STORE_URL": "unix:///nowhere/valkey.sock", **environment}.items():
        monkeypatch.setenv(name, value)
    transport = httpx2.ASGITransport(app=create_app())
    async with httpx2.AsyncClient(transport=transport, base_url="http://worker") as client:
        assert (await client.get("/learners")).status_code == status


def test_another_program_on_every_address_needs_keys(store_url: str) -> None:
    """uvicorn's own command line, without `wager serve`: the host that it is given is no setting of the service."""
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        application = ["service.app:create_app", "--factory", "--fd", str(listener.fileno())]
        command = tied_command([sys.executable, "-m", "uvicorn", *application, "--log-level", "error"])
        environment = os.environ | {"WAGER_STORE_URL": store_url, "PYTHONPATH": str(Path(__file__).parents[3])}
        with subprocess.Popen(command, env=environment, pass_fds=[listener.fileno()]) as process:
            try:
                url = f"http://127.0.0.1:{listener.getsockname()[1]}/models"
                assert httpx2.get(url, timeout=60.0).status_code == 401
            finally:
                process.kill()


def test_a_service_that_others_reach_needs_keys(tmp_path: Path) -> None:
    """On an address beyond loopback keys are needed without being asked for; where they are off, it warns."""
    (tmp_path / "off").mkdir()
    with serve(tmp_path, WAGER_HOST="0.0.0.0") as wager:
        assert httpx2.get(f"{wager.url}/models", timeout=30.0).status_code == 401
    assert "API keys   required" in (tmp_path / "wager.log").read_text()
    with serve(tmp_path / "off", WAGER_HOST="0.0.0.0", WAGER_AUTH="off") as wager:
        assert httpx2.get(f"{wager.url}/models", timeout=30.0).status_code == 200
    assert "WARNING: WAGER_AUTH=off" in (tmp_path / "off" / "wager.log").read_text()
