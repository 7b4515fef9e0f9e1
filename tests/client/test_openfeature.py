"""The published OpenFeature providers evaluate flags of a running service: those of Python, Node and browsers."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason
from openfeature.track import TrackingEventDetails
from requests import HTTPError

from tests.service import wager as server
from wager_client import Wager
from wager_client.problem_types import NotActivatedError

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "openfeature"
VALUES: dict[str, Any] = {"red": {"color": "#f00"}, "green": {"color": "#0f0"}}


@pytest.fixture
def wager(running: server.Wager) -> Iterator[Wager]:
    with Wager(running.url, timeout=60.0) as client:
        yield client


@pytest.fixture
def flag(wager: Wager, name: str) -> Iterator[str]:
    sticky: Any = {"bulk": True, "sticky_seconds": 86_400.0}
    key = f"of-{name}"
    wager.create_model(key, labels=["red", "green"], features={"kind": "named"}, values=VALUES, ofrep=sticky)
    yield key
    wager.delete_model(key)


def node(*arguments: str) -> str:
    program = shutil.which("node")
    if program is None:
        pytest.skip("no node on this machine")
    if not (EXAMPLES / "node_modules").is_dir():
        pytest.skip("no providers for Node: npm ci --prefix examples/openfeature")
    done = subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_provider_of_python_gets_values_and_errors(running: server.Wager, wager: Wager, flag: str) -> None:
    api.set_provider(provider := OFREPProvider(running.url))
    client, context = api.get_client(), EvaluationContext("user", {"country": "FR", "tags": ["new"]})
    first = client.get_object_details(flag, {}, context)
    assert (first.error_code, first.reason, first.value) == (None, Reason.SPLIT, VALUES[str(first.variant)])
    assert 0.0 < float(first.flag_metadata["propensity"]) <= 1.0
    again = client.get_object_details(flag, {}, context)
    assert again.flag_metadata == first.flag_metadata
    prediction = str(first.flag_metadata["predictionId"])
    assert wager.feedback(prediction, correct=True).status == "recorded"
    assert wager.feedback(prediction, correct=True).status == "duplicate"
    errors = [
        client.get_string_details(flag, "default", context),
        client.get_object_details(flag, {}, EvaluationContext(None, {"country": "FR"})),
        client.get_object_details(flag, {}, EvaluationContext("user", {"tags": [[1]]})),
        client.get_string_details(f"{flag}-unknown", "default", context),
    ]
    assert [each.error_code for each in errors] == [
        ErrorCode.TYPE_MISMATCH,
        ErrorCode.TARGETING_KEY_MISSING,
        ErrorCode.INVALID_CONTEXT,
        ErrorCode.FLAG_NOT_FOUND,
    ]
    assert [each.value for each in errors] == ["default", {}, {}, "default"]
    api.shutdown()
    provider.session.close()


TYPES: dict[str, Any] = {
    "string": None,
    "boolean": {"red": True, "green": False},
    "integer": {"red": 1, "green": 2},
    "float": {"red": 1, "green": 2.5},
}


@pytest.mark.parametrize("kind", TYPES)
def test_the_provider_of_python_gets_every_type(running: server.Wager, wager: Wager, flag: str, kind: str) -> None:
    values = TYPES[kind]
    wager.change_model(flag, {"values": values}, etag="*")
    api.set_provider(provider := OFREPProvider(running.url))
    default: Any = {"string": "", "boolean": False, "integer": 0, "float": 0.0}[kind]
    evaluate = getattr(api.get_client(), f"get_{kind}_details")
    found = [evaluate(flag, default, EvaluationContext(f"user-{number}")) for number in range(20)]
    assert [each.error_code for each in found] == [None] * 20
    assert {each.value for each in found} == ({"red", "green"} if values is None else set(values.values()))
    api.shutdown()
    provider.session.close()


def test_the_providers_of_javascript_get_values_and_errors(running: server.Wager, wager: Wager, flag: str) -> None:
    found = json.loads(node("tests/client/providers.mjs", running.url, flag, f"{flag}-unknown"))
    own = found["server"]
    assert own["first"]["value"] == VALUES[own["first"]["variant"]]
    assert own["again"] == own["first"]
    codes = {name: own[name]["errorCode"] for name in ("wrongType", "noKey", "wrongContext", "unknown")}
    assert codes == {
        "wrongType": "TYPE_MISMATCH",
        "noKey": "TARGETING_KEY_MISSING",
        "wrongContext": "INVALID_CONTEXT",
        "unknown": "FLAG_NOT_FOUND",
    }
    web = found["web"]
    assert web["statuses"] == [200, 304, 304]
    assert web["first"] == web["again"]
    assert web["first"]["value"] == VALUES[web["first"]["variant"]]
    assert web["unknown"]["errorCode"] == "FLAG_NOT_FOUND"
    shown = web["first"]["flagMetadata"]["predictionId"]
    with pytest.raises(NotActivatedError):
        wager.feedback(shown, correct=True)
    wager.activate(shown)
    assert wager.feedback(shown, correct=True).status == "recorded"


def quarters(printed: str) -> list[float]:
    return [float(line.split(": ")[1].partition("%")[0]) for line in printed.splitlines()]


def test_the_example_of_python_learns(running: server.Wager) -> None:
    command = [sys.executable, "examples/openfeature/flags.py", "--url", running.url, "--visitors", "200"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert quarters(done.stdout)[-1] > 80.0


def test_the_example_of_python_keeps_the_first_reward(running: server.Wager, wager: Wager, flag: str) -> None:
    provider = runpy.run_path(str(EXAMPLES / "flags.py"))["WagerProvider"](running.url, {"read": flag})
    api.set_provider(provider)
    client, context = api.get_client(), EvaluationContext("user", {"country": "FR"})
    for reward in (1.0, 0.0):
        shown = client.get_object_details(flag, {}, context).flag_metadata["predictionId"]
        client.track("read", context, TrackingEventDetails(value=reward))
    assert wager.feedback(str(shown), reward=1.0).status == "duplicate"
    client.get_object_details(flag, {}, context)
    with pytest.raises(HTTPError):
        client.track("read", context, TrackingEventDetails(value=2.0))
    api.shutdown()
    provider.session.close()


def test_the_example_of_node_learns(running: server.Wager) -> None:
    assert quarters(node("examples/openfeature/flags.mjs", running.url, "200"))[-1] > 80.0


def test_the_example_of_the_page_runs(running: server.Wager, wager: Wager, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)\n```", (ROOT / "docs/guides/openfeature.md").read_text(), re.DOTALL)
    wager.create_model("page", labels=["photos", "table", "video"], features={"kind": "named"})
    scope: dict[str, Any] = {}
    exec(code.replace("http://127.0.0.1:8000", running.url), scope)
    value, prediction = capsys.readouterr().out.split()
    assert value in {"photos", "table", "video"}
    assert wager.feedback(prediction, correct=True).status == "recorded"
    wager.delete_model("page")
    api.shutdown()
