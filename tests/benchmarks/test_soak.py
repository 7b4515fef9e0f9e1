"""The load of the soak, and what is measured."""

from collections.abc import Iterator

import httpx2
import pytest

from benchmarks.server import Server, running
from benchmarks.soak.load import GUESTS, STEADY, Load, definition
from benchmarks.soak.samples import Usage, read_usage
from benchmarks.soak.soak import LAUNCHER, Sample, Soak, rows_of
from toolkit.load.client import Client, Target

CONSTANT = Usage(3e8, 70.0, 9.0, 4e7, 60_000.0, 40_000.0, 1.0)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Return a worker as the soak runs it, with its models."""
    with running(launcher=LAUNCHER) as server:
        for name, special in STEADY.items():
            body = definition(name, special)
            httpx2.post(f"http://127.0.0.1:{server.port}/models", json=body).raise_for_status()
        yield server


@pytest.mark.slow
async def test_models_come_and_go_and_get_feedback(server: Server) -> None:
    """Play a few short slices: every request is answered, steady models get rounds, and the oldest guests go."""
    async with Client(Target.parse(f"http://127.0.0.1:{server.port}"), 8) as client:
        load = Load(client, 100.0, 0.3)
        slices = [await load.take_slice(seed) for seed in range(GUESTS + 2)]
    for each in slices:
        assert [part.refused + part.no_answer for part in each] == [0, 0]
    models = httpx2.get(f"http://127.0.0.1:{server.port}/models").json()["models"]
    rounds = {model["name"]: model["rounds_seen"] for model in models}
    assert len(rounds) == len(STEADY) + GUESTS
    assert all(rounds[name] > 0 for name in STEADY if name != "waiting")  # its rounds come when windows close
    usage = read_usage(server)
    assert all(value > 0 for value in usage)


@pytest.mark.parametrize("growth", [0.0, 0.1])
def test_growth_misses_the_goal(growth: float) -> None:
    """Only samples after the warm-up count, and each measurement that grows by a tenth an hour is too steep."""
    usages = [CONSTANT._replace(store_memory=4e7 * (1.0 + growth * i / 60)) for i in range(60)]
    samples = [Sample(i / 60, usage, 400.0, 20.0, 20.0, 5.0) for i, usage in enumerate(usages)]
    samples = [samples[0]._replace(predict=1e9), *samples[1:]]
    missed = [row.what for row in rows_of(Soak(100.0, 1000, 0, samples), 30.0) if not row.met]
    assert missed == (["memory of the store"] if growth else [])
