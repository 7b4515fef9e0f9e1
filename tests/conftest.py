"""Fixtures that all tests share: real stores, event loops, and the service in this process or in a subprocess."""

import asyncio
import gc
import inspect
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pydantic
import pytest
from fastapi._compat import v2 as fastapi_fields

from service.settings import FOREIGN
from service.store.embedded.server import EmbeddedServer
from service.store.redis.redis_store import RedisStore
from tests.certificates import Certificates, make_certificates
from tests.clusters import Cluster, cluster
from tests.order import longest_first
from tests.servers import REDIS_SERVER, raw, redis_server
from tests.service.wager import Wager, serve
from tests.service.workers import worker

gc.disable()  # the collection of tests makes much that stays, which would be looked through again and again
_names = (f"m{number:04}" for number in itertools.count())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test in the event loop of its `runner` fixture, or in a new one."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    coroutine = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    runner = pyfuncitem.funcargs.get("runner")
    if isinstance(runner, asyncio.Runner):
        runner.run(coroutine)
    else:
        asyncio.run(coroutine)
    return True


@pytest.hookimpl(trylast=True)  # after the selection of tests by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest tests if several processes share them."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = longest_first([item.path.as_posix() for item in items], items, processes)


def pytest_collection_finish() -> None:
    """Collect garbage from now on, but not among the tests themselves."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> None:
    """Remove the developer's WAGER_ variables, so that tests do not see them."""
    for name in list(os.environ):
        if name.upper().startswith("WAGER_") and name.lower().removeprefix("wager_") not in FOREIGN:
            del os.environ[name]


@pytest.fixture(scope="session", autouse=True)
def _compile_fields_once() -> Iterator[None]:
    """Cache pydantic's type adapters: FastAPI compiles all fields per application, and tests make a thousand."""
    known: dict[str, pydantic.TypeAdapter[Any]] = {}

    def adapter(of: Any, config: pydantic.ConfigDict | None = None) -> pydantic.TypeAdapter[Any]:
        key = repr((of, config))
        if key not in known:
            known[key] = pydantic.TypeAdapter(of, config=config)
        return known[key]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fastapi_fields, "TypeAdapter", adapter)
        yield


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """Provide the event loop of one test, for fixtures that must share it."""
    with asyncio.Runner() as running:
        yield running


@pytest.fixture
def name() -> str:
    """Return a model name that no other test uses; cheaper than an empty store."""
    return next(_names)


@pytest.fixture(scope="session")
def store_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the product's default store, an embedded Valkey, and provide its URL."""
    with EmbeddedServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


@pytest.fixture(scope="module")
def own_store_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a store for one file, so that lists contain no models of others."""
    with EmbeddedServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


@pytest.fixture
def empty(own_store_url: str) -> str:
    """Empty the file's own store, and return its URL."""
    with raw(own_store_url) as client:
        client.flushall()
    return own_store_url


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the oldest supported store, Redis 7.0, if it is installed, and provide its URL."""
    if REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Make certificates for TLS servers; these need redis-server, as the embedded store lacks TLS."""
    if REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def small_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start three primaries with one replica each."""
    with cluster(tmp_path_factory.mktemp("cluster"), node_timeout_ms=15_000) as running:
        yield running


@pytest.fixture(scope="session")
def cluster_url(small_cluster: Cluster) -> str:
    return small_cluster.url


@pytest.fixture(params=["store_url", "redis_url", "cluster_url"], ids=["embedded-valkey", "redis-server", "cluster"])
def any_store_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def store(store_url: str, runner: asyncio.Runner) -> Iterator[RedisStore]:
    """Connect to the product's default store."""
    connected = RedisStore(store_url, timeout=5.0)
    yield connected
    runner.run(connected.close())


@pytest.fixture
def no_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers of this process do nothing in the background: what the store runs is then what the test asks for."""
    monkeypatch.setattr("service.app._UPKEEP_SECONDS", 3600.0)


@pytest.fixture
def client(store_url: str, runner: asyncio.Runner) -> Iterator[httpx2.AsyncClient]:
    """Run the application of one worker in this process, on the product's default store."""
    context = worker(store_url)
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Wager]:
    """Run `wager serve` with one worker in a subprocess."""
    with serve(tmp_path) as wager:
        yield wager
