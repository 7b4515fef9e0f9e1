"""Whether a long history makes requests slower."""

import asyncio

import numpy as np
import uvloop

from benchmarks.driver import drive
from benchmarks.http import CONNECTIONS, REPEATS, D, create_model, feedback, predictions
from benchmarks.report import Row, at_least
from benchmarks.server import Server, running
from service.app import real_chance
from service.desk import Ask, Desk, Outside
from service.desks import Desks
from service.store.base import Feedback
from service.store.redis_store import RedisStore

SHORT, LONG = 1_000, 1_000_000
_BATCH = 500


async def lengthen(server: Server, name: str, rounds: int, seed: int) -> None:
    """Plays rounds at a desk of this process, without HTTP: one in three is right."""
    store, chance = RedisStore(server.store_url, timeout=10.0), real_chance()
    desk = await Desks(Outside(store, chance.now, chance.rng, chance.new_id), 2**30).find(name, "model")
    rng = np.random.default_rng(seed)
    for _ in range(rounds // _BATCH):
        await _play_batch(desk, rng)
    await desk.maintain()
    await store.close()


async def _play_batch(desk: Desk, rng: np.random.Generator) -> None:
    asks = [Ask(context, None, False) for context in rng.normal(size=(_BATCH, D)).tolist()]
    answers = await asyncio.gather(*(desk.predict(ask) for ask in asks))
    correct = rng.random(_BATCH) < 1 / 3
    given = [
        Feedback(answer.prediction_id.partition(":")[2], bool(bit), None)
        for answer, bit in zip(answers, correct, strict=True)
    ]
    await asyncio.gather(*(desk.give_feedback(one) for one in given))


async def rates(server: Server, name: str, n: int, seed: int) -> tuple[float, float]:
    """Requests per second of predict and of feedback, over HTTP."""
    made = await drive(server.port, predictions("/predict", name, n, seed), CONNECTIONS, keep=True)
    given = await drive(server.port, feedback("/feedback", made.bodies), CONNECTIONS)
    return made.rate, given.rate


def rows(long: int = LONG, n: int = 3_000) -> list[Row]:
    """The two paths with a long history beside a short one, taken in turns."""
    with running() as server:
        for name, rounds in (("short", SHORT), ("long", long)):
            create_model(server, name, algorithm="gaptron")
            uvloop.run(lengthen(server, name, rounds, seed=3))
            uvloop.run(rates(server, name, n // 3, seed=4))
        taken: dict[str, list[tuple[float, float]]] = {"short": [], "long": []}
        for seed in range(REPEATS):
            for name, runs in taken.items():
                runs.append(uvloop.run(rates(server, name, n, seed)))
    short, longer = (np.median(taken[name], axis=0) for name in ("short", "long"))
    return [
        at_least(f"POST {path}, {long:,} rounds beside {SHORT:,}", float(longer[i]), float(short[i]), "/s", 0.9)
        for i, path in enumerate(("/predict", "/feedback"))
    ]
