"""Fuzzes the HTTP interface as openapi.json describes it, and counts: `python -m tests.fuzz.api --cases 50000`.

Half of the cases go to a worker without keys, half to one that requires keys. Each half consists of single requests,
valid and invalid ones, and of chains of requests along the links of openapi.json.
"""

import argparse
import asyncio
import gc
import math
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from service.store.embedded.server import EmbeddedServer
from tests.fuzz.api.attack import Attack, attack
from tests.fuzz.api.generation import Generator

_EXAMPLES, _CHAINS = 30, 40
"""Of each operation and kind, and of chains, in one round."""


def main() -> int:
    """Fuzz a worker without keys and one with keys; return 1 if a check failed."""
    asked, failures = _asked(), 0
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    halves = [keys for keys, name in ((False, "off"), (True, "required")) if asked.auth in (name, "both")]
    for keys in halves:
        began, share = time.monotonic(), len(halves)
        found, kinds = fuzz(asked.cases // share, keys, asked.seed, asked.seconds / share)
        counts = found.counts
        print(f"{'with keys' if keys else 'without keys'}: {counts.cases:,} cases in {time.monotonic() - began:.0f} s")
        print(f"    {', '.join(f'{kind} {n:,}' for kind, n in kinds.items())}; seed {asked.seed}")
        for title, counted in (("status", counts.statuses), ("caller", counts.callers), ("check", counts.checks)):
            for name, n in sorted(counted.items(), key=str):
                print(f"    {title} {name!s:40}{n:10,}")
        print(f"    failures {len(counts.failures)}", *counts.failures.values(), sep="\n    ", flush=True)
        failures += len(counts.failures)
    return int(failures > 0)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.api", description=__doc__)
    parser.add_argument("--cases", type=int, default=50_000, help="at least, in total")
    parser.add_argument("--auth", choices=("off", "required", "both"), default="both", help="which workers")
    parser.add_argument("--seconds", type=float, default=math.inf, help="at most, in total")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def fuzz(cases: int, keys: bool, seed: int, seconds: float = math.inf) -> tuple[Attack, Counter[str]]:
    """Send this number of requests, or a few more, to one worker; return its attack, and the requests of each kind."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedServer(Path(folder)) as server, asyncio.Runner() as runner:
        context = attack(server.url, keys, seed)
        built = runner.run(context.__aenter__())
        kinds = _rounds(runner, built, _Until(cases, time.monotonic() + seconds), seed)
        runner.run(built.check_control())
        runner.run(context.__aexit__(None, None, None))
        return built, kinds


class _Until(NamedTuple):
    """When to stop: after a number of cases, or at a time of the monotonic clock."""

    cases: int
    ends: float

    def reached(self, built: Attack) -> bool:
        return built.counts.cases >= self.cases or time.monotonic() >= self.ends


def _rounds(runner: asyncio.Runner, built: Attack, until: _Until, seed: int) -> Counter[str]:
    generator, kinds, number = Generator(runner, built), Counter[str](), seed * 1000
    while not until.reached(built):
        for kind, steps in (
            ("in chains", generator.chains(number, _CHAINS)),
            ("alone", generator.alone(number, _EXAMPLES)),
        ):
            before = built.counts.cases
            for _ in steps:
                if until.reached(built):
                    break
            kinds[kind] += built.counts.cases - before
        runner.run(built.clear())
        print(f"    {built.counts.cases:,} cases, {len(built.counts.failures)} failures", file=sys.stderr, flush=True)
        number += 1
    return kinds


if __name__ == "__main__":
    sys.exit(main())
