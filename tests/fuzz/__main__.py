"""Fuzzes the readers of untrusted bytes, and counts the inputs: `python -m tests.fuzz --seconds 60`.

`--engine atheris` guides the damage by coverage (`pip install atheris==3.0.0`, which no requirements contain).
"""

import argparse
import sys
import time
from collections.abc import Sequence

from tests.fuzz.mutating import inputs
from tests.fuzz.target import Target


def main() -> int:
    """Fuzz the targets one after the other; return 1 if a reader broke its promise."""
    asked = _asked()
    chosen = [each for each in _targets(asked.engine) if asked.only in each.name]
    if asked.engine == "atheris":
        from tests.fuzz.guided import fuzz

        return fuzz(chosen, asked.seconds)
    each_seconds, total, failed = asked.seconds / max(1, len(chosen)), 0, 0
    for target in chosen:
        count, read, wrong = _fuzz(target, asked.seed, each_seconds)
        print(f"{target.name:28}{count:10,} inputs {read:10,} read {len(wrong):6} failures", flush=True)
        for data, error in wrong[: asked.show]:
            print(f"    {type(error).__name__}: {str(error)[:200]}\n    {data[:400]!r}", flush=True)
        total, failed = total + count, failed + len(wrong)
    print(f"{'all':28}{total:10,} inputs {failed} failures with seed {asked.seed}")
    return int(failed > 0)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="in total")
    parser.add_argument("--only", default="", help="part of the names of targets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3, help="failures to show of each target")
    parser.add_argument("--engine", choices=("random", "atheris"), default="random")
    return parser.parse_args()


def _targets(engine: str) -> Sequence[Target]:
    if engine == "atheris":
        import atheris  # type: ignore[import-untyped]

        with atheris.instrument_imports(include=["service"]):
            from tests.fuzz.targets import all_targets
    else:
        from tests.fuzz.targets import all_targets
    return all_targets()


def _fuzz(target: Target, seed: int, seconds: float) -> tuple[int, int, list[tuple[bytes, Exception]]]:
    count, read, wrong, until = 0, 0, list[tuple[bytes, Exception]](), time.monotonic() + seconds
    for data in inputs(seed, target.intact):
        if time.monotonic() >= until:
            break
        count += 1
        try:
            read += target.check(data)
        except Exception as error:  # noqa: BLE001  any error is a finding
            wrong.append((data, error))
    return count, read, wrong


if __name__ == "__main__":
    sys.exit(main())
