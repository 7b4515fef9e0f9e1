"""The options of `wager serve` are the settings: same names, defaults and descriptions."""

import re
import signal

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from service.__main__ import app
from service.commands import serve as serve_module
from service.commands.options import EXIT_SETTINGS
from service.commands.serve_options import default_of, options
from service.settings import Settings

SECRET = "webhook_secrets"
CHANGED = {  # a valid value of each setting, other than its default
    "host": "localhost",
    "port": "9000",
    "data_dir": "elsewhere",
    "store_url": "redis://other",
    "appendfsync": "always",
    "auth": "required",
    "log_format": "json",
    "metrics_models": "one,two",
    "body_min_bytes_per_second": "2KiB",
}


class Started(Exception):  # noqa: N818 - it is not an error
    """Raised instead of starting, after `wager serve` has read its settings."""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"WAGER_{name.upper()}", raising=False)


def settings_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Settings:
    """Return the settings that `wager serve` starts with."""
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
    """Return the option of a setting."""
    return f"--{name.replace('_', '-')}"


def help_text() -> str:
    """Return the help without its frame, in one line."""
    output = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    return re.sub(r"[│\s]+", " ", output)


def test_every_setting_is_an_option() -> None:
    """Every setting but the secret one is an option; a process list would reveal a secret."""
    shown = set(re.findall(r"--[a-z-]+(?= )", help_text().partition(" Options ")[2])) - {"--help"}
    assert shown == {option_of(name) for name in Settings.model_fields if name != SECRET}
    assert set(Settings.model_fields) - set(options()) == {SECRET}
    assert str(SecretStr.__name__) in str(Settings.model_fields[SECRET].annotation)


@pytest.mark.parametrize("name", sorted(options()))
def test_the_help_has_each_description_and_default(name: str) -> None:
    """The help shows each setting's description, and its default as a user would write it."""
    field, text = Settings.model_fields[name], help_text()
    default = default_of(field)
    assert f"{field.description}" + (f" Default: {default}." if default else "") in text
    if default is not None:
        assert getattr(Settings(**{name: default}), name) == field.default  # type: ignore[arg-type]


def test_no_option_hides_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without options, the settings are those of the environment, and otherwise the defaults."""
    monkeypatch.setenv("WAGER_WORKERS", "3")
    assert settings_of(monkeypatch) == Settings(workers=3)


@pytest.mark.parametrize("name", sorted(CHANGED))
def test_an_option_sets_its_setting(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """An option sets only its own setting, and overrides that setting's variable."""
    monkeypatch.setenv(f"WAGER_{name.upper()}", str(default_of(Settings.model_fields[name]) or ""))
    settings = settings_of(monkeypatch, option_of(name), CHANGED[name])
    expected = Settings(**{name: CHANGED[name]})  # type: ignore[arg-type]
    assert getattr(expected, name) != Settings.model_fields[name].default
    assert settings == expected


def test_a_wrong_option_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong option ends with exit code 2, like a wrong variable; its line names the setting and the variable."""
    result = CliRunner().invoke(app, ["serve", "--log-format", "xml", "--cache-bytes", "much"])
    assert result.exit_code == EXIT_SETTINGS
    assert [line.split(":")[1] for line in result.stderr.splitlines()] == [
        " cache_bytes (WAGER_CACHE_BYTES)",
        " log_format (WAGER_LOG_FORMAT)",
    ]
    monkeypatch.setenv("WAGER_PORT", "none")
    assert CliRunner().invoke(app, ["serve"]).exit_code == EXIT_SETTINGS
