"""The laws of `wager load`: its audit convicts a server that lies, and acquits one that does not."""

import asyncio
import io
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from service.commands.main import app
from service.load import command
from service.load.http.errors import LoadError
from service.load.plan import Plan
from service.load.report import SATURATED, Report
from service.load.run import drive
from tests.servers import free_port
from tests.service.load.world_server import FakeWager, serving
from tests.service.wager import serve


def plan_for(url: str, **options: object) -> Plan:
    """A short load."""
    short = {"url": url, "rate": 300.0, "seconds": 0.6, "warm_up": 0.1, "delay": 0.05, "duplicates": 0.3, "timeout": 5}
    return Plan.from_options(short | options)


async def load_on(fake: FakeWager, **options: object) -> Report:
    """The report of a short load on a server of the tests."""
    async with serving(fake.answer) as url:
        return await drive(plan_for(url, **options), Console(file=io.StringIO()))


@pytest.mark.parametrize("processes", [1, 2])
async def test_an_honest_server_is_acquitted(processes: int) -> None:
    """All counters agree: each prediction has one round, however often its feedback was sent; models are deleted."""
    fake = FakeWager()
    report = await load_on(fake, processes=processes, models=3)
    audit = report.audit
    predictions = sum(map(len, fake.predictions.values()))
    assert audit.predictions_answered == audit.feedbacks_acknowledged == audit.rounds_in_the_logs == predictions
    assert predictions == pytest.approx(210, rel=0.5)
    assert audit.wrong == audit.unknown == 0
    assert fake.feedbacks > predictions  # some twice
    assert len(fake.deleted) == len(fake.predictions) == 3
    assert len(report.cpu) == processes
    assert report.accuracy() == pytest.approx(1 / 10, abs=0.1)
    assert min(map(len, fake.logs.values())) > 0
    first = [line["prediction_id"] for line in next(iter(fake.logs.values()))]
    assert first != sorted(first, key=lambda id_: [int(part) for part in id_.partition(":")[2].split(".")])


@pytest.mark.parametrize(
    ("fault", "counter"),
    [
        ("lose", "lost"),
        ("repeat", "repeated"),
        ("alter", "altered"),
        ("invent", "unasked"),
        ("forget", "predictions_lost"),
    ],
)
async def test_a_lie_is_found(fault: str, counter: str) -> None:
    """One round in ten that is lost, repeated, altered or invented is counted as just that."""
    report = await load_on(FakeWager(fault))
    counts = report.audit.to_json()
    wrong = {"lost", "repeated", "altered", "unasked", "predictions_lost"}
    share = 2 if fault == "forget" else 10
    assert counts[counter] == pytest.approx(counts["feedbacks_acknowledged"] / share, abs=1.0)
    assert {name for name in wrong if counts[name]} == {counter}


async def test_what_had_no_answer_is_asked_again_until_it_is_known() -> None:
    """Feedback that was recorded without an answer is told again, and is neither lost nor repeated."""
    report = await load_on(FakeWager("mute"))
    assert report.problems["no answer"] > 0
    assert report.feedback.no_answer > 0
    assert report.audit.unknown == report.audit.wrong == 0
    assert report.audit.feedbacks_acknowledged == report.audit.rounds_in_the_logs


async def test_what_stays_unknown_is_called_so() -> None:
    """Without time to ask again, rounds are neither lost nor recorded: they are unknown."""
    report = await load_on(FakeWager("mute"), settle=0.0)
    assert report.audit.unknown > 0
    assert report.audit.wrong == 0


async def test_models_stay_when_asked_to() -> None:
    """`--keep` deletes nothing."""
    fake = FakeWager()
    await load_on(fake, keep=True)
    assert fake.deleted == []


def wager_load(*options: str) -> Result:
    """`wager load` with a short load, inside this process."""
    short = ["--rate", "200", "--seconds", "0.5", "--warm-up", "0.1", "--delay", "0.05"]
    return CliRunner().invoke(app, ["load", *short, *options])


@pytest.mark.parametrize(("fault", "settle", "code"), [("", 9, 0), ("lose", 9, 1), ("repeat", 9, 1), ("mute", 0, 3)])
async def test_the_exit_code_is_the_verdict(fault: str, settle: int, code: int, tmp_path: Path) -> None:
    """0 for a clean log, 1 for a lost or repeated round, 3 for an unknown one; and the JSON says the same."""
    written = tmp_path / "report.json"
    async with serving(FakeWager(fault).answer) as url:
        options = ("--url", url, "--settle", str(settle), "--json", str(written))
        result = await asyncio.to_thread(wager_load, *options)
    assert result.exit_code == code, result.output
    report = json.loads(written.read_text())
    assert report["correctness"]["lost"] + report["correctness"]["repeated"] > 0 or code != 1
    assert report["correctness"]["unknown"] > 0 or code != 3
    assert set(report["predict"]["latency_ms"]) == {"p50", "p90", "p99", "p99.9", "max"}


def test_a_real_service_keeps_its_promise(tmp_path: Path) -> None:
    """Two workers, two generators, several models, batches, sparse contexts: everything acknowledged is there, once."""
    with serve(tmp_path, workers=2) as wager:
        for number, options in enumerate(
            ([], ["--batch", "7", "--nonzeros", "5", "--features", "1000"], ["--learner", "gaptron", "--true-labels"])
        ):
            written = tmp_path / f"{number}.json"
            result = wager_load(
                "--url", wager.url, "--processes", "2", "--models", "3", "--duplicates", "0.5", "--rate", "60",
                "--seconds", "2", "--json", str(written), *options,
            )  # fmt: skip
            assert result.exit_code == 0, result.output
            counts = json.loads(written.read_text())["correctness"]
            assert counts["feedbacks_acknowledged"] == counts["rounds_in_the_logs"] > 50
        assert httpx2.get(f"{wager.url}/models").json()["models"] == []


def test_the_help_tells_the_defaults() -> None:
    """The help of each option tells the default that the plan has."""
    helps = {name: annotation.__metadata__[0].help for name, annotation in _options().items()}
    as_json = {name: re.search(r"Default: (\S*)\.$", text) for name, text in helps.items()}
    defaults = Plan(url="http://host").as_json()
    for name, found in as_json.items():
        if found is not None:
            assert type(defaults[name])(found[1]) == defaults[name], name
    assert sum(found is not None for found in as_json.values()) >= 15


def _options() -> dict[str, Any]:
    return {name: kind for name, kind in command.load.__annotations__.items() if name != "return"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rate", "0"], "--rate: Input should be greater than 0"),
        (["--duplicates", "2"], "--duplicates: "),
        (["--url", "nowhere"], "--url: 'nowhere' is not a URL"),
        (["--nonzeros", "21"], "more non-zeros than features"),
        (["--features", "2000000"], "give --nonzeros"),
        (["--learner", "{"], "--learner: "),
        (["--requests", "10"], "--requests stands instead of --seconds"),
    ],
)
def test_a_wrong_option_is_named(options: list[str], said: str) -> None:
    """Options that make no plan end the command with code 2 and a line that names them."""
    result = wager_load(*options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.startswith("wager: ")


def test_a_service_that_is_not_there_is_named() -> None:
    """Where nobody listens, the command ends with code 2 and one line."""
    port = free_port()
    result = wager_load("--url", f"http://127.0.0.1:{port}")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"wager: 127.0.0.1 port {port} does not answer")


async def test_a_refused_model_is_told() -> None:
    """What the service says against a model is printed, as it said it."""

    class Refusing(FakeWager):
        async def answer(self, method: str, path: str, body: bytes) -> "tuple[int, object] | None":
            if path == "/models":
                return 422, {"detail": "unknown-algorithm"}
            return await super().answer(method, path, body)

    with pytest.raises(LoadError, match="unknown-algorithm"):
        await load_on(Refusing())


async def test_a_saturated_driver_is_told() -> None:
    """A generator that cannot keep its own timetable says that the figures are its own."""
    printed = io.StringIO()
    report = await load_on(FakeWager())
    report.cpu = [0.2]
    for _ in range(10 * len(report.lag)):
        report.lag.add(0.0)
    report.print(Console(file=printed, width=200))
    assert SATURATED not in printed.getvalue()
    report.cpu = [0.2, 0.95]
    assert report.saturated
    report.print(Console(file=printed, width=200))
    assert SATURATED in printed.getvalue()
