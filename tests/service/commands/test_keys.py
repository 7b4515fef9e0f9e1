"""The laws of `wager keys`, and of the messages about keys from `wager serve`."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner, Result

from service.__main__ import app
from service.app import create_app
from service.commands.options import EXIT_REFUSED, EXIT_SETTINGS, EXIT_STORE
from service.processes import tied_command
from service.settings import Settings
from service.store.embedded.server import EmbeddedServer
from tests.service.wager import serve


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"WAGER_{name.upper()}", raising=False)
    monkeypatch.setenv("WAGER_DATA_DIR", str(tmp_path / "data"))


def keys(*arguments: str) -> Result:
    """Run `wager keys` with these arguments in this process."""
    return CliRunner().invoke(app, ["keys", *arguments])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--models", "a-*", "--models", "b-*"), "a key has one pattern"),
        (("--expires-in-days", "0"), "must be more than 0"),
        (("--expires-in-days", "nan"), "must be more than 0"),
    ],
    ids=str,
)
def test_useless_keys_are_refused(options: tuple[str, ...], reason: str) -> None:
    """A key that would differ from the request, or expire at its creation, is not created."""
    refused = keys("create", "the tests", "--scope", "read", *options)
    assert (refused.exit_code, refused.stdout) == (EXIT_SETTINGS, "")
    assert reason in refused.stderr


def id_of(issued: Result) -> str:
    """Return the id of a created key."""
    assert issued.exit_code == 0, issued.stderr
    return issued.stdout.split("_")[1]


def test_keys_work_in_a_running_service(tmp_path: Path) -> None:
    """A key created next to a running service works, is listed without its secret, and stops working when revoked."""
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
        successor = keys("rotate", key_id, "--overlap-hours", "1").stdout.strip()
        assert (status(key), status(successor)) == (200, 200)
        assert keys("revoke", key_id).exit_code == 0
        assert (status(key), status(successor)) == (401, 200)


def test_keys_can_be_created_before_the_first_start(tmp_path: Path) -> None:
    """Without a service, the command starts the store, stores the key, and stops the store."""
    made = id_of(keys("create", "first", "--scope", "admin", "--expires-in-days", "30"))
    assert made in keys("list").stdout
    with EmbeddedServer(tmp_path / "data", lock_seconds=0.0):  # the command no longer holds the lock
        assert made in keys("list").stdout


def test_an_error_names_the_invalid_option() -> None:
    """The error names the invalid option; an unknown id has a clear message."""
    for option, value in [("--scope", "write"), ("--models", "a/b"), ("--limit", "some")]:
        arguments = {"--scope": "read"} | {option: value}
        result = keys("create", "x", *(word for pair in arguments.items() for word in pair))
        assert (result.exit_code, result.stdout) == (EXIT_REFUSED, "")
        assert option.strip("-") in result.stderr
    for command in ("rotate", "revoke"):
        result = keys(command, "0" * 12)
        assert result.exit_code == EXIT_REFUSED
        assert "no API key" in result.stderr


def test_an_unreachable_store_has_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the store does not answer, the command prints one line without a traceback or a password."""
    monkeypatch.setenv("WAGER_STORE_URL", "redis://:hunter2@127.0.0.1:1/0")
    result = keys("list")
    assert result.exit_code == EXIT_STORE
    assert result.stderr.startswith("wager: the store does not answer")
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    ("environment", "status"), [({}, 401), ({"WAGER_HOST": "127.0.0.1"}, 200), ({"WAGER_AUTH": "off"}, 200)]
)
async def test_an_imported_application_requires_keys(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], status: int
) -> None:
    """An imported application may listen on any address, so it requires keys unless host or auth is set."""
    for name, value in {"WAGER_STORE_URL": "unix:///nowhere/valkey.sock", **environment}.items():
        monkeypatch.setenv(name, value)
    transport = httpx2.ASGITransport(app=create_app())
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/learners")).status_code == status


def test_an_application_in_uvicorn_requires_keys(store_url: str) -> None:
    """uvicorn's command line, without `wager serve`, requires keys, because it does not set the service's host."""
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


def test_a_service_beyond_loopback_requires_keys(tmp_path: Path) -> None:
    """Beyond loopback, keys are required by default; if they are off, the service logs a warning."""
    (tmp_path / "off").mkdir()
    with serve(tmp_path, WAGER_HOST="0.0.0.0") as wager:
        assert httpx2.get(f"{wager.url}/models", timeout=30.0).status_code == 401
    assert "API keys   required" in (tmp_path / "wager.log").read_text()
    with serve(tmp_path / "off", WAGER_HOST="0.0.0.0", WAGER_AUTH="off") as wager:
        assert httpx2.get(f"{wager.url}/models", timeout=30.0).status_code == 200
    assert "WARNING: WAGER_AUTH=off" in (tmp_path / "off" / "wager.log").read_text()
