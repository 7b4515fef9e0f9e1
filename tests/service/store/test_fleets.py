"""The laws of multi-server stores: slots move, primaries die, and Sentinels name the next primary."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from service.errors import StoreUnavailableError
from service.store import keys
from service.store.access_tables import ApiKeyTable
from service.store.connections.addresses import NO_FILES, TlsFiles
from service.store.redis.redis_store import RedisStore
from tests.certificates import Certificates
from tests.clusters import Cluster, cluster, move_by_key, move_in_one_step
from tests.fleets import SentinelStore, sentinels
from tests.servers import REDIS_SERVER, free_port, wait_until
from tests.service.keyed import bearer, key_admin_at
from tests.service.metrics import parsed, value
from tests.service.sample_models import definition
from tests.service.store.traffic import KEY, traffic
from tests.service.workers import Clock, worker
from tests.store_servers import Server, wait_until_replicated

NAMES = ["on-a", "on-b", "on-c", "on-d"]
"""Models on three different primaries."""

SLOT_KEY = keys.model(KEY.name)


@asynccontextmanager
async def opened(url: str, tls: TlsFiles = NO_FILES) -> AsyncIterator[RedisStore]:
    """Connect to a store for one test."""
    store = RedisStore(url, 2.0, tls)
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.parametrize("move", [move_by_key, move_in_one_step])
async def test_a_slot_that_moves_under_traffic_loses_nothing(tmp_path: Path, move: Callable[..., None]) -> None:
    """Every acknowledged feedback is in the log once, and the same store object follows the slot."""
    with cluster(tmp_path) as fleet:
        slot = fleet.slot(SLOT_KEY)
        source = fleet.owner(slot)
        target = next(server for server in fleet.servers[:3] if server is not source)
        async with opened(fleet.url) as store:
            async with traffic(store) as players:
                await asyncio.to_thread(move, fleet, slot, source, target)
                await asyncio.to_thread(wait_until, lambda: fleet.owner(slot) is target)
            assert Counter(await players.logged()) == Counter(players.acknowledged)
        assert move is move_by_key or not players.errors  # clients see no error when a slot moves in one step


async def test_a_cluster_survives_a_dead_primary(tmp_path: Path) -> None:
    """The replica takes over; the log has no feedback twice, and has everything that was replicated."""
    with cluster(tmp_path, node_timeout_ms=600) as fleet:
        slot = fleet.slot(SLOT_KEY)
        await check_a_death(fleet.url, fleet.owner(slot))


async def check_a_death(url: str, primary: Server, tls: TlsFiles = NO_FILES) -> None:
    """Kill a primary under traffic: replicated rounds stay, none is logged twice, and the store object recovers."""
    async with opened(url, tls) as store:
        async with traffic(store) as players:
            before = set(players.acknowledged)
            await asyncio.to_thread(wait_until_replicated, primary)
            primary.kill()
            await players.has_grown()
        logged = await players.logged()
    assert players.errors
    assert len(logged) == len(set(logged))
    assert before <= set(logged)


class Trio(NamedTuple):
    """Servers that Sentinels watch, with the TLS files of a client."""

    watched: SentinelStore
    tls: TlsFiles


@pytest.fixture(scope="module", params=["plain", "tls"])
def trio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Start a primary, a replica and three Sentinels, first without TLS, then with TLS between all of them."""
    certificates = request.getfixturevalue("certificates") if request.param == "tls" else None
    with sentinels(tmp_path_factory.mktemp("watched"), tls=certificates) as running:
        yield Trio(running, NO_FILES if certificates is None else certificates.of_client())


async def test_an_unknown_sentinel_service_is_named(trio: Trio) -> None:
    """If Sentinels watch no such service, the store is unavailable, and the error names the service."""
    async with opened(trio.watched.url.replace("/wager", "/other"), trio.tls) as store:
        with pytest.raises(StoreUnavailableError, match="no Sentinel names a primary for 'other': unknown"):
            await store.check()


async def test_one_sentinel_down_is_tolerated(trio: Trio) -> None:
    """If the first named Sentinel is down, the others are used."""
    first = trio.watched.sentinels[0]
    first.kill()
    try:
        async with opened(trio.watched.url, trio.tls) as store:
            assert (await store.check()).version.startswith(("Valkey", "Redis"))
    finally:
        first.start()
        wait_until(first.answers)


async def test_a_primary_that_writes_without_replicas_causes_a_warning(trio: Trio) -> None:
    """A primary that accepts writes without its replica is ready, with a warning that names the setting."""
    async with opened(trio.watched.url, trio.tls) as store:
        assert [text for text in (await store.check()).warnings if "min-replicas-to-write to 1" in text]
        trio.watched.primary().send("CONFIG", "SET", "min-replicas-to-write", 1)
        assert (await store.check()).warnings == []
        trio.watched.primary().send("CONFIG", "SET", "min-replicas-to-write", 0)


@pytest.mark.parametrize("trio", ["tls"], indirect=True)
async def test_tls_is_checked_at_sentinels_too(trio: Trio) -> None:
    """Sentinels with an unknown authority or another host name are rejected, without naming the local files."""
    other_host = trio.watched.url.replace("127.0.0.1", "localhost")
    for url, files in ((trio.watched.url, trio.tls._replace(ca=None)), (other_host, trio.tls)):
        async with opened(url, files) as store:
            with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED") as raised:
                await store.check()
        assert ".pem" not in str(raised.value)


async def test_the_next_primary_is_found(trio: Trio) -> None:
    """After the primary is killed, the same store object writes to the primary that Sentinel appoints."""
    primary = trio.watched.primary()
    await check_a_death(trio.watched.url, primary, trio.tls)
    assert trio.watched.primary() is not primary


async def test_the_service_recovers_after_a_fail_over(certificates: Certificates, tmp_path: Path) -> None:
    """The service finds the next primary, which accepts feedback on a prediction from before the fail-over."""
    files: dict[str, Any] = {"store_ca_file": certificates.ca, "store_cert_file": certificates.client}
    request = {"model": "front", "context": [0.6, 0.8, 0.0]}
    with sentinels(tmp_path, tls=certificates) as watched:
        async with worker(watched.url, **files) as client:
            assert (await client.post("/models", json=definition("front"))).status_code == 201
            drawn = (await client.post("/predict", json=request)).json()
            await asyncio.to_thread(wait_until_replicated, watched.servers[0])
            watched.servers[0].kill()
            feedback = {"prediction_id": drawn["prediction_id"], "correct": True}
            async with asyncio.timeout(30.0):
                while (answer := await client.post("/feedback", json=feedback)).status_code == 503:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert answer.json()["status"] == "recorded"
            assert (await client.post("/predict", json=request)).status_code == 200


# --- a cluster


@pytest.mark.parametrize("program", ["valkey", "redis"])
async def test_a_single_server_url_for_a_cluster_is_refused(tmp_path: Path, program: str) -> None:
    """With a single-server URL, a cluster's server is not ready, and the error names the right scheme."""
    if program == "redis" and REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    binary = Path(str(REDIS_SERVER)) if program == "redis" else None
    with Server(tmp_path, binary, cluster_enabled="yes", cluster_port=str(free_port())).start().ended() as server:
        wait_until(server.answers)
        async with opened(f"redis://127.0.0.1:{server.port}") as store:
            with pytest.raises(StoreUnavailableError, match=r"part of the models: use a redis\+cluster://"):
                await store.check()


async def test_a_single_server_url_for_a_cluster_answers_503(small_cluster: Cluster) -> None:
    """`/readyz` and requests for models on other servers answer 503 and name the right scheme."""
    async with worker(f"redis://127.0.0.1:{small_cluster.servers[0].port}") as client:
        answers = [await client.get(path) for path in ("/readyz", *(f"/models/{name}" for name in "abcdef"))]
    wrong = {answer.json()["detail"] for answer in answers if answer.status_code == 503}
    assert answers[0].status_code == 503
    assert [answer.status_code for answer in answers[1:]].count(503) > 1
    assert all("redis+cluster://" in detail for detail in wrong)


async def test_keys_limits_and_metrics_span_a_cluster(small_cluster: Cluster) -> None:
    """API keys, their limits and `/metrics` cover the whole cluster, wherever a model is."""
    asking = {"context": [0.6, 0.8, 0.0]}
    async with opened(small_cluster.url) as store:
        key_admin = key_admin_at(ApiKeyTable(store.command), Clock())
        admin = await key_admin.create("the tests", ["admin"])
        limited = await key_admin.create("the tests", ["predict"], limit="3/hour")
        async with worker(small_cluster.url, auth="required", metrics_models=",".join(NAMES)) as client:
            for name in NAMES:
                made = await client.post("/models", json=definition(name), headers=bearer(admin))
                assert made.status_code == 201
            answers = [
                await client.post("/predict", json=asking | {"model": name}, headers=bearer(limited)) for name in NAMES
            ]
            samples = parsed((await client.get("/metrics", headers=bearer(admin))).text)
            for name in NAMES:
                await client.delete(f"/models/{name}", headers=bearer(admin))
        for key in (admin, limited):
            await key_admin.revoke(key.id)
    assert len({small_cluster.owner(small_cluster.slot(keys.model(name))) for name in NAMES}) == 3
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [value(samples, "wager_predictions_total", model=name) for name in NAMES] == [1, 1, 1, 0]
    assert value(samples, "wager_models") >= len(NAMES)
    assert value(samples, "wager_store_up") == 1


async def test_load_is_that_of_a_clusters_fullest_server(small_cluster: Cluster) -> None:
    """The reported memory and limit are those of the server nearest to its limit."""
    async with opened(small_cluster.url) as store:
        for number, server in enumerate(small_cluster.servers[:3]):
            limit = 2**28 + number
            server.send("CONFIG", "SET", "maxmemory", limit)
            assert (await store.read_load()).memory_limit == limit
            server.send("CONFIG", "SET", "maxmemory", 0)
