"""Makes the plan of faults of a failing run smaller, by delta debugging (Zeller and Hildebrandt, 2002)."""

from collections.abc import Callable, Sequence

from tests.simulation.faults import Fault


def smallest(faults: Sequence[Fault], fails: Callable[[Sequence[Fault]], bool], tries: int = 200) -> list[Fault]:
    """Return a part of the faults with which the run still fails; none of the parts tried can be left out.

    Args:
        faults: a plan that fails.
        fails: runs a plan.
        tries: maximum runs.
    """
    kept, parts = list(faults), 2
    while kept and tries > 0:
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            tries -= 1
            if fails(rest):
                kept, parts = rest, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), 2 * parts)
    return kept
