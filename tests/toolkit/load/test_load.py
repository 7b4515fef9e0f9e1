"""The laws of `wager load`: its audit finds the faults of a server, its loops measure what users wait."""

import asyncio
import io
import itertools
import json
import pickle
from collections import Counter
from pathlib import Path

import httpx2
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from service.__main__ import app
from service.store.embedded.server import EmbeddedServer
from tests.service.threads import in_thread
from tests.toolkit.load.world_server import FakeWager, Reply, serving
from toolkit.load.audit import Audit
from toolkit.load.client import Client, LoadError, Target
from toolkit.load.loops import Pace, Requests, closed_loop, open_loop
from toolkit.load.plan import Plan
from toolkit.load.report import LATE, SATURATED, Report
from toolkit.load.run import drive
from toolkit.load.timing import Histogram, Measured, times_within


def plan_for(url: str, **options: object) -> Plan:
    short = {"url": url, "rate": 300.0, "seconds": 0.6, "warm_up": 0.1, "delay": 0.05, "duplicates": 0.3, "timeout": 5}
    return Plan.from_options(**short | options)


async def load_on(fake: FakeWager, **options: object) -> Report:
    async with serving(fake.answer) as url:
        return await drive(plan_for(url, **options), Console(file=io.StringIO()))


async def test_a_correct_server_has_no_faults() -> None:
    fake = FakeWager()
    report = await load_on(fake, processes=2, models=3)
    audit = report.audit
    predictions = sum(map(len, fake.predictions.values()))
    assert audit.predictions_answered == audit.feedbacks_acknowledged == audit.rounds_in_the_logs == predictions
    assert predictions == pytest.approx(210, rel=0.5)
    assert audit.wrong == audit.unknown == 0
    assert fake.feedbacks > predictions  # some were sent twice
    assert len(fake.deleted) == len(fake.predictions) == 3
    assert len(report.cpu) == 2
    assert report.accuracy() == pytest.approx(1 / 10, abs=0.1)
    assert min(map(len, fake.logs.values())) > 0
    first = [line["prediction_id"] for line in next(iter(fake.logs.values()))]
    assert first != sorted(first, key=lambda id_: [int(part) for part in id_.partition(":")[2].split(".")])


@pytest.mark.parametrize(("fault", "counter"), [
    ("lose", "lost"), ("repeat", "repeated"), ("alter", "altered"), ("invent", "unasked"),
    ("forget", "predictions_lost"),
])  # fmt: skip
async def test_each_fault_is_counted_under_its_name(fault: str, counter: str) -> None:
    report = await load_on(FakeWager(fault))
    counts = report.audit.to_json()
    wrong = {"lost", "repeated", "altered", "unasked", "predictions_lost"}
    share = 2 if fault == "forget" else 10
    assert counts[counter] == pytest.approx(counts["feedbacks_acknowledged"] / share, abs=1.0)
    assert {name for name in wrong if counts[name]} == {counter}
    assert "the logs or the models' counts contradict what the service acknowledged" in printed(report)


def printed(report: Report) -> str:
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        report.print(console)
    return captured.get()


def test_a_report_counts_in_words() -> None:
    """One of a thing is not called several."""
    report = Report(plan_for("http://x"), Measured(), Measured(), Histogram(), [0.1], [], Counter(), Audit(unknown=1))
    report.problems["no answer"] = 1
    assert "1 time: no answer" in printed(report)
    assert "the outcome of 1 round is unknown" in printed(report)


async def test_unanswered_feedback_is_sent_again() -> None:
    """It counts neither as lost nor as repeated; without time to resend, it counts as unknown."""
    report = await load_on(FakeWager("mute"))
    assert report.problems["no answer"] > 0
    assert report.feedback.no_answer > 0
    assert report.audit.unknown == report.audit.wrong == 0
    assert report.audit.feedbacks_acknowledged == report.audit.rounds_in_the_logs
    fake = FakeWager("mute")
    hasty = await load_on(fake, settle=0.0, keep=True)
    assert hasty.audit.unknown > 0
    assert hasty.audit.wrong == 0
    assert fake.deleted == []


def wager_load(*options: str) -> Result:
    short = ["--rate", "200", "--seconds", "0.5", "--warm-up", "0.1", "--delay", "0.05"]
    return CliRunner().invoke(app, ["load", *short, *options])


@pytest.mark.parametrize(("fault", "settle", "code"), [("", 9, 0), ("lose", 9, 1), ("mute", 0, 3)])
async def test_the_exit_code_reports_the_audit(fault: str, settle: int, code: int, tmp_path: Path) -> None:
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
    """It logs every acknowledged round once: single requests, batches, sparse contexts."""
    with EmbeddedServer(tmp_path) as server, in_thread(server.url) as served:
        for number, options in enumerate(
            (
                ["--processes", "2", "--duplicates", "0.5"],
                ["--batch", "7", "--nonzeros", "5", "--features", "1000"],
                ["--learner", "gaptron", "--true-labels"],
            )
        ):
            written = tmp_path / f"{number}.json"
            result = wager_load("--url", served.url, "--models", "3", "--rate", "60", "--json", str(written), *options)
            assert result.exit_code == 0, result.output
            counts = json.loads(written.read_text())["correctness"]
            assert counts["feedbacks_acknowledged"] == counts["rounds_in_the_logs"] > 10
        assert httpx2.get(f"{served.url}/models").json()["models"] == []


@pytest.mark.parametrize(("options", "message"), [
    (["--rate", "0"], "--rate: got 0.0; must be a number greater than 0 and at most 1000000"),
    (["--duplicates", "2"], "--duplicates: "), (["--url", "nowhere"], "--url: 'nowhere' is not a URL"),
    (["--nonzeros", "21"], "--nonzeros is greater than --features"), (["--features", "2000000"], "pass --nonzeros"),
    (["--learner", "{"], "--learner: "), (["--requests", "10"], "--requests replaces --seconds"),
])  # fmt: skip
def test_a_wrong_option_is_named(options: list[str], message: str) -> None:
    result = wager_load(*options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("wager: ")


STALL, SECONDS = 0.3, 0.7
RATE = 400.0
ENDLESS = Requests("POST", "/predict", itertools.repeat(b"{}"))


class HoldingServer:
    def __init__(self) -> None:
        self.requests = 0
        self.go_on = asyncio.Event()

    async def answer(self, _method: str, _path: str, _body: bytes) -> Reply:
        self.requests += 1
        if self.requests == 50:
            asyncio.get_running_loop().call_later(STALL, self.go_on.set)
        if self.requests >= 50:
            await self.go_on.wait()
        return 200, {}


async def test_the_open_loop_measures_a_stall() -> None:
    async with serving(HoldingServer().answer) as url, Client(Target.parse(url), 4) as client:
        measured, _ = await open_loop(client, ENDLESS, Pace(RATE, seconds=SECONDS, seed=1))
    assert measured.due == len(measured.latency) == pytest.approx(RATE * SECONDS, rel=0.25)
    # Half of the requests due during the stall waited for more than half of it.
    assert measured.latency.percentile(100 - 100 * 0.8 * RATE * STALL / 2 / measured.due) > STALL / 2
    assert measured.latency.percentile(99) > 0.9 * STALL
    assert measured.latency.greatest >= STALL
    assert measured.not_sent == measured.no_answer == measured.refused == 0


async def test_the_closed_loop_hides_the_same_stall() -> None:
    requests = Requests("POST", "/predict", itertools.repeat(b"{}", 1000))
    async with serving(HoldingServer().answer) as url, Client(Target.parse(url), 4) as client:
        measured = await closed_loop(client, requests.encoded(client.target), connections=4)
    assert measured.due == measured.answered == len(measured.latency) == 1000
    assert measured.latency.percentile(99) < measured.latency.greatest / 2
    assert measured.latency.greatest >= STALL


async def test_requests_over_the_bound_are_counted_and_not_sent() -> None:
    server = HoldingServer()
    async with serving(server.answer) as url, Client(Target.parse(url), 4) as client:
        measured, _ = await open_loop(client, ENDLESS, Pace(RATE, seconds=SECONDS, in_flight=10, seed=1))
    assert measured.not_sent > 0.5 * RATE * STALL
    assert measured.due == measured.not_sent + len(measured.latency)
    assert server.requests == len(measured.latency)


@pytest.mark.parametrize("status", [429, 500, None])
async def test_failures_have_counts_and_latencies(status: int | None) -> None:
    async def answer(_method: str, _path: str, _body: bytes) -> Reply:
        return None if status is None else (status, {})

    requests = Requests("POST", "/", itertools.repeat(b"{}", 20))
    async with serving(answer) as url, Client(Target.parse(url), 4) as client:
        measured = await closed_loop(client, requests.encoded(client.target), connections=4)
    assert (measured.no_answer, measured.refused) == ((20, 0) if status is None else (0, 20))
    assert measured.answered == 0
    assert len(measured.latency) == 20


def test_a_request_carries_the_key_and_the_prefix() -> None:
    target = Target.parse("http://wager.example:81/v1/", "s3cret")
    assert target.request("POST", "/predict", b"{}") == (
        b"POST /v1/predict HTTP/1.1\r\nhost: wager.example:81\r\nuser-agent: wager-load\r\n"
        b"content-type: application/json\r\nauthorization: Bearer s3cret\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert Target.parse("https://[::1]").port == 443
    assert Target.parse("https://[::1]").tls


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://host:port", "http://a/?b"])
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(LoadError, match="is not a URL such as"):
        Target.parse(url)
    with pytest.raises(LoadError, match="API key"):  # it would begin another header
        Target.parse("http://host", "a\r\nb: c")


URL = "http://127.0.0.1:8000"


def test_arrivals_are_a_poisson_process() -> None:
    rate, seconds = 50.0, 2000
    times = np.array(list(times_within(rate, seconds, np.random.default_rng(3))))
    counts = np.bincount(times.astype(int), minlength=seconds)
    assert times[-1] < seconds
    assert counts.mean() == pytest.approx(rate, rel=0.02)  # 6 standard errors
    assert counts.var() == pytest.approx(rate, rel=0.15)
    gaps = np.diff(times)
    assert (gaps < np.log(2) / rate).mean() == pytest.approx(0.5, abs=0.01)
    assert np.corrcoef(gaps[:-1], gaps[1:])[0, 1] == pytest.approx(0.0, abs=0.02)


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 1.0, 100.0])
def test_percentiles_match_those_of_the_durations(scale: float) -> None:
    seconds = scale * np.random.default_rng(4).lognormal(0, 2, 20_001)
    histogram = Histogram()
    for each in seconds.tolist():
        histogram.add(each)
    for percent in (0.0, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0):
        exact = float(np.percentile(seconds, percent, method="inverted_cdf"))
        assert histogram.percentile(percent) == pytest.approx(exact, rel=1e-3, abs=1e-6), percent
    assert histogram.greatest == pytest.approx(seconds.max(), abs=1e-6)
    assert len(histogram) == len(seconds)


def test_merged_measurements_equal_those_of_one_process() -> None:
    durations = np.random.default_rng(5).exponential(0.01, 2000).tolist()
    parts = [Measured(seconds=10.0, due=n, answered=n) for n in (500, 1500)]
    whole = Measured(seconds=10.0, due=2000, answered=2000)
    for i, each in enumerate(durations):
        parts[i % 2].latency.add(each)
        whole.latency.add(each)
    merged = Measured()
    for part in parts:
        merged.merge(pickle.loads(pickle.dumps(part)))
    assert merged == whole
    assert merged.offered == 200.0
    assert Histogram().percentile(50) == 0.0


@pytest.mark.parametrize(
    ("cpu", "lag", "verdict"), [(0.03, 0.0, None), (0.03, 0.1, LATE), (0.95, 0.0, SATURATED), (0.95, 0.1, SATURATED)]
)
async def test_the_cause_of_late_requests_is_named(cpu: float, lag: float, verdict: str | None) -> None:
    report = await load_on(FakeWager())
    report.cpu, report.lag = [cpu], Histogram()
    report.lag.add(lag)
    printed = io.StringIO()
    report.print(Console(file=printed, width=200))
    assert [each in printed.getvalue() for each in (LATE, SATURATED)] == [verdict == each for each in (LATE, SATURATED)]
