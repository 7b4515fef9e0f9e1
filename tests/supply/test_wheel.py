"""The wheel, installed into an environment that has nothing else, serves and learns."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from service.processes import tied_command
from tests.servers import free_port, wait_until

ROOT = Path(__file__).parents[2]


def installed(folder: Path) -> Path:
    """Build the wheel, install it with its locked dependencies, and return the folder of its commands."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "venv"), "install"]
    locked = ["--no-compile", "--require-hashes", "-r", str(ROOT / "requirements/serve.txt")]
    found = subprocess.run([*pip, "--quiet", *locked], capture_output=True, text=True, check=False)
    if "Could not find a version" in found.stderr or "ConnectionError" in found.stderr:
        pytest.skip("no package index can be reached")
    assert found.returncode == 0, found.stderr
    subprocess.run([*pip, "--quiet", "--no-deps", str(wheel)], check=True)
    return folder / "venv" / "bin"


def post(url: str, body: object) -> dict[str, object]:
    request = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request) as answer:
        return dict(json.load(answer))


def is_ready(url: str, model: str) -> bool:
    """Whether the model's learner is compiled: until then, an explanation gets 503."""
    try:
        return bool(post(f"{url}/models/{model}/explain", {"context": {"hour": 9}}))
    except HTTPError as refused:
        if refused.code != 503:
            raise
        return False


def is_live(url: str) -> bool:
    try:
        with urlopen(f"{url}/livez") as answer:
            return bool(answer.status == 200)
    except URLError:
        return False


@pytest.mark.slow  # it installs 300 MB, and would make the disk of other tests slow
def test_the_wheel_serves_from_an_empty_environment(tmp_path: Path) -> None:
    wager, port = installed(tmp_path) / "wager", free_port()
    url, command = f"http://127.0.0.1:{port}", [str(wager), "serve", "--port", str(port), "--data-dir", str(tmp_path)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA"))}
    process = subprocess.Popen(tied_command(command), cwd=tmp_path, env=clean)
    try:
        wait_until(lambda: is_live(url))
        post(f"{url}/models", {"name": "m", "labels": ["a", "b"], "features": {"kind": "named"}})
        wait_until(lambda: is_ready(url, "m"), seconds=200)
        made = post(f"{url}/predict", {"model": "m", "context": {"hour": 9}})
        assert made["label"] in {"a", "b"}
        assert post(f"{url}/feedback", {"prediction_id": made["prediction_id"], "correct": True})["round"] == 1
        assert post(f"{url}/predict", {"model": "m", "context": {"hour": 9}})["rounds_seen"] == 1
    finally:
        process.terminate()
        assert process.wait(60) == 0
