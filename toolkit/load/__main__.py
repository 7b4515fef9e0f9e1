"""A generator process: `python -m toolkit.load` reads its plan and then its start time from standard input.

It writes JSON, one value per line: `"ready"`, then lists of numbers as progress, then an object with its result.
"""

import asyncio
import json
import sys
from typing import Any

import uvloop

from toolkit.load.client import Client, LoadError
from toolkit.load.generator import Generator
from toolkit.load.plan import PLAN_JSON, Plan

_PROGRESS_SECONDS = 0.25


def main() -> None:
    """Run the plan. If that is impossible, exit with a message that begins with `LoadError:`."""
    order = json.loads(sys.stdin.readline())
    try:
        uvloop.run(_run(PLAN_JSON.validate_python(order["plan"]), order["process"], order["models"]))
    except LoadError as error:
        sys.exit(f"LoadError: {error}")


async def _run(plan: Plan, process: int, models: list[str]) -> None:
    generator = Generator(plan, process, models)
    async with Client(plan.target, plan.connections, plan.timeout) as client:
        _say("ready")
        start = json.loads(sys.stdin.readline())
        progress = asyncio.create_task(_report_progress(generator))
        part = await generator.run(client, start)
        progress.cancel()
    _say(part.to_json())


async def _report_progress(generator: Generator) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_SECONDS)
        _say(generator.counts())


def _say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
