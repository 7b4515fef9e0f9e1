"""The laws of `wager load`: its audit finds the faults of a faulty server, and none of a correct one."""

import asyncio
import io
import json
from pathlib import Path

import httpx2
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from service.__main__ import app
from tests.servers import free_port
from tests.service.wager import serve
from tests.toolkit.load.world_server import FakeWager, serving
from toolkit.load.client import LoadError
from toolkit.load.plan import Plan
from toolkit.load.report import SATURATED, Report
from toolkit.load.run import drive


def plan_for(url: str, **options: object) -> Plan:
    """Return the plan of a short load."""
    short = {"url": url, "rate": 300.0, "seconds": 0.6, "warm_up": 0.1, "delay": 0.05, "duplicates": 0.3, "timeout": 5}
    return Plan.from_options(**short | options)


async def load_on(fake: FakeWager, **options: object) -> Report:
    """Run a short load on a fake server, and return its report."""
    async with serving(fake.answer) as url:
        return await drive(plan_for(url, **options), Console(file=io.StringIO()))


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_correct_server_has_no_faults(processes: int) -> None:
    """With a correct server all counters agree, each prediction has one round, and models are deleted."""
    fake = FakeWager()
    report = await load_on(fake, processes=processes, models=3)
    audit = report.audit
    predictions = sum(map(len, fake.predictions.values()))
    assert audit.predictions_answered == audit.feedbacks_acknowledged == audit.rounds_in_the_logs == predictions
    assert predictions == pytest.approx(210, rel=0.5)
    assert audit.wrong == audit.unknown == 0
    assert fake.feedbacks > predictions  # some were sent twice
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
async def test_each_fault_is_counted_under_its_name(fault: str, counter: str) -> None:
    """One round in ten that is lost, repeated, altered or invented is counted under that fault only."""
    report = await load_on(FakeWager(fault))
    counts = report.audit.to_json()
    wrong = {"lost", "repeated", "altered", "unasked", "predictions_lost"}
    share = 2 if fault == "forget" else 10
    assert counts[counter] == pytest.approx(counts["feedbacks_acknowledged"] / share, abs=1.0)
    assert {name for name in wrong if counts[name]} == {counter}


async def test_unanswered_feedback_is_sent_again() -> None:
    """Feedback that was recorded without an answer is sent again, and counts neither as lost nor as repeated."""
    report = await load_on(FakeWager("mute"))
    assert report.problems["no answer"] > 0
    assert report.feedback.no_answer > 0
    assert report.audit.unknown == report.audit.wrong == 0
    assert report.audit.feedbacks_acknowledged == report.audit.rounds_in_the_logs


async def test_unresolved_rounds_count_as_unknown() -> None:
    """Without time to resend, unanswered rounds count as unknown, not as lost."""
    report = await load_on(FakeWager("mute"), settle=0.0)
    assert report.audit.unknown > 0
    assert report.audit.wrong == 0


async def test_keep_deletes_no_model() -> None:
    """`--keep` deletes no model."""
    fake = FakeWager()
    await load_on(fake, keep=True)
    assert fake.deleted == []


def wager_load(*options: str) -> Result:
    """Run `wager load` with a short load in this process."""
    short = ["--rate", "200", "--seconds", "0.5", "--warm-up", "0.1", "--delay", "0.05"]
    return CliRunner().invoke(app, ["load", *short, *options])


@pytest.mark.parametrize(("fault", "settle", "code"), [("", 9, 0), ("lose", 9, 1), ("repeat", 9, 1), ("mute", 0, 3)])
async def test_the_exit_code_reports_the_audit(fault: str, settle: int, code: int, tmp_path: Path) -> None:
    """The exit code is 0 for a correct log, 1 for a lost or repeated round, 3 for an unknown one; the JSON agrees."""
    written = tmp_path / "report.json"
    async with serving(FakeWager(fault).answer) as url:
        options = ("--url", url, "--settle", str(settle), "--json", str(written))
        result = await asyncio.to_thread(wager_load, *options)
    assert result.exit_code == code, result.output
    report = json.loads(written.read_text())
    assert report["correctness"]["lost"] + report["correctness"]["repeated"] > 0 or code != 1
    assert report["correctness"]["unknown"] > 0 or code != 3
    assert set(report["predict"]["latency_ms"]) == {"p50", "p90", "p99", "p99.9", "max"}


def test_a_real_service_passes_the_audit(tmp_path: Path) -> None:
    """A service with two workers logs every acknowledged round once: single requests, batches, sparse contexts."""
    with serve(tmp_path, workers=2) as wager:
        for number, options in enumerate(
            (
                ["--processes", "2"],
                ["--batch", "7", "--nonzeros", "5", "--features", "1000"],
                ["--learner", "gaptron", "--true-labels"],
            )
        ):
            written = tmp_path / f"{number}.json"
            result = wager_load(
                "--url", wager.url, "--models", "3", "--duplicates", "0.5", "--rate", "60",
                "--seconds", "2", "--json", str(written), *options,
            )  # fmt: skip
            assert result.exit_code == 0, result.output
            counts = json.loads(written.read_text())["correctness"]
            assert counts["feedbacks_acknowledged"] == counts["rounds_in_the_logs"] > 50
        assert httpx2.get(f"{wager.url}/models").json()["models"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rate", "0"], "--rate: got 0.0; must be a number greater than 0 and at most 1000000"),
        (["--duplicates", "2"], "--duplicates: "),
        (["--url", "nowhere"], "--url: 'nowhere' is not a URL"),
        (["--nonzeros", "21"], "--nonzeros is greater than --features"),
        (["--features", "2000000"], "pass --nonzeros"),
        (["--learner", "{"], "--learner: "),
        (["--requests", "10"], "--requests replaces --seconds"),
    ],
)
def test_a_wrong_option_is_named(options: list[str], message: str) -> None:
    """Invalid options end the command with code 2 and a line that names the option."""
    result = wager_load(*options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("wager: ")


def test_an_unreachable_service_ends_the_command() -> None:
    """If the port is closed, the command ends with code 2 and one line."""
    port = free_port()
    result = wager_load("--url", f"http://127.0.0.1:{port}")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"wager: 127.0.0.1 port {port} does not answer")


async def test_a_refused_model_raises_the_reason() -> None:
    """The service's reason for refusing a model is in the error."""

    class Refusing(FakeWager):
        async def answer(self, method: str, path: str, body: bytes) -> "tuple[int, object] | None":
            if path == "/models":
                return 422, {"detail": "unknown-algorithm"}
            return await super().answer(method, path, body)

    with pytest.raises(LoadError, match="unknown-algorithm"):
        await load_on(Refusing())


async def test_a_saturated_driver_is_reported() -> None:
    """A generator that cannot keep its schedule reports itself as saturated."""
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
