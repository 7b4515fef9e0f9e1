"""Single requests are compared with the same requests to a plain application, over connections to all workers alike."""

import os
import time

import pytest

from benchmarks.log_filler import environment, fill, fold, open_session
from benchmarks.measurements.http import (
    BOTH,
    FEEDBACK,
    PREDICT,
    SHAPES,
    Cost,
    Shape,
    Turn,
    connected,
    fill_log,
    shape_rows,
)
from benchmarks.server import Server, running_baseline
from benchmarks.traffic import create_model, feedback, play, predictions
from service.store import keys
from tests.service.wager import Wager
from tests.toolkit.load.world_server import Reply, serving
from toolkit.load.client import Client, Target

ALONE, HOT, MANY = SHAPES


def turn(busy: float, plain: float, p50: float = 500.0) -> Turn:
    """Return a turn with these processor times of /predict, and half of them of /feedback."""

    def costs(worker: float) -> dict[str, Cost]:
        one = Cost(worker, 50.0, p50, p50, 1e3)
        return {BOTH: one, PREDICT: one, FEEDBACK: one._replace(worker=worker / 2)}

    return Turn({"fastcb": costs(busy)}, {each: cost._replace(p50=400.0) for each, cost in costs(plain).items()}, 40.0)


def test_a_ratio_is_the_median_of_the_turns() -> None:
    """Take the median of ratios, not the ratio of medians: within a turn both have the same machine."""
    both, predict, given = shape_rows(HOT, "fastcb", [turn(100.0, 100.0), turn(40.0, 80.0), turn(12.0, 20.0)])
    assert both.ratio == predict.ratio == given.ratio == pytest.approx(0.6)
    assert predict.figure.startswith("40 µs; store 50 µs; p50 500 and 500 µs; 1,000 /s")
    assert predict.baseline.startswith("FastAPI 80 µs")
    assert (predict.wanted, predict.met) == ("≤ 0.7 (goal 0.5)", True)


@pytest.mark.parametrize(("shape", "most"), [(ALONE, 1.4), (MANY, 1.2), (HOT, 0.7)])
def test_each_shape_has_its_bound(shape: Shape, most: float) -> None:
    """Miss a processor time slightly above it."""
    for ratio in (most - 0.01, most + 0.01):
        found = list(shape_rows(shape, "fastcb", [turn(100.0 * ratio, 100.0)]))[:3]
        assert [row.met for row in found] == 3 * [ratio < most]


def test_lone_requests_are_also_judged_by_their_latency_and_by_the_store() -> None:
    """Compare p50 with the plain application's, and the store's time with a script's."""
    found = list(shape_rows(ALONE, "fastcb", [turn(1.0, 1.0)]))[3:]
    assert [row.what.split(": ")[1] for row in found] == [
        "p50, /predict, in turn",
        "p50, /feedback, in turn",
        "the store's CPU, /predict",
        "the store's CPU, /feedback",
    ]
    assert [row.ratio for row in found] == pytest.approx([1.25, 1.0, 1.25, 1.25])
    assert all(row.met for row in found)


async def test_feedback_follows_its_prediction_on_each_connection() -> None:
    """Send each prediction, then its feedback, then the next prediction."""
    asked = []

    async def answer(_method: str, path: str, body: bytes) -> Reply:
        asked.append((path, body))
        return 200, {"prediction_id": f"m:{len(asked)}"}

    async with serving(answer) as url, Client(Target.parse(url), 1) as client:
        played = await play([client], predictions(["m", "n"], 3, seed=1), in_turn=True)
        apart = await play([client], feedback(played.answers))
    assert [path for path, _ in asked] == 3 * ["/predict", "/feedback"] + 3 * ["/feedback"]
    assert [b'"m"' in body for _, body in asked[:6:2]] == [True, False, True]
    assert [body for _, body in asked[1:6:2]] == [body for _, body in asked[6:]]
    assert len(played.latencies) == len(played.feedback_latencies) == len(apart.latencies) == 3
    assert not apart.feedback_latencies


async def test_a_full_log_is_trimmed_by_each_snapshot(live: Wager) -> None:
    """Fill as many rounds as are retained: a snapshot after further rounds trims the log to them again."""
    create_model(Server((live.port,), (), "", 0), "full", retain_rounds=1_000, algorithm="gaptron")
    async with environment(Server((), (), live.store_url, 0)) as world:
        await fill_log(world, "full", 1_000)
        session = await open_session(world, "full")
        log, lengths = keys.log(*session.model.key), []
        for _ in range(2):
            lengths.append(await world.store.command("XLEN", log))
            await fill(world, session, 500, together=1, distinct=20)
            lengths.append(await world.store.command("XLEN", log))
            await fold(session)
        lengths.append(await world.store.command("XLEN", log))
    assert lengths == pytest.approx([1_000, 1_500, 1_000, 1_500, 1_000], abs=99)  # the store trims whole nodes


async def test_every_worker_gets_its_share_of_the_connections() -> None:
    """Connect to two workers on one port, and measure the processor time of both."""
    with running_baseline(workers=2) as server:
        async with connected(server, 7) as groups:
            assert sorted(map(len, groups)) == [3, 4]
            before = [server._replace(pids=(pid,)).busy_seconds() for pid in server.pids]
            await play([client for group in groups for client in group], predictions(["m"], 70, seed=1), in_turn=True)
        after = [server._replace(pids=(pid,)).busy_seconds() for pid in server.pids]
    assert all(now > then + 1e-3 for then, now in zip(before, after, strict=True))


def test_processor_time_is_exact() -> None:
    """Read the processor time of a process in less than a tick of the scheduler's statistics."""
    started = time.process_time()
    busy = Server((), (os.getpid(),), "", 0).busy_seconds()
    assert started <= busy <= time.process_time()
