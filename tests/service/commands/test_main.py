"""The laws of the command line."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from service import __version__
from service.__main__ import app
from service.commands import serve as serve_module
from service.commands.options import EXIT_ADDRESS, EXIT_SETTINGS, EXIT_STORE
from service.settings import Settings


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"WAGER_{name.upper()}", raising=False)


@pytest.fixture(autouse=True)
def _unchanged_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo what commands change in the test process."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    handler = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler)


def wager(*arguments: str) -> Result:
    """Run `wager` with these arguments in this process."""
    return CliRunner().invoke(app, arguments)


def test_version_is_printed() -> None:
    """`wager version` and `wager --version` print the version of the package and nothing else."""
    assert wager("version").output == wager("--version").output == f"{__version__}\n"


def test_version_imports_no_heavy_module() -> None:
    """`wager version` imports neither the web framework, nor numpy, nor the store's client."""
    code = (
        "import sys; from service.__main__ import app\n"
        "try: app(['version'])\n"
        "except SystemExit: pass\n"
        "heavy = {'fastapi', 'numpy', 'redis', 'uvicorn', 'pydantic_settings'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_each_wrong_setting_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong settings end `wager serve` with code 2 and one line each, which names the variable."""
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
    """A secret without readable text ends a command with code 2 and one line, which names its setting."""
    path = tmp_path / "WAGER_DATA_DIR"
    match kind:
        case "directory":
            path.mkdir()
        case "broken link":
            path.symlink_to("nowhere")
        case _:
            path.write_bytes(b"caf\xe9" if kind == "bytes" else b"a\0b")
    monkeypatch.setenv("WAGER_SECRETS_DIR", str(tmp_path))
    result = wager(*command)
    assert result.exit_code == EXIT_SETTINGS
    assert result.output.startswith("wager: data_dir (WAGER_DATA_DIR): ")
    assert result.output.count("\n") == 1


def test_workers_read_the_settings_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However variables are written, options override them for workers too, which read no files again."""
    started: list[Settings] = []

    def run(*_: object) -> bool:
        (tmp_path / "WAGER_PROT").write_text("added later")
        started.append(Settings())
        return True

    monkeypatch.setattr(serve_module, "_listen", lambda _: socket.socket())
    monkeypatch.setattr(serve_module, "_run_http", run)
    (tmp_path / "WAGER_STORE_URL").write_text("redis://store")
    monkeypatch.setenv("WAGER_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("wager_workers", "3")
    assert wager("serve", "--workers", "2").exit_code == 0
    assert [(each.workers, each.store_url) for each in started] == [(2, "redis://store")]


def test_workers_of_the_embedded_store_read_its_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker accepts what it inherits: the URL of the embedded store after settings of that store."""
    started: list[Settings] = []

    def run(*_: object) -> bool:
        started.append(Settings())
        return True

    monkeypatch.setattr(serve_module, "_listen", lambda _: socket.socket())
    monkeypatch.setattr(serve_module, "_run_http", run)
    options = ("--data-dir", str(tmp_path), "--disk-reserve-bytes", "0")
    monkeypatch.setenv("WAGER_APPENDFSYNC", "always")
    assert wager("serve", *options).exit_code == 0
    assert str(started[0].store_url).startswith("unix://")


def test_a_taken_port_is_refused_before_the_store_starts(tmp_path: Path) -> None:
    """A port in use ends `wager serve` with `EXIT_ADDRESS` before it creates a data directory."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        result = wager("serve", "--port", port, "--data-dir", str(tmp_path / "data"))
    assert result.exit_code == EXIT_ADDRESS
    assert f"port {port}: Address already in use" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_store_that_cannot_start_has_an_exit_code(tmp_path: Path) -> None:
    """A data directory that is a file ends `wager serve` with `EXIT_STORE` and a message."""
    path = tmp_path / "file"
    path.touch()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    result = wager("serve", "--port", port, "--data-dir", str(path))
    assert result.exit_code == EXIT_STORE
    assert result.stderr.startswith("wager: the embedded store cannot start")
    assert str(path) in result.stderr
