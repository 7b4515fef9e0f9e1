"""Sends an operation: its attempts, their time, and the waits between them."""

import asyncio
import random
import time
from typing import Any, TypeVar

from wager_client.errors import WagerError
from wager_client.operation import Answer, Operation
from wager_client.retries import Attempts, RemainingTime
from wager_client.transports import (
    AsyncTransport,
    Counts,
    Options,
    SyncTransport,
    connection_errors,
    is_timeout,
    no_answer,
)

T = TypeVar("T")


def call(operation: Operation[T], http: SyncTransport, options: Options, counts: Counts) -> T:
    """Send an operation until it has a result.

    Args:
        operation: the request.
        http: sends it.
        options: of the client.
        counts: of the client; repeated attempts are added.

    Raises:
        WagerError: if the service refuses it, or is away for too long.
    """
    attempts, content = _attempts(operation, options), operation.content()
    while True:
        try:
            return operation.result(_attempt(operation, http, options, content, attempts))
        except WagerError as error:
            wait = attempts.wait_after(error)
        time.sleep(wait)
        counts.retries += 1


async def call_async(operation: Operation[T], http: AsyncTransport, options: Options, counts: Counts) -> T:
    """Send an operation until it has a result. See `call`."""
    attempts, content = _attempts(operation, options), operation.content()
    while True:
        try:
            return operation.result(await _attempt_async(operation, http, options, content, attempts))
        except WagerError as error:
            wait = attempts.wait_after(error)
        await asyncio.sleep(wait)
        counts.retries += 1


def _attempts(operation: Operation[T], options: Options) -> Attempts:
    return Attempts(options, operation.repeatable, operation.quick, time.monotonic, random.random)


def _attempt(
    operation: Operation[Any], http: SyncTransport, options: Options, content: bytes | None, attempts: Attempts
) -> Answer:
    """Send the request once. Each read from the network ends when the time of the attempt is over."""
    attempts.begin()
    try:
        with http.stream(
            operation.method,
            options.base_url + operation.path,
            **_parts(operation, options, content, attempts),
        ) as response:
            return Answer(response.status_code, response.headers, _body(response, attempts))
    except connection_errors() as error:
        raise _error(error, operation, options, attempts) from error


async def _attempt_async(
    operation: Operation[Any], http: AsyncTransport, options: Options, content: bytes | None, attempts: Attempts
) -> Answer:
    """Send the request once, until its time is over."""
    attempts.begin()
    try:
        async with asyncio.timeout(attempts.attempt_left()):
            response = await http.request(
                operation.method,
                options.base_url + operation.path,
                **_parts(operation, options, content, attempts),
            )
        return Answer(response.status_code, response.headers, response.content)
    except connection_errors() as error:
        raise _error(error, operation, options, attempts) from error


def _parts(operation: Operation[Any], options: Options, content: bytes | None, attempts: Attempts) -> dict[str, Any]:
    return {
        "content": content,
        "params": operation.params or None,
        "headers": options.headers(content, operation.headers),
        "extensions": {"timeout": RemainingTime(attempts)},
    }


def _error(error: Exception, operation: Operation[Any], options: Options, attempts: Attempts) -> WagerError:
    if is_timeout(error):
        return attempts.timeout_error()
    return no_answer(error, options.base_url + operation.path)


def _body(response: Any, attempts: Attempts) -> bytes:
    parts = []
    for part in response.iter_bytes():
        attempts.check()
        parts.append(part)
    return b"".join(parts)
