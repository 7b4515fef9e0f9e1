"""Reads the log of a model from a running service, page by page."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2

from service.commands.shared.remote import call

PAGE = 2_000
"""Rounds per request."""


MOST_CHANGES = 1_000
"""Changes per request."""


def changes(client: httpx2.Client, model: str, after: int) -> dict[str, Any]:
    """Return the answer of `GET /models/{name}/changes` after a change.

    Raises:
        RemoteError: if the service does not answer.
    """
    asked = {"after": after, "limit": MOST_CHANGES}
    found: dict[str, Any] = call(client, "GET", f"/models/{model}/changes", params=asked).json()
    return found


def pages(
    client: httpx2.Client, model: str, after: int, limit: int | None, wait: Callable[[], bool]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the lines of a log in pages; an empty page at each end of the log that is waited at.

    Args:
        client: calls the service.
        model: its name.
        after: the last round not to read.
        limit: maximum rounds; None for all.
        wait: called at the end of the log; returns whether to look for further rounds.

    Raises:
        RemoteError: if the service does not answer.
    """
    left = limit
    while left is None or left > 0:
        most = PAGE if left is None else min(PAGE, left)
        answer = call(client, "GET", f"/models/{model}/rounds", params={"after": after, "limit": most})
        lines = [json.loads(line) for line in answer.text.split("\n") if line]
        if lines:
            after, left = lines[-1]["round"], None if left is None else left - len(lines)
            yield lines
        if len(lines) < most:
            if not lines:
                yield []
            if not wait():
                return


def pages_until(
    client: httpx2.Client, model: str, after: int, until: int, limit: int | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Yield the lines of a log after one round, up to another, in pages.

    Args:
        client: calls the service.
        model: its name.
        after: the last round not to read.
        until: the last round to read.
        limit: maximum rounds; None for all.

    Raises:
        RemoteError: if the service does not answer.
    """
    most = until - after  # a log lacks rounds, and never has more
    for lines in pages(client, model, after, most if limit is None else min(most, limit), lambda: False):
        wanted = [line for line in lines if line["round"] <= until]
        if wanted:
            yield wanted
        if len(wanted) < len(lines):
            return
