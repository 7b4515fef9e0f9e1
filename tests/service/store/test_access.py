"""The laws of guarded stores: TLS with certificates on both sides, and a user who may do no more than is needed."""

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
from service.store.base import Feedback, FeedbackStatus, PublishedStatistics, Snapshot
from service.store.connections.addresses import NO_FILES, TlsFiles
from service.store.damage import Damage
from service.store.redis.api_keys import ApiKeyTable
from service.store.redis.rate_limits import RateLimits
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ListedModel, ModelKey
from tests.certificates import Certificates
from tests.fleets import Cluster, Server
from tests.servers import REDIS_SERVER, wait_until
from tests.service.store.samples import MOMENT, NOW, STRICT, WINDOW, id_of, sample_predictions

KEY = ModelKey("forest", "first")
GUIDE = Path(__file__).parents[3] / "OPERATIONS.md"


@asynccontextmanager
async def opened(url: str, tls: TlsFiles = NO_FILES) -> AsyncIterator[RedisStore]:
    """A connection for one test."""
    store = RedisStore(url, 5.0, tls)
    try:
        yield store
    finally:
        await store.close()


async def live_a_life(store: RedisStore) -> None:
    """Everything that the service asks of a store, once."""
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
    assert {block.id async for block in store.scan_blocks(KEY)} == {"a", "b"}
    assert await store.delete_model(KEY.name)
    await guard(store)


async def guard(store: RedisStore) -> None:
    """Everything that is asked of it for API keys."""
    table, limits = ApiKeyTable(store.command), RateLimits(store.command)
    assert await table.add("0" * 12, b"record")
    assert await table.replace("0" * 12, b"another")
    assert (await table.get("0" * 12), await table.all()) == (b"another", {"0" * 12: b"another"})
    assert await table.remove("0" * 12)
    assert [(await limits.count("0" * 12, "1/hour")).left for _ in range(2)] == [0, -1]


async def live_a_full_life(store: RedisStore) -> None:
    """The same, by who is allowed to see how the store is set up."""
    await live_a_life(store)
    facts = await store.check()
    assert "not known" not in facts.version + facts.persistence


# --- TLS


@pytest.fixture(scope="module")
def tls_url(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[str]:
    """The URL of a server that wants TLS, and a certificate of its clients."""
    server = Server(tmp_path_factory.mktemp("tls"), tls=certificates).start()
    with server.ended():
        wait_until(server.answers)
        yield f"rediss://127.0.0.1:{server.port}"


async def test_a_store_behind_tls_serves_who_has_the_files(tls_url: str, certificates: Certificates) -> None:
    """With the authority and a certificate of its own the service does everything."""
    async with opened(tls_url, certificates.of_client()) as store:
        await live_a_life(store)


async def test_an_unknown_authority_is_not_believed(tls_url: str, certificates: Certificates) -> None:
    """Without the authority's file, the store's certificate is refused, and the error says so."""
    files = certificates.of_client()._replace(ca=None)
    async with opened(tls_url, files) as store:
        with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await store.check()


async def test_another_hosts_certificate_is_refused(tls_url: str, certificates: Certificates) -> None:
    """A certificate for another name than the URL's is refused."""
    async with opened(tls_url.replace("127.0.0.1", "localhost"), certificates.of_client()) as store:
        with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await store.check()


async def test_a_client_without_a_certificate_is_refused(tls_url: str, certificates: Certificates) -> None:
    """The store does not serve who shows no certificate; the service says that it does not answer."""
    async with opened(tls_url, TlsFiles(certificates.ca)) as store:
        with pytest.raises(StoreUnavailableError, match="does not answer"):
            await store.check()


async def test_a_cluster_behind_tls(tmp_path: Path, certificates: Certificates) -> None:
    """rediss+cluster:// is TLS to every server that the cluster names."""
    options: dict[str, Any] = {"cluster_enabled": "yes", "cluster_port": "0", "tls_cluster": "yes"}
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
            await live_a_life(store)


async def state_of(store: RedisStore) -> bytes:
    """What a cluster says of itself."""
    (primary,) = await store._connection.primaries()
    info = await primary.call("CLUSTER INFO")
    return f"cluster_state:{info['cluster_state']}".encode() if isinstance(info, dict) else bytes(info)


# --- users


def rules_in_the_guide(marker: str) -> list[str]:
    """The user's rules as OPERATIONS.md gives them, without the name and the password."""
    line = next(line for line in GUIDE.read_text().splitlines() if line.strip().startswith(marker))
    return [word for word in line.split()[3:] if not word.startswith(">")]


ONE_SERVER, OF_A_CLUSTER = "ACL SETUSER wager ", "ACL SETUSER wager-cluster "


@pytest.mark.parametrize("kind", ["store_url", "redis_url"])
async def test_the_least_user_can_do_everything(kind: str, tmp_path: Path) -> None:
    """The rules in OPERATIONS.md are enough, in Valkey and in Redis."""
    if kind == "redis_url" and REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    binary = Path(str(REDIS_SERVER)) if kind == "redis_url" else None
    server = Server(tmp_path, binary).start()
    with server.ended():
        wait_until(server.answers)
        server.send("ACL", "SETUSER", "wager", ">se/cret", *rules_in_the_guide(ONE_SERVER))
        async with opened(f"redis://wager:se%2Fcret@127.0.0.1:{server.port}/0") as store:
            await live_a_life(store)


async def test_no_rule_is_too_much(tmp_path: Path) -> None:
    """Without any one of the permitted commands something fails."""
    rules = rules_in_the_guide(ONE_SERVER)
    commands = [rule for rule in rules if rule.startswith("+")]
    with Server(tmp_path).start().ended() as server:
        wait_until(server.answers)
        for command in commands:
            server.send("FLUSHALL")
            server.send("ACL", "SETUSER", "wager", "reset", ">pw", *(rule for rule in rules if rule != command))
            async with opened(f"redis://wager:pw@127.0.0.1:{server.port}") as store:
                with pytest.raises((StoreUnavailableError, AssertionError)):  # noqa: PT012
                    await live_a_full_life(store)
                    pytest.fail(f"nothing needs {command}")


async def test_who_waits_for_replicas_must_be_allowed_to(tmp_path: Path) -> None:
    """The rules and `+wait` are enough; without it the error names the command."""
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


async def test_the_least_user_of_a_cluster(small_cluster: Cluster) -> None:
    """The rules for a cluster are enough, and another server's user is refused."""
    for primary in small_cluster.servers[:3]:
        primary.send("FLUSHALL")  # what other tests have left
    for server in small_cluster.servers:
        server.send("ACL", "SETUSER", "wager", ">pw", *rules_in_the_guide(OF_A_CLUSTER))
    try:
        url = small_cluster.url.replace("redis+cluster://", "redis+cluster://wager:pw@")
        async with opened(url) as store:
            await live_a_life(store)
        async with opened(url.replace(":pw@", ":wrong@")) as store:
            with pytest.raises(StoreUnavailableError, match="invalid username-password pair"):
                await store.check()
    finally:
        for server in small_cluster.servers:
            server.send("ACL", "DELUSER", "wager")


async def test_a_user_without_a_right_is_told_which(tmp_path: Path) -> None:
    """Where a permission lacks, the error names the command."""
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
async def test_a_user_who_may_not_write_is_not_ready(program: str, tmp_path: Path) -> None:
    """Where the right to write, to scripts or to the keys lacks, readiness fails as writes do, and says so."""
    if program == "redis" and REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    rules = rules_in_the_guide(ONE_SERVER)
    with Server(tmp_path, Path(str(REDIS_SERVER)) if program == "redis" else None).start().ended() as server:
        wait_until(server.answers)
        for changed in (["-set"], ["-eval"], ["resetkeys", "~wager:models"], ["resetkeys", "%R~wager:*"]):
            server.send("FLUSHALL")
            server.send("ACL", "SETUSER", "wager", "reset", ">pw", *rules, *changed)
            async with opened(f"redis://wager:pw@127.0.0.1:{server.port}") as store:
                with pytest.raises(StoreUnavailableError, match="lacks a right: "):
                    await store.check()
