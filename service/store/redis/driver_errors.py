"""The driver's errors in the words of the service."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from redis import exceptions

from service.errors import StoreCorruptError, StoreError, StoreFullError, StoreUnavailableError
from service.store.connections.readiness import OF_A_CLUSTER

_P = ParamSpec("_P")
_T = TypeVar("_T")

_NO_WRITES = ("MISCONF", "NOREPLICAS", "READONLY")
"""Codes of servers that answer, but take no writes: a full disk, too few replicas, a replica."""


_NO_RIGHT = ("NOPERM", "ACL failure", "The user executing the script")
"""What servers say to a user who lacks a right, in scripts and outside of them."""


def translating_errors(method: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Turns the driver's errors into the service's."""

    @wraps(method)
    async def translated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return await method(*args, **kwargs)
        except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
            raise translated_error(error) from error
        except ValueError as error:  # of a number that is none
            raise StoreCorruptError(f"what is stored of a model cannot be read: {error}") from error

    return translated


def translated_error(error: Exception) -> StoreError:
    """Return the service's error for one of the driver's."""
    said = f"{error or type(error).__name__}"
    match error:
        case exceptions.OutOfMemoryError():
            return StoreFullError("the store has reached its memory limit")
        case exceptions.ResponseError() if said.startswith("WRONGTYPE"):
            return StoreCorruptError("a key of the store holds another type of value than it should")
        case exceptions.AskError():
            detail = OF_A_CLUSTER
        case exceptions.ResponseError() if isinstance(error, exceptions.NoPermissionError) or said.startswith(
            _NO_RIGHT
        ):
            detail = f"the store's user lacks a right: {said}"
        case exceptions.ReadOnlyError():
            detail = f"the store refuses writes: READONLY {said}"
        case exceptions.ResponseError() if said.startswith(_NO_WRITES):
            detail = f"the store refuses writes: {said}"
        case exceptions.ResponseError() if said.startswith("CORRUPT") or "user_script" in said:
            return StoreCorruptError(f"what is stored of a model cannot be used: {said}")
        case _:
            detail = f"the store does not answer: {said}"
    return StoreUnavailableError(detail)
