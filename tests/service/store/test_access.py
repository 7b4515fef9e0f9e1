"""The laws of protected stores: mutual TLS, and users with the fewest permissions."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.errors import StoreUnavailableError
from service.store.access_tables import ApiKeyTable, RateLimits
from service.store.connections.addresses import NO_FILES, TlsFiles
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ListedModel, ModelKey, StoredPolicies
from service.store.values import Damage, Due, Feedback, FeedbackStatus, PublishedStatistics, Snapshot
from tests.certificates import Certificates
from tests.clusters import Cluster
from tests.servers import REDIS_SERVER, free_port, wait_until
from tests.service.store.expiries import LATE, until
from tests.service.store.samples import MOMENT, NOW, STRICT, WINDOW, id_of, sample_block, sample_ids, sample_predictions
from tests.store_servers import Server

KEY = ModelKey("forest", "first")
GUIDE = Path(__file__).parents[3] / "OPERATIONS.md"


@asynccontextmanager
async def opened(url: str, tls: TlsFiles = NO_FILES) -> AsyncIterator[RedisStore]:
    """Connect to a store for one test."""
    store = RedisStore(url, 5.0, tls)
    try:
        yield store
    finally:
        await store.close()


async def all_blocks(store: RedisStore) -> set[str]:
    """Return the names of all blocks of the model."""
    found, cursor = set[str](), ""
    while True:
        page = await store.scan_blocks(KEY, cursor)
        found |= {block.id for block in page.blocks}
        if page.next_cursor is None:
            return found
        cursor = page.next_cursor


async def use_every_operation(store: RedisStore) -> None:
    """Call each store operation of the service once."""
    await store.check()
    assert await store.create_model(KEY, "{}", NOW)
    assert await store.add_predictions(KEY, sample_predictions("a", "b"), WINDOW, None) == [None] * 2
    results = await store.add_feedback(KEY, [Feedback(id_of(own), True, None) for own in "ab"], STRICT, NOW)
    assert {result.status for result in results} == {FeedbackStatus.RECORDED}
    assert (await store.read_tail(KEY, 0, 10)).round_count == 2
    assert await store.save_snapshot(KEY, Snapshot(2, b"state", MOMENT), 1) == 2
    assert await store.load_snapshot(KEY) == Snapshot(2, b"state")
    assert isinstance((await store.list_models("", 10)).models[0], ListedModel)
    assert await store.keep_summary(KEY, "{}")
    assert await store.publish_statistics(KEY, PublishedStatistics(2, b"tally", 7, 3, 2)) == 2
    figures = await store.read_model_stats(KEY.name)
    assert figures is not None
    assert (figures.statistics, await store.list_names(10)) == (b"tally", [KEY.name])
    assert (await store.read_load()).models == 1
    assert await store.record_damage(KEY, [Damage(3, 3, 3, "noise")])
    await store.mark_snapshot(KEY, 2, "noise")
    assert [each.last for each in (await store.read_damage(KEY)).found] == [2, 3]
    assert await store.list_damaged(10) == [KEY.name]
    assert await all_blocks(store) == {"a", "b"}
    assert await store.delete_model(KEY.name)
    await use_closing_operations(store)
    await use_key_operations(store)


async def use_closing_operations(store: RedisStore) -> None:
    """Activate and close predictions of a new model, some of them in one block."""
    assert await store.create_model(KEY, "{}", NOW, "", StoredPolicies(f"{WINDOW} on_arrival 0.5"))
    blocks = [*sample_predictions("c"), sample_block("several", 3)]
    assert await store.add_predictions(KEY, blocks, WINDOW, None) == [None] * 2
    (first, *_) = sample_ids("several", 3)
    (given,) = await store.add_feedback(KEY, [Feedback(first, None, None, 0.5)], STRICT, NOW)
    assert given.status is FeedbackStatus.RECORDED
    active = await store.activate(id_of("c")._replace(model=KEY.name), KEY.incarnation, NOW)
    assert active is FeedbackStatus.DUPLICATE
    await store.watch(Due.CLOSING, [KEY])
    assert await store.claim(Due.CLOSING, until(LATE), 8, 2.0) == [KEY]
    await store.put_off(Due.CLOSING, KEY, until(LATE), 60.0)
    assert (await store.close_expired(KEY, until(LATE), 8)).newest_round == 4
    model = await store.get_model(KEY.name)
    assert model is not None
    assert model.partial == 2.0
    assert await store.delete_model(KEY.name)


async def use_key_operations(store: RedisStore) -> None:
    """Call each operation on API keys and rate limits once."""
    table, limits = ApiKeyTable(store.command), RateLimits(store.command)
    assert await table.add("0" * 12, b"record")
    assert await table.replace("0" * 12, b"another")
    assert (await table.get("0" * 12), await table.all()) == (b"another", {"0" * 12: b"another"})
    assert await table.remove("0" * 12)
    assert [(await limits.count("0" * 12, "1/hour")).left for _ in range(2)] == [0, -1]


async def use_every_operation_and_read_settings(store: RedisStore) -> None:
    """Call each operation as a user who may read the store's settings."""
    await use_every_operation(store)
    facts = await store.check()
    assert "unknown" not in facts.version + facts.persistence


# --- TLS


@pytest.fixture(scope="module")
def tls_url(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[str]:
    """Start a server that requires TLS with client certificates, and provide its URL."""
    server = Server(tmp_path_factory.mktemp("tls"), tls=certificates).start()
    with server.ended():
        wait_until(server.answers)
        yield f"rediss://127.0.0.1:{server.port}"


async def test_a_tls_store_serves_clients_with_certificates(tls_url: str, certificates: Certificates) -> None:
    """With the authority's file and a client certificate, every operation works."""
    async with opened(tls_url, certificates.of_client()) as store:
        await use_every_operation(store)


async def test_an_unknown_authority_is_rejected(tls_url: str, certificates: Certificates) -> None:
    """Without the authority's file, the client rejects the store's certificate, and the error names the cause."""
    files = certificates.of_client()._replace(ca=None)
    async with opened(tls_url, files) as store:
        with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await store.check()


async def test_another_hosts_certificate_is_refused(tls_url: str, certificates: Certificates) -> None:
    """The client rejects a certificate for another host name than the URL's."""
    async with opened(tls_url.replace("127.0.0.1", "localhost"), certificates.of_client()) as store:
        with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await store.check()


async def test_a_client_without_a_certificate_is_refused(tls_url: str, certificates: Certificates) -> None:
    """The store rejects a client without a certificate; the service reports that the store does not answer."""
    async with opened(tls_url, TlsFiles(certificates.ca)) as store:
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            await store.check()


async def test_a_cluster_url_applies_tls_to_every_server(tmp_path: Path, certificates: Certificates) -> None:
    """rediss+cluster:// uses TLS to every server that the cluster names."""
    # The default port of the cluster bus, the port + 10,000, may be in use.
    options: dict[str, Any] = {"cluster_enabled": "yes", "cluster_port": str(free_port()), "tls_cluster": "yes"}
    server = Server(tmp_path, tls=certificates, **options).start()
    with server.ended():
        wait_until(server.answers)
        files = certificates.of_client()
        async with opened(f"rediss://127.0.0.1:{server.port}", files) as plain:
            await plain._connection.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        async with opened(f"rediss+cluster://127.0.0.1:{server.port}", files) as store:
            async with asyncio.timeout(30.0):
                while b"cluster_state:ok" not in await state_of(store):  # noqa: ASYNC110  another process's state
                    await asyncio.sleep(0.01)
            await use_every_operation(store)


async def state_of(store: RedisStore) -> bytes:
    """Return a cluster's report of its state."""
    (primary,) = await store._connection.primaries()
    info = await primary.call("CLUSTER INFO")
    return f"cluster_state:{info['cluster_state']}".encode() if isinstance(info, dict) else bytes(info)


# --- users


def rules_in_the_guide(marker: str) -> list[str]:
    """Return the user's rules in OPERATIONS.md, without the name and the password."""
    line = next(line for line in GUIDE.read_text().splitlines() if line.strip().startswith(marker))
    return [word for word in line.split()[3:] if not word.startswith(">")]


ONE_SERVER, OF_A_CLUSTER = "ACL SETUSER wager ", "ACL SETUSER wager-cluster "


@pytest.mark.parametrize("kind", ["store_url", "redis_url"])
async def test_the_documented_rules_permit_every_operation(kind: str, tmp_path: Path) -> None:
    """The rules in OPERATIONS.md suffice in Valkey and in Redis."""
    if kind == "redis_url" and REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    binary = Path(str(REDIS_SERVER)) if kind == "redis_url" else None
    server = Server(tmp_path, binary).start()
    with server.ended():
        wait_until(server.answers)
        server.send("ACL", "SETUSER", "wager", ">se/cret", *rules_in_the_guide(ONE_SERVER))
        async with opened(f"redis://wager:se%2Fcret@127.0.0.1:{server.port}/0") as store:
            await use_every_operation(store)


async def test_every_documented_permission_is_needed(tmp_path: Path) -> None:
    """Without any one of the permitted commands, an operation fails."""
    rules = rules_in_the_guide(ONE_SERVER)
    commands = [rule for rule in rules if rule.startswith("+")]
    with Server(tmp_path).start().ended() as server:
        wait_until(server.answers)
        for command in commands:
            server.send("FLUSHALL")
            server.send("ACL", "SETUSER", "wager", "reset", ">pw", *(rule for rule in rules if rule != command))
            async with opened(f"redis://wager:pw@127.0.0.1:{server.port}") as store:
                with pytest.raises((StoreUnavailableError, AssertionError)):  # noqa: PT012
                    await use_every_operation_and_read_settings(store)
                    pytest.fail(f"nothing needs {command}")


async def test_waiting_for_replicas_needs_the_wait_permission(tmp_path: Path) -> None:
    """The rules plus `+wait` suffice; without `+wait` the error names the command."""
    with Server(tmp_path).start().ended() as server:
        wait_until(server.answers)
        store = RedisStore(f"redis://wager:pw@127.0.0.1:{server.port}", 0.5, replicas=1)
        try:
            for right, outcome in (("-wait", "permissions to run the 'wait' command"), ("+wait", "0 of 1 replicas")):
                server.send("ACL", "SETUSER", "wager", "reset", ">pw", *rules_in_the_guide(ONE_SERVER), right)
                await store.create_model(KEY, "{}", NOW)
                with pytest.raises(StoreUnavailableError, match=outcome):
                    await store.add_feedback(KEY, [Feedback(id_of("a"), True, None)], STRICT, NOW)
        finally:
            await store.close()


async def test_the_documented_cluster_rules_permit_every_operation(small_cluster: Cluster) -> None:
    """The rules for a cluster suffice, and a wrong password is refused."""
    for primary in small_cluster.servers[:3]:
        primary.send("FLUSHALL")  # other tests' keys
    for server in small_cluster.servers:
        server.send("ACL", "SETUSER", "wager", ">pw", *rules_in_the_guide(OF_A_CLUSTER))
    try:
        url = small_cluster.url.replace("redis+cluster://", "redis+cluster://wager:pw@")
        async with opened(url) as store:
            await use_every_operation(store)
        async with opened(url.replace(":pw@", ":wrong@")) as store:
            with pytest.raises(StoreUnavailableError, match="invalid username-password pair"):
                await store.check()
    finally:
        for server in small_cluster.servers:
            server.send("ACL", "DELUSER", "wager")


async def test_a_missing_permission_is_named(tmp_path: Path) -> None:
    """Without a permission, the error names the command."""
    with Server(tmp_path).start().ended() as server:
        wait_until(server.answers)
        server.send("ACL", "SETUSER", "wager", "on", ">pw", "~wager:*", "+zadd")
        async with opened(f"redis://wager:pw@127.0.0.1:{server.port}") as store:
            with pytest.raises(StoreUnavailableError, match=r"(?i)permissions to run the 'eval"):
                await store.create_model(KEY, "{}", NOW)
        once = Retry(NoBackoff(), 0)
        with (
            redis.Redis(port=server.port, username="wager", retry=once) as nobody,
            pytest.raises(redis.AuthenticationError),
        ):
            nobody.ping()


@pytest.mark.parametrize("program", ["valkey", "redis"])
async def test_a_user_without_write_permission_is_not_ready(program: str, tmp_path: Path) -> None:
    """Without permission to write, to run scripts or to access keys, readiness fails with that reason."""
    if program == "redis" and REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    rules = rules_in_the_guide(ONE_SERVER)
    with Server(tmp_path, Path(str(REDIS_SERVER)) if program == "redis" else None).start().ended() as server:
        wait_until(server.answers)
        for changed in (["-set"], ["-eval"], ["resetkeys", "~wager:models"], ["resetkeys", "%R~wager:*"]):
            server.send("FLUSHALL")
            server.send("ACL", "SETUSER", "wager", "reset", ">pw", *rules, *changed)
            async with opened(f"redis://wager:pw@127.0.0.1:{server.port}") as store:
                with pytest.raises(StoreUnavailableError, match="lacks a permission: "):
                    await store.check()
