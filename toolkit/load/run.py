"""Runs `wager load`, from the plan to the report."""

import asyncio
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from toolkit.load.audit import audit
from toolkit.load.client import Client, LoadError
from toolkit.load.fleet import generate
from toolkit.load.generator import Result
from toolkit.load.models import check_ready, created
from toolkit.load.plan import Plan
from toolkit.load.report import Report

EXIT_WRONG = 1
EXIT_UNKNOWN = 3

_CONNECTIONS = 2  # for the models and the audit; the load uses others


def run(plan: Plan, json_file: Path | None) -> int:
    """Run a load, print its report, and return the exit code.

    Write the report as JSON to `json_file`; for `-`, as the only output on standard output. The code is
    `EXIT_WRONG` if the logs do not match the acknowledgements, else `EXIT_UNKNOWN` if outcomes are unknown, else 0.
    """
    to_stdout = json_file is not None and str(json_file) == "-"
    console = Console(highlight=False, stderr=to_stdout)
    report = asyncio.run(drive(plan, console))
    report.print(console)
    if json_file is not None:
        written = json.dumps(report.to_json(), indent=2) + "\n"
        sys.stdout.write(written) if to_stdout else json_file.write_text(written)
    return EXIT_WRONG if report.audit.wrong else EXIT_UNKNOWN if report.audit.unknown else 0


async def drive(plan: Plan, console: Console) -> Report:
    """Create the models, generate the load and audit the logs. Raises `LoadError` if no prediction is answered."""
    async with Client(plan.target, _CONNECTIONS, plan.timeout) as client:
        await check_ready(client)
        async with created(client, plan) as models:
            console.print(_introduction(plan, models))
            with _progress(console) as progress:
                results = await _generate(plan, models, progress)
                reading = progress.add_task("Reading the logs", total=None, said="")
                ledgers = [result.ledger for result in results]
                found = await audit(client, models, ledgers, lambda lines: progress.advance(reading, lines))
    if not found.predictions_answered:
        problems = [problem for result in results for problem, _ in result.problems.most_common(1)]
        raise LoadError(f"no prediction was answered: {next(iter(problems), 'nothing was sent')}")
    return Report.of(plan, results, found)


async def _generate(plan: Plan, models: list[str], progress: Progress) -> list[Result]:
    task = progress.add_task("Load", total=plan.rounds_expected, said="")

    def show(answered: int, acknowledged: int, right: int) -> None:
        said = f"{answered} answered, {acknowledged} acknowledged, {right / max(1, answered):.1%} right"
        progress.update(task, completed=answered, said=said)

    results = await generate(plan, models, show)
    progress.update(task, description=f"Load, {plan.warm_up + plan.duration:g} s", completed=plan.rounds_expected)
    return results


def _progress(console: Console) -> Progress:
    texts = (TextColumn("{task.description:16}"), TextColumn("{task.fields[said]}"))
    return Progress(texts[0], BarColumn(20), texts[1], TimeRemainingColumn(), console=console)


def _introduction(plan: Plan, models: list[str]) -> str:
    last = f" to {models[-1]}" if len(models) > 1 else ""
    kind = "numbers" if plan.nonzeros is None else f"features, {plan.nonzeros} of them not zero"
    return (
        f"Service    {plan.url}\n"
        f"Models     {models[0]}{last}: {plan.labels} labels, {plan.features} {kind}\n"
        f"Load       {plan.rate:g} predict requests a second, {plan.batch} contexts in each; feedback after "
        f"{plan.delay:g} s on average, {plan.duplicates:.0%} of it twice"
    )
