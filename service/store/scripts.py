"""The store's Lua scripts, and its errors in the service's words."""

import hashlib
from collections.abc import Callable, Coroutine
from functools import wraps
from importlib import resources
from typing import Any, NamedTuple, ParamSpec, TypeVar

from redis import exceptions

from service.errors import StoreFullError, StoreUnavailableError
from service.store.facts import OF_A_CLUSTER

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Script(NamedTuple):
    """The source of a script, and the name that the store has for it."""

    sha: str
    source: bytes


def script(*names: str) -> Script:
    """Return the script that is made of some files, one after the other."""
    folder = resources.files("service.store").joinpath("lua")
    source = b"".join(folder.joinpath(f"{name}.lua").read_bytes() for name in names)
    return Script(hashlib.sha1(source, usedforsecurity=False).hexdigest(), source)


def translating_errors(
    method: Callable[_P, Coroutine[Any, Any, _T]],
) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Turn the driver's errors into the service's."""

    @wraps(method)
    async def translated(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return await method(*args, **kwargs)
        except exceptions.OutOfMemoryError as error:
            raise StoreFullError("the store has reached its memory limit") from error
        except exceptions.AskError as error:
            raise StoreUnavailableError(OF_A_CLUSTER) from error
        except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
            raise StoreUnavailableError(f"the store does not answer: {error or type(error).__name__}") from error

    return translated
