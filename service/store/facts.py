"""What a store promises: read from it, and said in a sentence."""

from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import ResponseError

from service.errors import StoreUnavailableError
from service.store.base import StoreFacts

_Call = Callable[..., Awaitable[Any]]

_PERSISTENCE = {
    ("yes", "always"): "acknowledged feedback survives a crash of the store and a loss of power",
    (
        "yes",
        "everysec",
    ): "acknowledged feedback survives a crash of the store; a loss of power may lose the last second",
    ("yes", "no"): "acknowledged feedback survives a crash of the store; a loss of power may lose some seconds",
}
_NO_PERSISTENCE = "acknowledged feedback is lost when the store stops: its append-only file is off"
_UNKNOWN_PERSISTENCE = "not known: the store does not allow its configuration to be read"


async def read_facts(call: _Call) -> StoreFacts:
    """Asks a store for its version and configuration.

    Raises:
        StoreUnavailableError: if it runs no scripts, or may evict what it holds.
    """
    if await call("EVAL", "return 1", 0) != 1:
        raise StoreUnavailableError("the store runs no Lua scripts")
    info = await call("INFO", "server")
    config = await _read_config(call)
    _refuse_eviction(config)
    persistence, warnings = _persistence(config)
    return StoreFacts(_version(info), persistence, warnings)


async def _read_config(call: _Call) -> dict[str, str] | None:
    try:
        pairs = await call("CONFIG", "GET", "maxmemory*", "appendonly", "appendfsync")
    except ResponseError:  # managed stores hide the command
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


def _version(info: dict[str, Any]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
