"""The laws of the settings."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from service.error_messages.values import quoted
from service.schemas.rounds import FeedbackRequest
from service.settings import FEEDBACK_FIELDS, FOREIGN, Settings
from service.store.connections.addresses import parse_store_url
from tests.certificates import Certificates, make_certificates

ROOT = Path(__file__).parents[2]
SECRET = "whsec_" + "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg=="
LONG_PATH = "/d" * 3000
OUT_OF_RANGE = [
    ("host", ""), ("host", "a..b"), ("host", f"{'a' * 70}.example"), ("host", "."), ("host", "a\0b"),
    ("data_dir", ""), ("data_dir", "a\0b"), ("data_dir", os.fsdecode(b"caf\xe9")), ("log_format", os.fsdecode(b"\xff")),
    ("disk_reserve_bytes", -1), ("memory_limit_bytes", 2**24 - 1), ("disk_reserve_bytes", 2**40 + 1),
    ("cors_origins", "http://page.example:65536"), ("cors_origins", "http://page..example"),
    ("cors_origins", f"http://{'a' * 64}.example"), ("cors_origins", "http://[::::]"), ("cors_origins", ","),
    ("allowed_hosts", "a..b"), ("allowed_hosts", f"{'a' * 64}.example"), ("allowed_hosts", "a." * 127 + "a"),
    ("allowed_hosts", " , "), ("metrics_models", ","), ("port", 0), ("port", 65536), ("workers", 0),
    ("store_timeout_seconds", 0.0), ("max_body_bytes", 1023), ("max_batch_items", 0), ("max_state_bytes", 0),
    ("cache_bytes", 0), ("graceful_shutdown_seconds", -1), ("drain_seconds", -1), ("appendfsync", "no"),
    ("auth", "maybe"), ("key_cache_seconds", -1), ("body_timeout_seconds", 0), ("body_grace_seconds", 0),
    ("body_min_bytes_per_second", -1), ("head_timeout_seconds", 0), ("max_requests_in_flight", 0),
    ("max_distribution_numbers", 0), ("webhook_secrets", ","), ("webhook_secrets", "whsec_hunter2"),
    ("webhook_secrets", f"a/b={SECRET}"), ("webhook_members", "correct"), ("webhook_members", "correct=a..b"),
    ("webhook_members", "label=a"),
    ("webhook_secrets", f"{SECRET},{SECRET[6:]}"), ("store_url", "http://localhost"), ("store_url", "redis://"),
    ("store_url", "redis://localhost:port"), ("store_url", "redis://localhost:0"),
    ("store_url", "redis://one:1,two:2"), ("store_url", "redis://localhost/first"),
    ("store_url", "redis://localhost?retry=10"), ("store_url", "redis://:pass#word@localhost"),
    ("store_url", "unix://"), ("store_url", "http://user:hunter2@host"), ("store_url", "redis://user:pass\tword@localhost"),
    ("store_url", "redis://:a?hunter2@localhost"), ("store_url", "redis://:a?hunter2=b@localhost"),
    ("store_url", "redis://user:password\n@localhost"), ("store_url", "redis://[::1"), ("store_url", "redis://a..b"),
    ("store_url", "redis+cluster://[::1],[::2"),
    ("store_url", f"redis+cluster://one:1,{'a' * 64}:2"), ("store_url", "unix:///run/a%00b"),
    ("store_url", "redis+cluster://"), ("store_url", "redis+cluster://one:1,,two:2"),
    ("store_url", "redis+cluster://one:1/3"), ("store_url", "redis+sentinel://one:1,two:2"),
    ("store_url", "rediss+sentinel://one:1/service/first"), ("store_ca_file", "/nowhere/ca.pem"),
    ("store_ca_file", LONG_PATH), ("store_ca_file", __file__), ("store_cert_file", __file__),
    ("secrets_dir", "/nowhere/at/all"), ("secrets_dir", __file__), ("secrets_dir", LONG_PATH),
    ("secrets_dir", "a\0b"),
]  # fmt: skip
ALLOWED = [
    ("host", "::1%lo"), ("host", "bücher.example"), ("host", "wager.example."), ("disk_reserve_bytes", 2**40),
    ("memory_limit_bytes", 2**24),
    ("cors_origins", "http://page.example:65535,https://[::1]:3000,"),
    ("allowed_hosts", f"wager.example,my_host,{'a' * 63}.example"), ("store_url", "redis://bücher.example"),
]  # fmt: skip
PARSED_URLS = [
    ("redis://host", ([("host", 6379)], "", 0, (None, None))),
    ("rediss://user:p%40ss@host:7/2", ([("host", 7)], "", 2, ("user", "p@ss"))),
    ("redis+cluster://a:1,[::1]:2", ([("a", 1), ("::1", 2)], "", 0, (None, None))),
    ("rediss+cluster://:pw@a,b", ([("a", 6379), ("b", 6379)], "", 0, (None, "pw"))),
    ("redis+sentinel://u:pw@a,b:2/main", ([("a", 26379), ("b", 2)], "main", 0, ("u", "pw"))),
    ("rediss+sentinel://a/main/3?sentinel_password=x", ([("a", 26379)], "main", 3, (None, None))),
]
SHOWN_URLS = [
    ("redis://user:pa55word@host:6379/0", "redis://user:***@host:6379/0"),
    ("rediss://:pa55word@host", "rediss://:***@host"),
    ("redis+cluster://user:pa55word@a:1,b:2", "redis+cluster://user:***@a:1,b:2"),
    ("rediss+sentinel://:pa55word@a/main?sentinel_password=pa55word", "rediss+sentinel://:***@a/main?***"),
    ("redis://host:6379?password=pa55word", "redis://host:6379?***"),
    ("unix:///run/valkey.sock", "unix:///run/valkey.sock"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"WAGER_{name.upper()}", raising=False)


def refused(caught: pytest.ExceptionInfo[ValidationError]) -> list[str]:
    return [str(problem["loc"][0]) for problem in caught.value.errors()]


def test_defaults_need_no_environment() -> None:
    settings = Settings()
    assert (settings.host, settings.port, settings.workers) == ("127.0.0.1", 8000, 1)
    assert (settings.data_dir, settings.store_url) == (Path("wager-data"), None)
    assert settings.max_body_bytes == 4 * 2**20


def test_environment_is_read_and_arguments_override_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable counts as unset, as a compose file leaves it; a size may have a unit."""
    for name, value in {"PORT": "9000", "WORKERS": "3", "STORE_URL": "", "CACHE_BYTES": "64MiB"}.items():
        monkeypatch.setenv(f"WAGER_{name}", value)
    settings = Settings(port=9001)
    assert (settings.port, settings.workers, settings.store_url) == (9001, 3, None)
    assert settings.cache_bytes == 64 * 2**20


@pytest.mark.parametrize("file_name", ["WAGER_STORE_URL", "wager_store_url"])
def test_a_secret_is_read_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_name: str) -> None:
    """A file in the secrets folder, or a link to one elsewhere, sets the setting it is named after.

    Without text it counts as unset; an error does not show its value.
    """
    folder, path = tmp_path / "secrets", tmp_path / "elsewhere"
    folder.mkdir()
    (folder / file_name).symlink_to(path)
    path.write_text("redis://:p%40ss@valkey\n")
    monkeypatch.setenv("WAGER_SECRETS_DIR", str(folder))
    assert Settings().store_url == "redis://:p%40ss@valkey"
    path.write_text(" \n")
    assert Settings().store_url is None
    path.write_text("http://user:secret@host")
    monkeypatch.delenv("WAGER_SECRETS_DIR")
    with pytest.raises(ValidationError) as caught:
        Settings(secrets_dir=folder)
    assert refused(caught) == ["store_url"]
    assert "secret@" not in str(caught.value)
    assert Settings().store_url is None


@pytest.mark.parametrize(
    "name",
    ["WAGER_AUTHH", "wager_authh", "WAGER_STORE_PORT", "WAGER__AUTH", "WAGER_SERVICE", "WAGER_", "WAGER_PORT ",
     "WAGER_PORT.BAK", "Wager_Pört", os.fsdecode(b"WAGER_\xff")],
)  # fmt: skip
def test_an_unknown_variable_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "hunter2")
    with pytest.raises(ValidationError) as caught:
        Settings(port=0)
    assert refused(caught) == ["port", quoted(name)]
    assert "hunter2" not in str(caught.value)
    monkeypatch.setenv(name, "")
    Settings()


@pytest.mark.parametrize("name", ["WAGER_STORE_URI", "wager_webhook_secret", "wager_store_url~", "WAGER_PORT.BAK"])
def test_an_unknown_secret_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / name).write_text("hunter2")
    for other in ("password", "store_url", ".wager_store_url.swp"):
        (tmp_path / other).write_text("hunter2")
    Settings(secrets_dir=tmp_path)
    (tmp_path / name).symlink_to(tmp_path / "..data" / name)  # as Kubernetes mounts it
    with pytest.raises(ValidationError) as caught:
        Settings(secrets_dir=tmp_path)
    assert refused(caught) == [quoted(name)]
    (tmp_path / "..data" / name).write_text("\n")
    Settings(secrets_dir=tmp_path)


@pytest.mark.parametrize(("name", "field"), [("WAGER_STORE_URL", "store_url"), ("wager_stores", '"wager_stores"')])
@pytest.mark.parametrize("kind", ["directory", "broken link", "loop", "pipe", "bytes"])
def test_a_secret_that_cannot_be_read_is_refused_by_name(tmp_path: Path, name: str, field: str, kind: str) -> None:
    path = tmp_path / name
    match kind:
        case "directory":
            path.mkdir()
        case "broken link":
            path.symlink_to(tmp_path / "nowhere")
        case "loop":
            path.symlink_to(path)
        case "pipe":
            os.mkfifo(path)
        case _:
            path.write_bytes(b"redis://\xff")
    with pytest.raises(ValidationError) as caught:
        Settings(secrets_dir=tmp_path)
    assert refused(caught) == [field]


@pytest.mark.parametrize("in_files", [True, False])
def test_a_setting_given_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_files: bool) -> None:
    def give(name: str, value: str) -> None:
        if in_files:
            (tmp_path / name).write_text(value)
        else:
            monkeypatch.setenv(name, value)

    give("WAGER_PORT", "9000")
    give("wager_port", "")
    assert Settings(secrets_dir=tmp_path).port == 9000
    give("wager_port", "9001")
    with pytest.raises(ValidationError, match="given twice, as WAGER_PORT and wager_port") as caught:
        Settings(secrets_dir=tmp_path)
    assert refused(caught) == ["port"]


OF_KUBERNETES = {
    "SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "8000", "SERVICE_PORT_HTTP": "8000",
    "PORT_8000_TCP": "tcp://10.0.0.1:8000", "PORT_8000_TCP_PROTO": "tcp", "PORT_8000_TCP_PORT": "8000",
    "PORT_8000_TCP_ADDR": "10.0.0.1",
}  # fmt: skip


@pytest.mark.parametrize("service", ["WAGER_", "WAGER_STORE_"])
def test_what_kubernetes_sets_is_no_setting(monkeypatch: pytest.MonkeyPatch, service: str) -> None:
    for name, value in OF_KUBERNETES.items():
        monkeypatch.setenv(service + name, value)
    assert Settings() == Settings.model_construct()
    monkeypatch.setenv(f"{service}PORT", "tcp://10.0.0.1:8000")
    if service == "WAGER_STORE_":
        Settings()
        return
    with pytest.raises(ValidationError, match="enableServiceLinks: false") as caught:
        Settings()
    assert refused(caught) == ["port"]


def test_the_names_of_other_parts_are_allowed() -> None:
    search = ["git", "grep", "-hoIE", r"\bWAGER_[A-Z_]*[A-Z]\b", "--", ".", ":!tests/service"]
    listed = subprocess.run(search, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {name.removeprefix("WAGER_").lower() for name in listed.split()} == FOREIGN | set(Settings.model_fields)


@pytest.mark.parametrize(("name", "value"), OUT_OF_RANGE)
def test_a_wrong_value_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**{name: value})  # type: ignore[arg-type]
    assert refused(caught) == [name]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), ALLOWED)
def test_a_value_at_its_limit_is_allowed(name: str, value: object) -> None:
    Settings(**{name: value})  # type: ignore[arg-type]


TOGETHER: list[tuple[dict[str, Any], list[str], str]] = [
    ({"workers": 2, "drain_seconds": 1.0}, ["workers"], "drain_seconds"),  # a balancer cannot see which one drains
    ({"store_url": "redis://host", "appendfsync": "always"}, ["appendfsync"], "embedded store"),
    ({"store_url": "redis://host", "disk_reserve_bytes": "1GiB"}, ["disk_reserve_bytes"], "embedded store"),
    ({"store_url": "redis://host", "memory_limit_bytes": "1GiB"}, ["memory_limit_bytes"], "embedded store"),
    ({"store_url": "http://host", "wait_replicas": 1, "appendfsync": "always"}, ["store_url"], "store_url"),
]


@pytest.mark.parametrize(("given", "names", "said"), TOGETHER, ids=str)
def test_settings_that_contradict_each_other_are_refused(given: dict[str, Any], names: list[str], said: str) -> None:
    with pytest.raises(ValidationError, match=said) as caught:
        Settings(**given)
    assert set(refused(caught)) <= {*names, "drain_seconds"}
    Settings(store_url="redis://host", data_dir=Path("/data"))  # the container image sets it


@pytest.mark.parametrize(("url", "expected"), PARSED_URLS)
def test_a_store_url_is_parsed(url: str, expected: object) -> None:
    address = parse_store_url(Settings(store_url=url).store_url or "")
    assert (address.nodes, address.service, address.db, address.user) == expected
    assert address.tls == url.startswith("rediss")


def tls(**files: Path) -> Any:
    return {"store_url": "rediss+cluster://host", **{f"store_{name}_file": path for name, path in files.items()}}


def test_a_tls_key_needs_a_certificate(made: Certificates) -> None:
    assert Settings(**tls(ca=made.ca, cert=made.client, key=made.client)).store_key_file == made.client
    assert Settings(**tls(cert=made.client)).tls_files.certificate == made.client
    with pytest.raises(ValidationError, match="needs a certificate"):
        Settings(**tls(key=made.client))


@pytest.mark.parametrize("content", ["", "no certificate", "key", "cert", "other key"])
@pytest.mark.parametrize("name", ["ca", "cert", "key"])
def test_a_tls_file_without_its_part_is_refused_by_name(
    tmp_path: Path, made: Certificates, name: str, content: str
) -> None:
    client = made.client.read_text()
    at = client.index("-----BEGIN CERT")
    texts = {"key": client[:at], "cert": client[at:], "other key": made.server.read_text()}
    wrong, separate = tmp_path / "wrong.pem", tmp_path / "cert.pem"
    wrong.write_text(texts.get(content, content))
    separate.write_text(texts["cert"])
    given = tls(**{"cert": separate, "key": made.client} if name != "ca" else {}) | {f"store_{name}_file": wrong}
    if (name, content) in {("ca", "cert"), ("ca", "other key"), ("cert", "cert"), ("key", "key")}:
        Settings(**given)
        return
    with pytest.raises(ValidationError) as caught:
        Settings(**given)
    assert set(refused(caught)) <= {f"store_{name}_file", "store_key_file"}


@pytest.mark.parametrize(("url", "shown"), SHOWN_URLS)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    settings = Settings(store_url=url)
    assert settings.masked_store_url == shown
    assert shown in repr(settings)
    assert "pa55word" not in f"{settings!r} {settings}"


def test_workers_read_back_what_the_parent_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(port=9000, data_dir=Path("/tmp/a b"), store_url="redis://:p%40ss@host/1", cache_bytes=2**30)
    for name, value in settings.as_environment().items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings


@pytest.mark.parametrize("in_file", [True, False])
def test_webhooks_may_have_several_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_file: bool) -> None:
    if in_file:
        (tmp_path / "wager_webhook_secrets").write_text(f"{SECRET}\n{SECRET}\n")
        monkeypatch.setenv("WAGER_SECRETS_DIR", str(tmp_path))
    else:
        monkeypatch.setenv("WAGER_WEBHOOK_SECRETS", f"{SECRET}, {SECRET}")
    settings = Settings()
    assert settings.all_webhook_secrets() == [("*", SECRET)] * 2
    assert SECRET[6:] not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    for name, value in settings.as_environment().items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings
    assert Settings().all_webhook_secrets() == [("*", SECRET)] * 2


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_loopback_keys_are_required_only_on_request(host: str) -> None:
    assert [Settings(host=host, auth=auth).keys_required for auth in ("auto", "required")] == [False, True]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", None])
def test_keys_are_required_if_other_machines_can_reach_the_service(host: str | None) -> None:
    """With no host set, another program may listen on any address."""
    given: Any = {} if host is None else {"host": host}
    found = {auth: Settings(**given, auth=auth).keys_required for auth in ("auto", "required", "off")}
    assert found == {"auto": True, "required": True, "off": False}


def test_webhooks_can_rename_every_field_of_feedback() -> None:
    assert tuple(FeedbackRequest.model_fields) == FEEDBACK_FIELDS
