"""`python -m tests.simulation`: simulate workers, clients, a network and a server, all decided by a seed."""

import argparse
import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.simulation.faults import Fault, plan
from tests.simulation.log_rounds import ViolationError
from tests.simulation.shrinking import smallest
from tests.simulation.workers import Settings
from tests.simulation.world import Figures, World

_STEPS = 20_000
_LAST_EVENTS = 20
_MOST_OPEN_BYTES = 8_000


def run(
    seed: int, steps: int = _STEPS, faults: Sequence[Fault] | None = None, trace: list[str] | None = None
) -> Figures:
    """Run one simulation. Every second seed waits for a replica, and every third one limits the open predictions.

    Args:
        seed: decides everything.
        steps: before the clients stop.
        faults: in the place of those that the seed plans.
        trace: gets a line for each event.

    Raises:
        ViolationError: if a promise is broken.
    """
    planned = plan(seed, steps) if faults is None else faults
    settings = Settings(seed % 2, 0 if seed % 3 else _MOST_OPEN_BYTES)
    world = World(seed, planned, settings, trace=None if trace is None else trace.append)
    try:
        return world.run(steps)
    except ViolationError as violation:
        raise ViolationError(f"after {world.steps} steps: {violation}") from violation
    finally:
        world.close()


def explain(seed: int, steps: int) -> None:
    """Print the smallest plan of faults found with which a run fails, and its last events."""
    _say("looking for a smaller plan of faults ...")

    def fails(faults: Sequence[Fault]) -> bool:
        try:
            run(seed, steps, faults)
        except ViolationError:
            return True
        return False

    faults, trace = smallest(plan(seed, steps), fails), list[str]()
    try:
        run(seed, steps, faults, trace)
    except ViolationError as smaller:
        lines = [*trace[-_LAST_EVENTS:], f"then: {smaller}", "the faults:", *map(str, faults)]
        _say(*lines)
    _say(f"repeat it with: make simulate SEED={seed} ARGS='--steps {steps}'")


def main() -> int:
    """Run simulations.

    Returns:
        The exit code: 1 if a promise is broken.
    """
    arguments, started = _arguments(), time.monotonic()
    logging.disable(logging.CRITICAL)  # the workers log every fault
    state = _read(arguments.state, arguments.seed)
    begun_with = state["steps"]
    while state["steps"] < arguments.total or state["runs"] == 0:
        try:
            figures = run(state["seed"], arguments.steps)
        except ViolationError as violation:
            _say(f"seed {state['seed']}: {violation}")
            if arguments.plan:
                explain(state["seed"], arguments.steps)
            return 1
        for name in ("steps", "rounds", "acknowledged", "predicted", "lost", "snapshots", "changes"):
            state[name] += getattr(figures, name)
        _say(f"seed {state['seed']}: {_shown(figures._asdict())}")
        state["seed"], state["runs"] = state["seed"] + 1, state["runs"] + 1
        if arguments.state is not None:
            _write(arguments.state, state)
    rate = (state["steps"] - begun_with) / (time.monotonic() - started) * 60
    done = {name: figure for name, figure in state.items() if name != "seed"}
    _say(f"all runs: {_shown(done)} ({rate:,.0f} steps a minute)")
    return 0


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()


def _shown(figures: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in figures.items())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first run")
    parser.add_argument("--steps", type=int, default=_STEPS, help="steps of a run")
    parser.add_argument("--total", type=int, default=0, help="run further seeds until this number of steps")
    parser.add_argument("--no-plan", dest="plan", action="store_false", help="look for no smaller plan of faults")
    parser.add_argument("--state", type=Path, help="a file for the figures, to continue a long series")
    return parser.parse_args()


def _read(state: Path | None, seed: int) -> dict[str, int]:
    if state is not None and state.exists():
        read: dict[str, int] = json.loads(state.read_text())
        return read
    names = ("runs", "steps", "rounds", "acknowledged", "predicted", "lost", "snapshots", "changes")
    return {"seed": seed, **dict.fromkeys(names, 0)}


def _write(path: Path, state: Mapping[str, int]) -> None:
    """Replace the file, so that an interruption leaves one that can be read."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(state))
    new.replace(path)


if __name__ == "__main__":
    sys.exit(main())
