"""`python -m tests.chaos`: injects faults under load, and exits with 1 if anything was lost or duplicated."""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from tests.chaos.faults.fail_overs import Death
from tests.chaos.plan import PLANS, carry_out
from tests.chaos.playing import Length
from tests.chaos.runs import change_cluster, fail_over, refusals, run, upgrade
from tests.chaos.world import Report

_MIN_REPLICAS = {"min_replicas_to_write": "1", "min_replicas_max_lag": "1"}


def show(report: Report, injected: Counter[str]) -> None:
    """Print the report."""
    print("injected     " + ", ".join(f"{count} x {name}" for name, count in sorted(injected.items())))
    print("requests     " + ", ".join(f"{count} x {name}" for name, count in sorted(report.requests.items())))
    print(f"acknowledged {report.acknowledged}\nin the log   {report.rounds}")
    print(f"lost         {len(report.lost)}\nre-recorded  {len(report.renewed)}")
    for line in report.wrong[:20]:
        print(f"wrong        {line}")


def main() -> None:
    """Run the command."""
    arguments = argument_parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # unmounts the disk
    for name, why in refusals().items():
        print(f"skipped      {name}: {why}", flush=True)
    if arguments.plan is not None:
        rows = carry_out(PLANS[arguments.plan], arguments.seed, arguments.share, arguments.record)
        sys.exit(any(row.violations for row in rows))
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        report, injected = asyncio.run(_run(Path(folder), arguments))
    show(report, injected)
    may_lose = arguments.fail_over or (arguments.cluster and not arguments.planned)
    sys.exit(bool(report.wrong or (report.lost and not may_lose)))


async def _run(folder: Path, arguments: argparse.Namespace) -> tuple[Report, Counter[str]]:
    """Make the run that the arguments describe."""
    length = Length(arguments.seconds, arguments.seed, arguments.workers, keep=arguments.keep)
    if arguments.fail_over:
        options: dict[str, Any] = _MIN_REPLICAS if arguments.min_replicas else {}
        return await fail_over(folder, length, [arguments.death], arguments.wait_replicas, **options)
    if arguments.cluster:
        return await change_cluster(folder, length, deaths=not arguments.planned)
    if arguments.versions:
        return await upgrade(folder, length)
    return await run(folder, length, arguments.fault, clocks=arguments.clocks)


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the faults")
    parser.add_argument("--seed", type=int, default=1, help="seed of the faults and of the clients")
    parser.add_argument("--workers", type=int, default=2, help="workers of the service")
    parser.add_argument("--keep", type=Path, help="folder for the requests that nothing explains")
    parser.add_argument("--fault", action="append", default=[], help="inject only this fault; may be repeated")
    parser.add_argument(
        "--clocks", action="store_true", help="clocks jump too; only clients without short windows take part"
    )
    parser.add_argument("--fail-over", action="store_true", help="fail over with Sentinel instead, and count losses")
    parser.add_argument("--min-replicas", action="store_true", help="set min-replicas-to-write 1")
    parser.add_argument("--wait-replicas", type=int, default=0, help="WAGER_WAIT_REPLICAS, with --fail-over")
    parser.add_argument("--death", type=Death, choices=list(Death), default=Death.KILLED, help="how a primary fails")
    parser.add_argument("--cluster", action="store_true", help="change a cluster instead, and count losses")
    parser.add_argument("--planned", action="store_true", help="with --cluster: only changes that lose nothing")
    parser.add_argument("--versions", action="store_true", help="run two versions of the service on one store")
    parser.add_argument("--plan", choices=sorted(PLANS), help="run these stages one after the other instead")
    parser.add_argument("--share", type=float, default=1.0, help="share of the durations of the plan's stages")
    parser.add_argument("--record", type=Path, help="file of the plan's ended stages, which are not run again")
    return parser


if __name__ == "__main__":
    main()
