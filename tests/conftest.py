"""What the tests share: real stores, event loops, and the service in this process or in its own."""

import asyncio
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

from service.settings import Settings
from service.store.embedded.server import EmbeddedServer
from service.store.redis.redis_store import RedisStore
from tests.certificates import Certificates, make_certificates
from tests.fleets import Cluster, cluster
from tests.servers import REDIS_SERVER, redis_server
from tests.service.wager import Wager, serve
from tests.service.workers import worker

_names = (f"m{number:04}" for number in itertools.count())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an `async def` test in the event loop of its `runner` fixture, or in one of its own."""
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


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside() -> None:
    """Whatever WAGER_ variables the developer has set, the tests do not see them."""
    for name in Settings.model_fields:
        os.environ.pop(f"WAGER_{name.upper()}", None)


@pytest.fixture(scope="session", autouse=True)
def _fields_are_compiled_once() -> Iterator[None]:
    """FastAPI compiles the fields of all routes for each application, and the tests make a thousand applications."""
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
    """The event loop of one test, for the fixtures that must share it."""
    with asyncio.Runner() as running:
        yield running


@pytest.fixture
def name() -> str:
    """The name of a model that no other test has: cheaper than an empty store."""
    return next(_names)


@pytest.fixture(scope="session")
def store_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The store of the product: an embedded Valkey."""
    with EmbeddedServer(tmp_path_factory.mktemp("valkey")) as server:
        yield server.url


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The oldest store that is promised to work: Redis 7.0, where it is installed."""
    if REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """For servers that speak TLS, where redis-server is installed: the embedded store's program does not."""
    if REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def small_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three primaries, with a replica each."""
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def cluster_url(small_cluster: Cluster) -> str:
    """The URL of a cluster."""
    return small_cluster.url


@pytest.fixture(params=["store_url", "redis_url", "cluster_url"], ids=["embedded-valkey", "redis-server", "cluster"])
def any_store_url(request: pytest.FixtureRequest) -> str:
    """Each store in turn."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def store(store_url: str, runner: asyncio.Runner) -> Iterator[RedisStore]:
    """A connection to the product's store."""
    connected = RedisStore(store_url, timeout=5.0)
    yield connected
    runner.run(connected.close())


@pytest.fixture
def client(store_url: str, runner: asyncio.Runner) -> Iterator[httpx2.AsyncClient]:
    """The application of one worker, in this process, on the product's store."""
    context = worker(store_url)
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Wager]:
    """`wager serve`, one worker, in a process of its own."""
    with serve(tmp_path) as wager:
        yield wager
