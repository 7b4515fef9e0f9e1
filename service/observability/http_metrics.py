"""The content of `/metrics`: requests of all worker processes, and figures of the models.

A scrape may reach any worker, so the workers share their counters, in files, and read the figures of the models from
the store. `wager serve` sets the folder of the files, `PROMETHEUS_MULTIPROC_DIR`.
"""

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_NUMBERS = len(_LATENCIES) + 2  # one bucket for each bound, one without a bound, and the sum
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}  # the observer converts HEAD to GET


class WorkerMetrics:
    """The counters of one worker. Counting only adds to a list, which is cheap; `flush` fills the histogram."""

    def __init__(self) -> None:
        disable_created_metrics()  # omit the series with times of creation
        self._registry = CollectorRegistry()
        self._requests = Histogram(
            "wager_http_request_duration_seconds",
            "Time from the head of a request to the end of its response.",
            ("method", "route", "status"),
            buckets=_LATENCIES,
            registry=self._registry,
        )
        self._refusals = Counter(
            "wager_key_refusals",
            "Requests refused because a budget of their API key is used up.",
            ("key_id", "budget"),
            registry=self._registry,
        )
        self._compute = Counter(
            "wager_key_compute_seconds",
            "Processor time of the requests of API keys that have a budget of it.",
            ("key_id",),
            registry=self._registry,
        )
        self._gathered: defaultdict[tuple[str, str, int], list[float]] = defaultdict(lambda: [0.0] * _NUMBERS)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. `route` is the path template without the version; "" if none matches."""
        numbers = self._gathered[method if method in METHODS else "other", route, status]
        numbers[bisect_left(_LATENCIES, seconds)] += 1
        numbers[-1] += seconds

    def count_refusal(self, key_id: str, budget: str) -> None:
        """Count a request that was refused because a budget of its key is used up."""
        self._refusals.labels(key_id, budget).inc()

    def count_compute(self, key_id: str, seconds: float) -> None:
        """Count processor time that the requests of a key have used."""
        self._compute.labels(key_id).inc(seconds)

    def flush(self) -> None:
        """Publish the counts, so that scrapes of any worker include them."""
        for (method, route, status), (*counts, total) in self._gathered.items():
            shown = self._requests.labels(method, route or "unmatched", str(status))
            shown._sum.inc(total)  # noqa: SLF001  `observe` adds one at a time, at five times the cost
            for bucket, count in zip(shown._buckets, counts, strict=True):  # noqa: SLF001
                bucket.inc(count)
        self._gathered.clear()

    def expose(self, model_metrics: Iterable[Metric]) -> bytes:
        """Return the counters of all workers and the given metrics, in Prometheus' text format."""
        self.flush()
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        else:
            registry = self._registry
        both: Any = SimpleNamespace(collect=lambda: chain(registry.collect(), model_metrics))
        return generate_latest(both)
