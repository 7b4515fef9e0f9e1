"""Converts errors of redis-py, the driver, to the service's errors."""

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import ParamSpec, TypeVar

from redis import exceptions

from service.errors import StoreCorruptError, StoreError, StoreFullError, StoreUnavailableError
from service.store.connections.readiness import OF_A_CLUSTER

_T = TypeVar("_T")
_P = ParamSpec("_P")

_NO_WRITES = ("NOREPLICAS", "READONLY")
"""Error codes of a server that refuses writes: too few replicas are connected, or it is a replica itself."""

_NO_RIGHT = ("NOPERM", "ACL failure", "The user executing the script")
"""How errors for missing permissions begin, inside and outside scripts."""

_REPLIES = (exceptions.ResponseError, exceptions.AuthenticationError, exceptions.BusyLoadingError)  # sent by a server

_IN_A_SCRIPT = re.compile(r",? ?script: \w+, on @?user_script:\d+\.?|@?user_script:\d+: ")
"""Matches the place in a script that servers append or prepend to the message of an error raised there."""


def translating_errors(cls: type[_T]) -> type[_T]:
    """Make a class's public coroutine methods raise the service's errors instead of the driver's."""
    for name, method in list(vars(cls).items()):
        if iscoroutinefunction(method) and not name.startswith("_"):
            setattr(cls, name, _translating(method))
    return cls


def _translating(method: Callable[_P, Awaitable[_T]]) -> Callable[_P, Awaitable[_T]]:
    @wraps(method)
    async def translated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return await method(*args, **kwargs)
        except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
            raise translated_error(error) from error
        except ValueError as error:  # a stored number is invalid
            raise StoreCorruptError(f"a model's data in the store cannot be read: {error}") from error

    return translated


def translated_error(error: Exception) -> StoreError:
    """Convert an error of the driver, or an `OSError`, to an error of the service."""
    message = f"{error or type(error).__name__}"
    plain = _IN_A_SCRIPT.sub("", message)
    is_denied = isinstance(error, exceptions.NoPermissionError) or message.startswith(_NO_RIGHT)
    match error:
        case exceptions.OutOfMemoryError():
            return StoreFullError("the store has reached its memory limit, or its disk is almost full")
        case exceptions.ResponseError() if message.startswith("MISCONF"):  # the store cannot write to its disk
            return StoreFullError(f"the store refuses writes: {plain}")
        case exceptions.ResponseError() if message.startswith("WRONGTYPE"):
            return StoreCorruptError("a key of the store holds the wrong type of value")
        case exceptions.AskError():  # or `MovedError`, its subclass
            detail = OF_A_CLUSTER
        case exceptions.ResponseError() if is_denied:
            detail = f"the store's user lacks a permission: {plain}"
        case exceptions.ReadOnlyError():
            detail = f"the store refuses writes: READONLY {plain}"
        case exceptions.ResponseError() if message.startswith(_NO_WRITES):
            detail = f"the store refuses writes: {plain}"
            if message.startswith("NOREPLICAS"):  # the embedded store requires a replica to refuse all writes
                detail += " (the embedded store does so while less than half of its disk's reserve is free)"
        case exceptions.ResponseError() if message.startswith("CORRUPT") or "user_script" in message:
            return StoreCorruptError(f"a model's data in the store cannot be used: {plain}")
        case _:
            detail = f"the store {'failed' if isinstance(error, _REPLIES) else 'does not answer'}: {plain}"
    return StoreUnavailableError(detail)
