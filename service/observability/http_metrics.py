"""What `/metrics` tells: what the worker processes did, and what the store knows about the models.

With several workers a scrape lands on any of them. Their counters are therefore shared by files
(`PROMETHEUS_MULTIPROC_DIR`, which `wager serve` sets), and every worker answers the sum of all. What concerns models
is read from the store and is the same whoever answers.
"""

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_NUMBERS = len(_LATENCIES) + 2  # a bucket each, one without a bound, and the sum
_METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}


class WorkerMetrics:
    """What one worker counts. A request costs it a step in a list; `flush` brings what gathered to the metrics."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # as many series again, and nobody asks for them
        self._registry = CollectorRegistry()
        self._requests = Histogram(
            "wager_http_request_duration_seconds",
            "Time from a request's head to the end of its answer.",
            ("method", "route", "status"),
            buckets=_LATENCIES,
            registry=self._registry,
        )
        self._gathered: defaultdict[tuple[str, str, int], list[float]] = defaultdict(lambda: [0.0] * _NUMBERS)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts an answered request.

        Args:
            method: as it was sent.
            route: the template of its path, without the version; "" where no route matched.
            status: of the answer.
            seconds: how long it took.
        """
        numbers = self._gathered[method if method in _METHODS else "other", route, status]
        numbers[bisect_left(_LATENCIES, seconds)] += 1
        numbers[-1] += seconds

    def flush(self) -> None:
        """Makes what was counted visible to scrapes, of whichever worker."""
        for (method, route, status), (*counts, total) in self._gathered.items():
            shown = self._requests.labels(method, route or "unmatched", str(status))
            shown._sum.inc(total)  # noqa: SLF001  `observe` takes one at a time, five times the cost of all else here
            for bucket, count in zip(shown._buckets, counts, strict=True):  # noqa: SLF001
                bucket.inc(count)
        self._gathered.clear()

    def expose(self, model_metrics: Iterable[Metric]) -> bytes:
        """All metrics in Prometheus' text format: those of every worker, and the figures given."""
        self.flush()
        if _SHARED_FOLDER in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        else:
            registry = self._registry
        return generate_latest(_Both(registry, model_metrics))


class _Both:
    """What a registry collects, and then some."""

    def __init__(self, registry: CollectorRegistry, more: Iterable[Metric]) -> None:
        self._registry = registry
        self._more = more

    def collect(self) -> Iterable[Metric]:
        yield from self._registry.collect()
        yield from self._more
