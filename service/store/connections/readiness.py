"""Checks a store's version, configuration and durability."""

from collections.abc import Sequence
from importlib import resources

from redis.exceptions import ResponseError

from service.errors import StoreUnavailableError
from service.json_values import JsonObject
from service.store.connections.addresses import Kind
from service.store.connections.connections import Call, Primary
from service.store.values import StoreReadiness

OF_A_CLUSTER = "the store is a server of a cluster, which has only a part of the models: use a redis+cluster:// URL"
"""The error message of a connection to a single server if that server belongs to a cluster."""

_PROBE = resources.files("service.store").joinpath("lua", "probe.lua").read_bytes()
_PROBE_MILLISECONDS = 10_000

_PERSISTENCE = {
    ("yes", "always"): "acknowledged feedback survives a crash of the store and a power loss",
    ("yes", "everysec"): (
        "acknowledged feedback survives a crash of the store, unless its disk is slow or full; "
        "a power loss may lose up to two seconds"
    ),
    (
        "yes",
        "no",
    ): "acknowledged feedback survives a crash of the store; a power loss may lose all unwritten data",
}
_NO_PERSISTENCE = "acknowledged feedback is lost when the store stops: its append-only file is off"
_UNKNOWN_PERSISTENCE = "unknown: the store does not allow reading its configuration"
_WEAKER = [*_PERSISTENCE.values(), _UNKNOWN_PERSISTENCE, _NO_PERSISTENCE]  # from the most durable to the least
_SPLIT = (
    "acknowledged feedback may be lost if Sentinels replace a primary that workers still reach: "
    "set min-replicas-to-write to 1"
)
_MODES = ("redis_mode", "server_mode")  # field names in Redis and in Valkey
_UNKNOWN_VERSION = "unknown: the store does not allow reading its version"


async def read_readiness(servers: Sequence[Primary], kind: Kind, write: Call | None) -> StoreReadiness:
    """Read the version and the configuration of each server that accepts writes, and make a test write to it.

    Args:
        servers: the single server, or the primaries of a cluster.
        kind: the kind of deployment that the connection assumes.
        write: sends the test writes and waits for replicas, as for feedback; None to use each server's `call`.

    Returns:
        The distinct versions and warnings, and the weakest durability.

    Raises:
        redis.exceptions.RedisError: if a server refuses the write, or does not answer.
        StoreUnavailableError: if a server does not run scripts, may evict keys, or belongs to a cluster although the
            connection is for a single server; or if `write` finds too few replicas.
    """
    found = [await _read_server(server.call, kind) for server in servers]
    for server in servers:
        await _write(write or server.call, server.probe)
    weakest = max((each.persistence for each in found), key=_WEAKER.index)
    warnings = dict.fromkeys(warning for each in found for warning in each.warnings)
    return StoreReadiness(", ".join(sorted({each.version for each in found})), weakest, list(warnings))


async def _write(call: Call, probe: str | None) -> None:
    """Make a test write, because nothing else reveals that a server refuses writes; do nothing without a key for it.

    Like the scripts that store feedback, the script runs even beyond the memory limit.
    """
    if probe is not None and await call("EVAL", _PROBE, 1, probe, _PROBE_MILLISECONDS) != 1:
        raise StoreUnavailableError("the store does not run Lua scripts")


async def _read_server(call: Call, kind: Kind) -> StoreReadiness:
    info = await _read_info(call)
    if kind is not Kind.CLUSTER and any(info.get(mode) == "cluster" for mode in _MODES):
        raise StoreUnavailableError(OF_A_CLUSTER)
    config = await _read_config(call)
    _refuse_eviction(config)
    persistence, warnings = _persistence(config)
    if kind is Kind.SENTINEL and config and config.get("min-replicas-to-write") == "0":
        warnings.append(_SPLIT)
    return StoreReadiness(_version(info), persistence, warnings)


async def _read_config(call: Call) -> dict[str, str] | None:
    try:
        pairs = await call("CONFIG", "GET", "maxmemory*", "appendonly", "appendfsync", "min-replicas-to-write")
    except ResponseError:  # some managed stores disable the command
        return None
    items = pairs.items() if isinstance(pairs, dict) else zip(pairs[::2], pairs[1::2], strict=True)
    return {_text(name): _text(value) for name, value in items}


def _refuse_eviction(config: dict[str, str] | None) -> None:
    if config and config["maxmemory"] != "0" and config["maxmemory-policy"] != "noeviction":
        policy = config["maxmemory-policy"]
        raise StoreUnavailableError(f"the store may evict models: set its maxmemory-policy {policy!r} to 'noeviction'")


def _persistence(config: dict[str, str] | None) -> tuple[str, list[str]]:
    if config is None:
        return _UNKNOWN_PERSISTENCE, []
    sentence = _PERSISTENCE.get((config["appendonly"], config["appendfsync"]), _NO_PERSISTENCE)
    return sentence, [sentence] if sentence == _NO_PERSISTENCE else []


async def _read_info(call: Call) -> JsonObject:
    try:
        info: JsonObject = await call("INFO", "server")
    except ResponseError:
        return {}
    return info


def _version(info: JsonObject) -> str:
    for program, field in (("Valkey", "valkey_version"), ("Redis", "redis_version")):
        if field in info:
            return f"{program} {info[field]}"
    return _UNKNOWN_VERSION


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
