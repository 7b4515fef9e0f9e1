"""The laws of protected stores: mutual TLS, and users with the fewest permissions."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from service.errors import StoreUnavailableError
from service.store import keys
from service.store.access_tables import ApiKeyTable, UsageCounters
from service.store.connections.addresses import TlsFiles
from service.store.redis.redis_store import RedisStore
from service.store.stored_models import ListedModel
from service.store.values import Damage, Due, Feedback, FeedbackStatus, NameQuota, PublishedStatistics, Snapshot
from tests.certificates import Certificates, make_certificates
from tests.clusters import Cluster
from tests.servers import REDIS_SERVER, free_port, wait_until
from tests.service.store.calls import KEY, open_store
from tests.service.store.samples import MOMENT, NOW, STRICT, WINDOW, id_of, sample_block, sample_ids, sample_predictions
from tests.service.store.scenario import INCORRECT, LATE, Scenario, right, until
from tests.service.store.test_deleted_models import erase
from tests.store_servers import Server

GUIDE = Path(__file__).parents[3] / "docs/guides/deploying.md"


async def use_every_operation(store: RedisStore) -> None:
    """Call each store operation of the service once."""
    await store.check()
    assert await store.create_model(KEY, "{}", NOW)
    assert await store.add_predictions(KEY, sample_predictions("a", "b"), WINDOW, None) == [None] * 2
    results = await store.add_feedback(KEY, [right("a"), right("b")], STRICT, NOW)
    assert {result.status for result in results} == {FeedbackStatus.RECORDED}
    assert (await store.read_tail(KEY, 0, 10)).round_count == 2
    assert await store.save_snapshot(KEY, Snapshot(2, b"state", MOMENT), 1) == 2
    assert await store.load_snapshot(KEY) == Snapshot(2, b"state")
    assert isinstance((await store.list_models([KEY.name]))[0], ListedModel)
    assert await store.keep_summary(KEY, "{}")
    await store.reserve_name(KEY.name, NameQuota("*", "", 1))
    assert await store.sum_open_bytes([KEY.name]) == 0
    assert await store.publish_statistics(KEY, PublishedStatistics(2, b"tally", 7, 3, 2)) == 2
    assert ((await Scenario(store, KEY).figures()).statistics, await store.list_names(10)) == (b"tally", [KEY.name])
    await store.note_backup(NOW)
    load = await store.read_load()
    assert (load.models, load.backup_at) == (1, NOW)
    await store.count_traffic({KEY.name: 2})
    await store.count_traffic({KEY.name: 1, "another": 3})
    assert (await store.read_traffic()).keys() == {KEY.name, "another"}
    assert await store.list_busiest(10) == [KEY.name]
    assert await store.record_damage(KEY, [Damage(3, 3, 3, "noise")])
    await store.mark_snapshot(KEY, 2, "noise")
    assert [each.last for each in (await store.read_damage(KEY)).found] == [2, 3]
    assert await store.has_damage()
    assert {block.id for block in await Scenario(store, KEY).blocks()} == {"a", "b"}
    assert await store.delete_model(KEY.name)
    await use_closing_operations(store)
    table, limits = ApiKeyTable(store.command), UsageCounters(store.command)
    assert await table.add("0" * 12, b"record")
    assert await table.replace("0" * 12, b"another")
    assert (await table.get("0" * 12), await table.all()) == (b"another", {"0" * 12: b"another"})
    assert await table.remove("0" * 12)
    assert [(await limits.count("0" * 12, "1/hour")).left for _ in range(2)] == [0, -1]
    waits = [await limits.spend("0" * 12, seconds, 0.001) for seconds in (0.5, 0.25, 0.0)]
    assert waits == pytest.approx([30_000.0, 45_000.0, 45_000.0], abs=1_000.0)
    assert await limits.open_bytes("0" * 12) is None
    await limits.note_open_bytes("0" * 12, 7)
    assert await limits.open_bytes("0" * 12) == 7


async def use_closing_operations(store: RedisStore) -> None:
    assert await store.create_model(KEY, "{}", NOW, "", INCORRECT)
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
    assert (await Scenario(store, KEY).model()).partial == 0.5
    assert await store.delete_model(KEY.name)
    assert await store.sum_deleted_bytes(KEY.name.__eq__) == 0
    await erase(store)
    assert await Scenario(store, KEY).blocks() == []


# --- TLS


@pytest.fixture(scope="module")
def tls_url(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[str]:
    """Start a server that requires TLS with client certificates, and provide its URL."""
    with Server(tmp_path_factory.mktemp("tls"), tls=certificates).start().ended() as server:
        wait_until(server.answers)
        yield f"rediss://127.0.0.1:{server.port}"


async def test_a_tls_store_serves_clients_with_certificates(tls_url: str, certificates: Certificates) -> None:
    async with open_store(tls_url, tls=certificates.of_client()) as store:
        await use_every_operation(store)


async def test_a_file_of_authorities_adds_to_the_system_s_on_every_connection(
    tls_url: str, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    async with open_store(tls_url, tls=certificates.of_client()._replace(ca=make_certificates(tmp_path).ca)) as store:
        await store.check()
        assert await store.list_model("nothing") is None  # by a script


@pytest.mark.parametrize("case", ["an unknown authority", "another host", "no client certificate"])
async def test_wrong_certificates_are_refused_by_both_sides(
    tls_url: str, certificates: Certificates, case: str
) -> None:
    files, reason = certificates.of_client(), "CERTIFICATE_VERIFY_FAILED"
    if case == "an unknown authority":
        files = files._replace(ca=None)
    if case == "no client certificate":
        files, reason = TlsFiles(certificates.ca), "does not answer"
    url = tls_url.replace("127.0.0.1", "localhost") if case == "another host" else tls_url
    async with open_store(url, tls=files) as store:
        with pytest.raises(StoreUnavailableError, match=reason):
            await store.check()


async def test_a_cluster_url_applies_tls_to_every_server(tmp_path: Path, certificates: Certificates) -> None:
    # The default port of the cluster bus, the port + 10,000, may be in use.
    options: dict[str, Any] = {"cluster_enabled": "yes", "cluster_port": str(free_port()), "tls_cluster": "yes"}
    with Server(tmp_path, tls=certificates, **options).start().ended() as server:
        wait_until(server.answers)
        files = certificates.of_client()
        async with open_store(f"rediss://127.0.0.1:{server.port}", tls=files) as plain:
            await plain._connection.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        async with open_store(f"rediss+cluster://127.0.0.1:{server.port}", tls=files) as store:
            async with asyncio.timeout(30.0):
                while b"cluster_state:ok" not in await state_of(store):  # noqa: ASYNC110  another process's state
                    await asyncio.sleep(0.01)
            await use_every_operation(store)


async def state_of(store: RedisStore) -> bytes:
    (primary,) = await store._connection.primaries()
    info = await primary.call("CLUSTER INFO")
    return f"cluster_state:{info['cluster_state']}".encode() if isinstance(info, dict) else bytes(info)


# --- users


def rules_in_the_guide(marker: str = "ACL SETUSER wager ") -> list[str]:
    """Return the user's rules in the guide, without the name and the password."""
    line = next(line for line in GUIDE.read_text().splitlines() if line.strip().startswith(marker))
    return [word for word in line.split()[3:] if not word.startswith(">")]


RULES = rules_in_the_guide()
EACH_PROGRAM = pytest.mark.parametrize("program", ["valkey", "redis"])


@contextmanager
def running(folder: Path, program: str = "valkey") -> Iterator[Server]:
    """Run a server without users."""
    if program == "redis" and REDIS_SERVER is None:
        pytest.skip("no redis-server on the PATH")
    with Server(folder, Path(str(REDIS_SERVER)) if program == "redis" else None).start().ended() as server:
        wait_until(server.answers)
        yield server


def user(server: Server, *rules: str, password: str = "pw") -> str:
    """Empty the server, and create a user with these rules; return the user's URL."""
    server.send("FLUSHALL")
    server.send("ACL", "SETUSER", "wager", "reset", f">{password}", *rules)
    return f"redis://wager:{password.replace('/', '%2F')}@127.0.0.1:{server.port}/0"


@EACH_PROGRAM
async def test_the_documented_rules_permit_every_operation(program: str, tmp_path: Path) -> None:
    with running(tmp_path, program) as server:
        async with open_store(user(server, *RULES, password="se/cret")) as store:
            await use_every_operation(store)


async def test_every_documented_permission_is_needed(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        for command in [rule for rule in RULES if rule.startswith("+")]:
            async with open_store(user(server, *(rule for rule in RULES if rule != command))) as store:
                with pytest.raises((StoreUnavailableError, AssertionError)):  # noqa: PT012
                    await use_every_operation(store)
                    facts = await store.check()
                    assert "unknown" not in facts.version + facts.persistence
                    pytest.fail(f"nothing needs {command}")


async def test_waiting_for_replicas_needs_the_wait_permission(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        for rule, outcome in (("-wait", "permissions to run the 'wait' command"), ("+wait", "0 of 1 replicas")):
            store = RedisStore(user(server, *RULES, rule), 0.5, replicas=1)
            await store.create_model(KEY, "{}", NOW)
            with pytest.raises(StoreUnavailableError, match=outcome):
                await store.add_feedback(KEY, [right("a")], STRICT, NOW)
            await store.close()


async def test_measuring_models_needs_a_permission(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        for rule, words in (("-ping", r"(?i)permission"), ("+memory|usage", "")):
            async with open_store(user(server, *RULES, rule)) as store:
                await store.create_model(KEY, "{}", NOW)
                with pytest.raises(StoreUnavailableError, match=words) if words else contextlib.nullcontext():
                    assert (await store.measure(KEY.name)) is not None


@EACH_PROGRAM
async def test_a_copy_of_the_store_needs_two_permissions(program: str, tmp_path: Path) -> None:
    """Servers that send their file from the disk say its length first; the others say how it ends."""
    with running(tmp_path, program) as server:
        for missing, command in (("+sync", "replconf"), ("+replconf", "sync")):
            async with open_store(user(server, *RULES, missing)) as store:
                with pytest.raises(StoreUnavailableError, match=f"permissions to run the '{command}'"):
                    await store.copy(bytearray().extend)
        async with open_store(user(server, *RULES, "+sync", "+replconf")) as store:
            await store.note_backup(NOW)
            for diskless in ("yes", "no"):
                server.send("CONFIG", "SET", "repl-diskless-sync", diskless)
                copied = bytearray()
                await store.copy(copied.extend)
                assert re.match(rb"REDIS|VALKEY", copied)
                assert keys.BACKUP.encode() in copied
                assert copied[-9] == 0xFF  # the last operation, before the checksum
            server.send("CONFIG", "SET", "repl-diskless-sync-delay", 60)
            server.send("CONFIG", "SET", "repl-diskless-sync", "yes")
            copying = asyncio.create_task(store.copy(copied.extend))
            while not server.send("INFO", "replication")["connected_slaves"]:  # noqa: ASYNC110  another process's state
                await asyncio.sleep(0.01)
            server.kill()
            with pytest.raises(StoreUnavailableError):
                await copying


async def test_the_documented_cluster_rules_permit_every_operation(small_cluster: Cluster) -> None:
    for primary in small_cluster.servers[:3]:
        primary.send("FLUSHALL")  # other tests' keys
    for server in small_cluster.servers:
        server.send("ACL", "SETUSER", "wager", ">pw", *rules_in_the_guide("ACL SETUSER wager-cluster "))
    try:
        url = small_cluster.url.replace("redis+cluster://", "redis+cluster://wager:pw@")
        async with open_store(url) as store:
            await use_every_operation(store)
        async with open_store(url.replace(":pw@", ":wrong@")) as store:
            with pytest.raises(StoreUnavailableError, match="invalid username-password pair"):
                await store.check()
    finally:
        for server in small_cluster.servers:
            server.send("ACL", "DELUSER", "wager")


@EACH_PROGRAM
async def test_a_missing_permission_is_named_and_makes_the_store_unready(program: str, tmp_path: Path) -> None:
    with running(tmp_path, program) as server:
        async with open_store(user(server, "on", "~wager:*", "+zadd")) as store:
            with pytest.raises(StoreUnavailableError, match=r"(?i)permissions to run the 'eval"):
                await store.create_model(KEY, "{}", NOW)
        for changed in (["-set"], ["-eval"], ["resetkeys", "~wager:models"], ["resetkeys", "%R~wager:*"]):
            async with open_store(user(server, *RULES, *changed)) as store:
                with pytest.raises(StoreUnavailableError, match="lacks a permission: "):
                    await store.check()
