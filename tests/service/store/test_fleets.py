"""The laws of multi-server stores: Sentinels name the next primary, and a cluster is one store."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from service.errors import StoreUnavailableError
from service.store import keys
from service.store.access_tables import ApiKeyTable
from service.store.connections.addresses import NO_FILES, TlsFiles
from tests.clusters import Cluster
from tests.fleets import SentinelStore, sentinels
from tests.servers import wait_until
from tests.service.keyed import bearer, key_admin_at
from tests.service.metrics import parsed, value
from tests.service.sample_models import definition
from tests.service.store.calls import KEY, open_store
from tests.service.store.samples import NOW
from tests.service.store.test_trouble import wait_for_readiness
from tests.service.workers import Clock, worker

NAMES = ["on-a", "on-b", "on-c", "on-d"]
"""Models on three different primaries."""


class Trio(NamedTuple):
    """Servers that Sentinels watch, with the TLS files of a client."""

    watched: SentinelStore
    tls: TlsFiles


@pytest.fixture(scope="module", params=["plain", "tls"])
def trio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    certificates = request.getfixturevalue("certificates") if request.param == "tls" else None
    with sentinels(tmp_path_factory.mktemp("watched"), tls=certificates) as running:
        yield Trio(running, NO_FILES if certificates is None else certificates.of_client())


async def test_an_unknown_sentinel_service_is_named(trio: Trio) -> None:
    async with open_store(trio.watched.url.replace("/wager", "/other"), 2.0, trio.tls) as store:
        with pytest.raises(StoreUnavailableError, match="no Sentinel names a primary for 'other': unknown"):
            await store.check()


async def test_one_sentinel_down_is_tolerated(trio: Trio) -> None:
    first = trio.watched.sentinels[0]
    first.kill()
    try:
        async with open_store(trio.watched.url, 2.0, trio.tls) as store:
            assert (await store.check()).version.startswith(("Valkey", "Redis"))
    finally:
        first.start()
        wait_until(first.answers)


async def test_a_primary_that_writes_without_replicas_causes_a_warning(trio: Trio) -> None:
    async with open_store(trio.watched.url, 2.0, trio.tls) as store:
        assert [text for text in (await store.check()).warnings if "min-replicas-to-write to 1" in text]
        trio.watched.primary().send("CONFIG", "SET", "min-replicas-to-write", 1)
        assert (await store.check()).warnings == []
        trio.watched.primary().send("CONFIG", "SET", "min-replicas-to-write", 0)


@pytest.mark.parametrize("trio", ["tls"], indirect=True)
async def test_tls_is_checked_at_sentinels_too(trio: Trio) -> None:
    other_host = trio.watched.url.replace("127.0.0.1", "localhost")
    for url, files in ((trio.watched.url, trio.tls._replace(ca=None)), (other_host, trio.tls)):
        async with open_store(url, 2.0, files) as store:
            with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED") as raised:
                await store.check()
        assert ".pem" not in str(raised.value)


async def test_the_next_primary_is_found(trio: Trio) -> None:
    """After the primary is killed, the same store object writes to the primary that Sentinel appoints."""
    primary = trio.watched.primary()
    async with open_store(trio.watched.url, 2.0, trio.tls) as store:
        await store.check()
        primary.kill()
        await wait_for_readiness(store.check, good=True)
        assert await store.create_model(KEY, "{}", NOW)
    assert trio.watched.primary() is not primary


# --- a cluster


async def test_a_single_server_url_for_a_cluster_answers_503(small_cluster: Cluster) -> None:
    async with worker(f"redis://127.0.0.1:{small_cluster.servers[0].port}") as client:
        answers = [await client.get(path) for path in ("/readyz", *(f"/models/{name}" for name in "abcdef"))]
    wrong = {answer.json()["detail"] for answer in answers if answer.status_code == 503}
    assert answers[0].status_code == 503
    assert [answer.status_code for answer in answers[1:]].count(503) > 1
    assert all("redis+cluster://" in detail for detail in wrong)


async def test_keys_limits_and_metrics_span_a_cluster(small_cluster: Cluster) -> None:
    asking = {"context": [0.6, 0.8, 0.0]}
    async with open_store(small_cluster.url, 2.0) as store:
        key_admin = key_admin_at(ApiKeyTable(store.command), Clock())
        admin = await key_admin.create("the tests", ["admin"])
        limited = await key_admin.create("the tests", ["predict"], budgets={"requests": "3/hour"})
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
    async with open_store(small_cluster.url, 2.0) as store:
        for number, server in enumerate(small_cluster.servers[:3]):
            limit = 2**28 + number
            server.send("CONFIG", "SET", "maxmemory", limit)
            assert (await store.read_load()).memory_limit == limit
            server.send("CONFIG", "SET", "maxmemory", 0)
