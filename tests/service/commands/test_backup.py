"""The laws of `wager backup` and `wager restore`."""

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner, Result

from service.__main__ import app
from service.store.embedded.server import EmbeddedServer
from tests.servers import dump, raw, wait_until
from tests.service.metrics import parsed
from tests.service.sample_models import definition, some_contexts
from tests.service.threads import Served
from toolkit.backup_folder import BackupError, Note, check_file, read_manifest, write_manifest

NAMES = ["a", "b"]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def ask(live: Served, method: str, path: str, body: Any = None) -> Any:
    response = httpx2.request(method, live.url + path, json=body, timeout=60.0)
    assert response.is_success, response.text
    return response.json() if response.content else None


def distribution(live: Served, name: str) -> Any:
    body = {"model": name, "context": some_contexts(1, 1)[0], "include_distribution": True}
    return ask(live, "POST", "/predict", body)["distribution"]


def test_models_survive_in_a_folder(live: Served, tmp_path: Path) -> None:
    folder, url = tmp_path / "backup", ("--url", live.url)
    for name in NAMES:
        ask(live, "POST", "/models", definition(name))
        for context in some_contexts(2, 3):
            made = ask(live, "POST", "/predict", {"model": name, "context": context})
            ask(live, "POST", "/feedback", {"prediction_id": made["prediction_id"], "correct": True})
    known = {name: distribution(live, name) for name in NAMES}
    for _ in range(2):
        result = run("backup", folder, *url, "--rounds", "--json")
        assert json.loads(result.stdout)["models"] == len(NAMES), result.stderr
    assert len((folder / "a.ndjson").read_text().splitlines()) == 3
    before = (folder / "manifest.json").read_bytes()
    assert run("backup", folder, "--url", "http://127.0.0.1:1").exit_code == 1
    assert (folder / "manifest.json").read_bytes() == before
    ask(live, "DELETE", "/models/b")
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / "b.safetensors").write_bytes(bytes((folder / "b.safetensors").stat().st_size))
    refused = run("restore", damaged, *url)
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (1, 1)
    for restored in (["b"], []):
        result = run("restore", folder, *url, "--json")
        assert json.loads(result.stdout)["restored"] == restored, result.stderr
    assert {name: distribution(live, name) for name in NAMES} == known


def shadows_of(live: Served, name: str, rounds: int) -> Any:
    """Return the shadows of a model, once each has seen this number of rounds."""
    wait_until(
        lambda: [each["rounds_seen"] for each in ask(live, "GET", f"/models/{name}/shadows")["shadows"]] == [rounds]
    )
    return ask(live, "GET", f"/models/{name}/shadows")


def test_shadows_survive_in_a_folder(live: Served, tmp_path: Path) -> None:
    """A restored shadow goes on where it was, with its comparison; a backup is made again when only it has news."""
    folder, url, name = tmp_path / "backup", ("--url", live.url), "shadowed"

    def learn(n: int, seed: int) -> None:
        for context in some_contexts(seed, n):
            made = ask(live, "POST", "/predict", {"model": name, "context": context})
            ask(live, "POST", "/feedback", {"prediction_id": made["prediction_id"], "correct": made["label"] == "red"})

    ask(live, "POST", "/models", definition(name))
    learn(5, 1)
    assert json.loads(run("backup", folder, *url, "--json").stdout)["unchanged"] == []
    ask(live, "PUT", f"/models/{name}/shadows/rival", {"learner": "gaptron"})
    known = shadows_of(live, name, 5)
    assert known["shadows"][0]["comparison"]["served"] is not None
    assert name not in json.loads(run("backup", folder, *url, "--json").stdout)["unchanged"]
    assert name in json.loads(run("backup", folder, *url, "--json").stdout)["unchanged"]
    ask(live, "DELETE", f"/models/{name}")
    assert json.loads(run("restore", folder, *url, "--model", name, "--json").stdout)["restored"] == [name]
    assert shadows_of(live, name, 5) == known
    learn(4, 2)
    (after,), (before,) = shadows_of(live, name, 9)["shadows"], known["shadows"]
    assert (after["compared_rounds"], after["restarts"], after["since_round"]) == (9, 0, before["since_round"])
    promoted = httpx2.post(f"{live.url}/models/{name}/promote", json={"shadow": "rival"}, headers={"If-Match": "*"})
    assert promoted.json()["learner"]["algorithm"] == "gaptron"


def test_the_whole_store_survives_in_a_folder(live: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAGER_STORE_URL", live.store_url)
    folder, was = tmp_path / "whole", time.time()
    ask(live, "POST", "/models", definition("whole"))
    made = [ask(live, "POST", "/predict", {"model": "whole", "context": each}) for each in some_contexts(2, 3)]
    ask(live, "POST", "/feedback", {"prediction_id": made[0]["prediction_id"], "correct": True})
    ask(live, "PUT", "/models/whole/shadows/rival", {"learner": "gaptron"})
    ask(live, "POST", "/models/whole/snapshots", {"id": "kept"})
    with raw(live.store_url) as client:
        client.config_set("repl-diskless-sync-delay", 0)
    wait_until(lambda: ask(live, "GET", "/models/whole/shadows/rival")["lag"] == 0)
    before = dump(live.store_url)
    for _ in range(2):  # the second replaces the first
        result = run("backup", folder, "--all", "--json")
        assert (result.exit_code, result.stderr) == (0, "")
    assert was <= parsed(httpx2.get(live.url + "/metrics").text)["wager_backup_timestamp_seconds", frozenset()]
    ask(live, "DELETE", "/models/whole")
    with EmbeddedServer(folder) as restored:
        after = dump(restored.url)
        assert set(before) <= set(after)
        lasting = [name for name in before if re.search(r"\{whole\}:.*:(log$|p:|kept|shadows$)", name)]
        assert len(lasting) == 7
        assert [name for name in lasting if before[name] != after[name]] == []
    for option in (("--url", live.url), ("--api-key", KEY), ("--rounds",)):  # they are for the backup of a service
        refused = run("backup", folder, "--all", *option)
        assert (refused.exit_code, f"wager: {option[0]}: " in refused.stderr) == (1, True)
    again = run("backup", folder, "--all")  # it is the directory of a store now
    assert (again.exit_code, "it is the log of a store" in again.stderr) == (1, True)


@pytest.mark.parametrize("models", ['"models":[]', '"models":{"a":{}}', '"folders":[]'])
def test_the_manifest_of_another_version_is_named(tmp_path: Path, models: str) -> None:
    (tmp_path / "manifest.json").write_text(f'{{"format":"wager-backup","version":2,"wager":"9.1.0",{models}}}')
    found = run("restore", tmp_path)
    end = "manifest.json has version 2, written by Wager 9.1.0; this release reads version 1"
    assert (found.exit_code, found.stderr.strip().endswith(end)) == (1, True)


@pytest.mark.parametrize("manifest", [None, "", "[]", "{}", '{"format":"x","version":1,"models":[]}'])
def test_a_folder_without_a_manifest_is_no_backup(tmp_path: Path, manifest: str | None) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    result = run("restore", tmp_path)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


def test_a_manifest_names_no_file_outside(tmp_path: Path) -> None:
    note = Note("a", "", 0, [], 1, "")
    write_manifest(tmp_path, [note], "")
    assert read_manifest(tmp_path) == [note]
    with pytest.raises(BackupError):
        check_file(tmp_path, note)
    write_manifest(tmp_path, [note._replace(name="../a")], "")
    with pytest.raises(BackupError):
        read_manifest(tmp_path)


def answering(monkeypatch: pytest.MonkeyPatch, command: str, handler: Callable[[httpx2.Request], Any]) -> None:
    client = httpx2.Client(base_url="http://service", transport=httpx2.MockTransport(handler))
    monkeypatch.setattr(f"toolkit.{command}.connect", lambda *_: client)


def test_what_the_service_refuses_stops_no_other_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = (422, "invalid-model-file")
    statuses = {"broken": broken, "mine": (201, ""), "theirs": (404, "model-not-found"), "there": (409, "model-exists")}
    content = bytes(range(256)) * 9000  # several parts
    notes = [Note(name, "", 0, [], len(content), hashlib.sha256(content).hexdigest()) for name in sorted(statuses)]
    for note in notes:
        (tmp_path / f"{note.name}.safetensors").write_bytes(content)
    write_manifest(tmp_path, notes, "")

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.read() == content
        assert request.headers["content-length"] == str(len(content))
        status, slug = statuses[request.url.path.split("/")[2]]
        return httpx2.Response(status, json={"title": "t", "detail": "d", "type": f"urn:wager:problem:{slug}"})

    answering(monkeypatch, "restore", answer)
    result = run("restore", tmp_path, "--json")
    done = {"restored": ["mine"], "existing": ["there"], "not_allowed": ["theirs"]}
    assert json.loads(result.stdout) == done | {"refused": {"broken": "t: d"}}
    assert (result.exit_code, "names: theirs; the service refuses broken: t: d" in result.stderr) == (1, True)


def test_an_interrupted_export_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = True

    def body() -> Iterator[bytes]:
        yield b"half"
        if broken:
            raise httpx2.ReadError("cut")

    def answer(request: httpx2.Request) -> httpx2.Response:
        match request.url.path:
            case "/models":
                return httpx2.Response(200, json={"models": [{"name": "a"}], "next_cursor": None})
            case "/models/a":
                return httpx2.Response(200, json={"rounds_seen": 3}, headers={"etag": '"e"'})
            case "/models/a/shadows":
                return httpx2.Response(200, json={"shadows": []})
        return httpx2.Response(200, content=body())

    answering(monkeypatch, "backup", answer)
    result = run("backup", tmp_path)
    assert (result.exit_code, result.stderr.splitlines()[1:]) == (1, ["wager: http://service: cut"])
    assert not (tmp_path / "a.safetensors").exists()
    assert not (tmp_path / "manifest.json").exists()
    broken = False
    answering(monkeypatch, "backup", answer)
    first = run("backup", tmp_path)
    assert (first.exit_code, "unchanged" in first.stdout) == (0, False)
    answering(monkeypatch, "backup", answer)
    assert run("backup", tmp_path).stdout.strip().endswith("; unchanged, so not written again: a")
    answering(monkeypatch, "backup", answer)
    assert json.loads(run("backup", tmp_path, "--json").stdout)["unchanged"] == ["a"]
    check_file(tmp_path, *read_manifest(tmp_path))


@pytest.mark.parametrize("options", [
    ("--url", "http://[::1"), ("--url", "ftp://host"), ("--url", "http://host:port"), ("--url", "http://\udcff"),
    ("--api-key", "\xe9"), ("--api-key", "a\nb"), ("--api-key", "\udcff"),
], ids=ascii)  # fmt: skip
def test_what_cannot_be_asked_ends_with_a_sentence(tmp_path: Path, options: tuple[str, str]) -> None:
    for command in (("export", "--model", "m", "--output", tmp_path / "m.parquet"), ("backup", tmp_path), ("demo",)):
        result = run(*command, "--url", "http://127.0.0.1:1", *options)
        assert (result.exit_code, result.stderr[:7]) == (1, "wager: "), result.output
        assert options[0] != "--api-key" or options[1] not in result.stderr


@pytest.mark.parametrize("name", ["a\nb", "a/b", "?", "..", "\udcff"], ids=ascii)
def test_a_name_that_no_model_can_have_is_refused(live: Served, tmp_path: Path, name: str) -> None:
    result = run("export", "--model", name, "--output", tmp_path / "m.parquet", "--url", live.url)
    assert result.exit_code == 1
    assert result.stderr.startswith("wager: there is no model "), result.stderr


KEY = "wk_000000000000_" + "0" * 64
