"""Reads `/metrics` as Prometheus does."""

import asyncio
from collections.abc import Mapping

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.service.workers import Clock

Labels = frozenset[tuple[str, str]]
Samples = Mapping[tuple[str, Labels], float]


def parsed(text: str) -> Samples:
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


async def scrape(client: httpx2.AsyncClient, headers: Mapping[str, str] | None = None) -> Samples:
    answer = await client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parsed(answer.text)


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


async def settled(client: httpx2.AsyncClient, model: str, predictions: int, clock: Clock | None = None) -> Samples:
    async with asyncio.timeout(60.0):
        while True:
            samples = await scrape(client)
            folded = value(samples, "wager_fold_lag_rounds", model=model) == 0
            if folded and value(samples, "wager_predictions_total", model=model) == predictions:
                return samples
            if clock is not None:
                clock.now += 1.0
            await asyncio.sleep(0.1)
