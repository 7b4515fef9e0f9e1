"""The laws of the command line: `wager`, `wager serve`, `wager keys` and `wager repair`."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from learners.codec import encode_state
from service import __version__
from service.__main__ import app
from service.app import create_app
from service.commands import serve as serve_module
from service.commands.options import EXIT_ADDRESS, EXIT_REFUSED, EXIT_SETTINGS, EXIT_STORE
from service.commands.serve_options import default_of, options
from service.settings import Settings
from service.store import keys
from service.store.embedded.server import EmbeddedServer
from service.store.redis.redis_store import RedisStore
from service.store.values import Snapshot
from tests.servers import raw
from tests.service.damaging import changed, rewrite
from tests.service.sample_models import make_model, play, whole_log
from tests.service.threads import in_thread
from tests.service.workers import worker


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"WAGER_{name.upper()}", raising=False)
    monkeypatch.setenv("WAGER_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture(autouse=True)
def _unchanged_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def wager(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_version_is_printed() -> None:
    assert wager("version").output == wager("--version").output == f"{__version__}\n"


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        (["version"], ["fastapi", "numpy", "redis", "uvicorn", "pydantic_settings"]),
        (["load", "--help"], ["numba", "fastapi", "redis", "uvicorn"]),
        (["replay", "--help"], ["numba", "fastapi", "redis", "uvicorn"]),
    ],
    ids=str,
)
def test_a_command_imports_only_what_it_needs(command: list[str], heavy: list[str]) -> None:
    code = (
        "import sys; from service.__main__ import app\n"
        f"try: app({command})\n"
        "except SystemExit: pass\n"
        f"heavy = set({heavy}) & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_each_wrong_setting_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAGER_WORKERS", "many")
    monkeypatch.setenv("WAGER_AUTHH", "secret")
    monkeypatch.setenv("wager_nothing_like_it", "secret")
    result = wager("serve", "--port", "0", "--store-url", "http://user:secret@host")
    assert result.exit_code == EXIT_SETTINGS
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == [
        "port (WAGER_PORT)",
        "store_url (WAGER_STORE_URL)",
        "workers (WAGER_WORKERS)",
        '"WAGER_AUTHH"',
        '"wager_nothing_like_it"',
    ]
    assert "unknown; did you mean WAGER_AUTH?\n" in result.stderr
    assert "secret" not in result.output


@pytest.mark.parametrize("command", [["serve"], ["keys", "list"], ["repair"]])
@pytest.mark.parametrize("kind", ["directory", "broken link", "bytes", "null byte"])
def test_a_secret_that_cannot_be_read_has_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], kind: str
) -> None:
    path = tmp_path / "WAGER_DATA_DIR"
    match kind:
        case "directory":
            path.mkdir()
        case "broken link":
            path.symlink_to("nowhere")
        case _:
            path.write_bytes(b"caf\xe9" if kind == "bytes" else b"a\0b")
    monkeypatch.delenv("WAGER_DATA_DIR")
    monkeypatch.setenv("WAGER_SECRETS_DIR", str(tmp_path))
    result = wager(*command)
    assert result.exit_code == EXIT_SETTINGS
    assert result.output.startswith("wager: data_dir (WAGER_DATA_DIR): ")
    assert result.output.count("\n") == 1


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Let `wager serve` note the settings that its workers would read, instead of starting them."""
    noted: list[Settings] = []

    def run(*_: object) -> bool:
        noted.append(Settings())
        return True

    monkeypatch.setattr(serve_module, "_listen", lambda _: socket.socket())
    monkeypatch.setattr(serve_module, "_run_http", run)
    return noted


def test_workers_read_the_settings_of_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Settings]
) -> None:
    """However variables are written, options override them for workers too."""
    (tmp_path / "WAGER_STORE_URL").write_text("redis://store")
    monkeypatch.setenv("WAGER_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("wager_workers", "3")
    assert wager("serve", "--workers", "2").exit_code == 0
    assert [(each.workers, each.store_url) for each in started] == [(2, "redis://store")]


@pytest.mark.parametrize(
    ("options", "said"), [((), "API keys   required"), (("--auth", "off"), "WARNING: WAGER_AUTH=off")]
)
def test_a_service_beyond_loopback_says_whether_it_requires_keys(
    started: list[Settings], options: tuple[str, ...], said: str
) -> None:
    result = wager("serve", "--host", "0.0.0.0", "--store-url", "redis://store", *options)
    assert said in result.output
    assert started[0].keys_required == (not options)


def test_workers_of_the_embedded_store_read_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Settings]
) -> None:
    """A worker accepts what it inherits: the URL of the embedded store after settings of that store."""
    monkeypatch.setenv("WAGER_APPENDFSYNC", "always")
    assert wager("serve", "--data-dir", str(tmp_path), "--disk-reserve-bytes", "0").exit_code == 0
    assert str(started[0].store_url).startswith("unix://")


def test_a_taken_port_is_refused_before_the_store_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        result = wager("serve", "--port", port, "--data-dir", str(tmp_path / "data"))
    assert result.exit_code == EXIT_ADDRESS
    assert f"port {port}: Address already in use" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_store_that_cannot_start_has_an_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    result = wager("serve", "--port", port, "--data-dir", str(path))
    assert result.exit_code == EXIT_STORE
    assert result.stderr == f"wager: the embedded store cannot start: {path}: File exists\n"


SECRET = "webhook_secrets"
CHANGED = {
    "host": "localhost", "port": "9000", "data_dir": "elsewhere", "store_url": "redis://other",
    "appendfsync": "always", "auth": "required", "log_format": "json", "metrics_models": "one,two",
    "body_min_bytes_per_second": "2KiB",
}  # fmt: skip


class Started(Exception):  # noqa: N818 - it is not an error
    pass


def settings_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Settings:
    read: list[Settings] = []

    def stop(settings: Settings) -> None:
        read.append(settings)
        raise Started

    monkeypatch.setattr(serve_module, "_listen", stop)
    monkeypatch.setattr(serve_module, "_limit_threads", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    result = CliRunner().invoke(app, ["serve", *arguments])
    assert isinstance(result.exception, Started), result.output
    return read[0]


def option_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def help_text() -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.rich_utils.MAX_WIDTH", 200)
        output = CliRunner().invoke(app, ["serve", "--help"], env={"TERM": "dumb"}).output
    return re.sub(r"[│\s]+", " ", output)


def test_every_setting_is_an_option() -> None:
    shown = set(re.findall(r"--[a-z-]+(?= )", help_text().partition(" Options ")[2])) - {"--help"}
    assert shown == {option_of(name) for name in Settings.model_fields if name != SECRET}
    assert set(Settings.model_fields) - set(options()) == {SECRET}
    assert str(SecretStr.__name__) in str(Settings.model_fields[SECRET].annotation)


def test_no_option_hides_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAGER_WORKERS", "3")
    assert settings_of(monkeypatch) == Settings(workers=3)


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_an_option_sets_its_setting(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"WAGER_{name.upper()}", str(default_of(Settings.model_fields[name]) or ""))
    settings = settings_of(monkeypatch, option_of(name), CHANGED[name])
    expected = Settings(**{name: CHANGED[name]})  # type: ignore[arg-type]
    assert getattr(expected, name) != Settings.model_fields[name].default
    assert settings == expected


def test_a_wrong_option_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(app, ["serve", "--log-format", "xml", "--cache-bytes", "much"])
    assert result.exit_code == EXIT_SETTINGS
    assert [line.split(":")[1] for line in result.stderr.splitlines()] == [
        " cache_bytes (WAGER_CACHE_BYTES)",
        " log_format (WAGER_LOG_FORMAT)",
    ]
    monkeypatch.setenv("WAGER_PORT", "none")
    assert CliRunner().invoke(app, ["serve"]).exit_code == EXIT_SETTINGS


def wager_keys(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["keys", *arguments])


@pytest.mark.parametrize(("options", "reason"), [
    (("--models", "a-*", "--models", "b-*"), "a key has one pattern"),
    (("--expires-in-days", "0"), "must be more than 0"), (("--expires-in-days", "nan"), "must be more than 0"),
], ids=str)  # fmt: skip
def test_useless_keys_are_refused(options: tuple[str, ...], reason: str) -> None:
    refused = wager_keys("create", "the tests", "--scope", "read", *options)
    assert (refused.exit_code, refused.stdout) == (EXIT_SETTINGS, "")
    assert reason in refused.stderr


def id_of(issued: Result) -> str:
    assert issued.exit_code == 0, issued.stderr
    return issued.stdout.split("_")[1]


def test_keys_work_in_a_running_service(tmp_path: Path) -> None:
    """A key created next to a running service works, is listed without its secret, and stops working when revoked."""
    with (
        EmbeddedServer(tmp_path / "data") as server,
        in_thread(server.url, auth="required", key_cache_seconds=0.0) as served,
    ):

        def status(key: str) -> int:
            return httpx2.get(f"{served.url}/learners", headers={"Authorization": f"Bearer {key}"}).status_code

        assert status("none") == 401
        budgets = "--max-requests", "9/hour", "--max-open-bytes", "2KB"
        issued = wager_keys("create", "the tests", "--scope", "read", "--models", "a*", *budgets)
        key, key_id = issued.stdout.strip(), id_of(issued)
        assert status(key) == 200
        listed, shown = wager_keys("list").stdout, "requests=9/hour,open_bytes=2000"
        assert [row.split() for row in listed.splitlines()][1] == [key_id, "the", "tests", "read", "a*", shown]
        assert key.rpartition("_")[2] not in listed
        successor = wager_keys("rotate", key_id, "--overlap-hours", "1").stdout.strip()
        assert (status(key), status(successor)) == (200, 200)
        assert wager_keys("revoke", key_id).exit_code == 0
        assert (status(key), status(successor)) == (401, 200)


def test_keys_can_be_created_before_the_first_start(tmp_path: Path) -> None:
    made = id_of(wager_keys("create", "first", "--scope", "admin", "--expires-in-days", "30"))
    assert made in wager_keys("list").stdout
    with EmbeddedServer(tmp_path / "data", lock_seconds=0.0):  # the command no longer holds the lock
        assert made in wager_keys("list").stdout


def test_a_webhook_secret_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for chosen, models in [((), "*"), (("--models", "shop-*"), "shop-*")]:
        result = wager_keys("webhook-secret", *chosen)
        monkeypatch.setenv("WAGER_WEBHOOK_SECRETS", result.stdout.strip())
        ((pattern, secret),) = Settings().all_webhook_secrets()
        assert (pattern, secret in result.stderr) == (models, True)
    refused = wager_keys("webhook-secret", "--models", "a b")
    assert (refused.exit_code, refused.stdout) == (EXIT_SETTINGS, "")


def test_an_error_names_the_invalid_option() -> None:
    for option, value in [("--scope", "write"), ("--models", "a/b"), ("--max-requests", "some"), ("--max-models", "0")]:
        arguments = {"--scope": "read"} | {option: value}
        result = wager_keys("create", "x", *(word for pair in arguments.items() for word in pair))
        assert (result.exit_code, result.stdout) == (EXIT_REFUSED, "")
        assert option.removeprefix("--").removeprefix("max-") in result.stderr
    for command in ("rotate", "revoke"):
        result = wager_keys(command, "0" * 12)
        assert result.exit_code == EXIT_REFUSED
        assert "no API key" in result.stderr


def test_an_unreachable_store_has_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAGER_STORE_URL", "redis://:hunter2@127.0.0.1:1/0")
    result = wager_keys("list")
    assert result.exit_code == EXIT_STORE
    assert result.stderr.startswith("wager: the store does not answer")
    assert "hunter2" not in result.output


@pytest.mark.parametrize(
    ("environment", "status"), [({}, 401), ({"WAGER_HOST": "127.0.0.1"}, 200), ({"WAGER_AUTH": "off"}, 200)]
)
async def test_an_imported_application_requires_keys(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], status: int
) -> None:
    for name, value in {"WAGER_STORE_URL": "unix:///nowhere/valkey.sock", **environment}.items():
        monkeypatch.setenv(name, value)
    transport = httpx2.ASGITransport(app=create_app())
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/learners")).status_code == status


def repair(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["repair", *arguments])


async def create_damaged_models(url: str) -> None:
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


def test_repair_refuses_a_directory_without_a_store(tmp_path: Path) -> None:
    for folder in (tmp_path / "missing", tmp_path):
        found = CliRunner().invoke(app, ["repair"], env={"WAGER_DATA_DIR": str(folder)})
        assert (found.exit_code, found.stdout) == (EXIT_STORE, "")
        assert "WAGER_DATA_DIR" in found.stderr
    assert not any(tmp_path.iterdir())


def test_repair_lists_all_damage_and_changes_nothing(tmp_path: Path) -> None:
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
    unsearched = "; data of a newer version was not searched"
    assert found.stdout.splitlines()[-1] == f"6 damaged records{unsearched}"
    for name, code in (("whole", 0), ("newer", 0), ("log", 1)):
        assert repair("--model", name).exit_code == code
    ends = {"whole": "no damage found", "newer": f"no damage found{unsearched}", "prediction": "1 damaged record"}
    assert {name: repair("--model", name).stdout.splitlines()[-1] for name in ends} == ends


def test_an_unknown_model_is_an_error(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "data"):
        found = repair("--model", "nothing")
    assert found.exit_code == 2
    assert 'there is no model "nothing"' in found.stderr
