"""The laws of the background tasks of a worker."""

import asyncio
import itertools
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import pytest

from service.app import about_each_second
from service.background.due_models import NEWER_SECONDS

LOOKS = 2_000


async def looks_of(worker: int, monkeypatch: pytest.MonkeyPatch) -> Sequence[float]:
    """Return the moments at which a worker looks for due models, in seconds since the first worker started."""
    pauses = list[float]()

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    async def look() -> None:
        if len(pauses) == LOOKS:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", note)
    with pytest.raises(asyncio.CancelledError):
        await about_each_second(look, np.random.default_rng(worker))
    return list(itertools.accumulate(pauses, initial=0.05 * worker))


async def test_either_of_two_workers_may_look_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """During an upgrade, only one can read a model, which is put off whenever the other looks first."""
    with monkeypatch.context() as patched:
        one, other = [await looks_of(worker, patched) for worker in (0, 1)]
    moments = [NEWER_SECONDS * i for i in range(1, int(0.9 * LOOKS / NEWER_SECONDS))]
    firsts = [one[bisect_left(one, moment)] < other[bisect_left(other, moment)] for moment in moments]
    assert 0.4 < sum(firsts) / len(firsts) < 0.6
    longest = max(len(list(run)) for _, run in itertools.groupby(firsts))
    assert longest < 20
    assert LOOKS * 0.95 < one[-1] < LOOKS * 1.05
