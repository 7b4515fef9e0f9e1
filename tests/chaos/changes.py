"""Changes of a model under faults: each is made once, and then confirmed."""

import asyncio
from typing import Any

import httpx2

from tests.chaos.clients import patient

_AGAIN = frozenset({503, 507})
_LAGS = "urn:wager:problem:shadow-lags"


async def confirm(client: httpx2.AsyncClient, model: str, method: str, what: str, body: dict[str, Any]) -> list[str]:
    """Make one change, with the version that preceded it, until the service confirms it.

    Returns:
        A sentence if the service refuses the change; else nothing.
    """
    version = None
    async with patient(f"{method} /models/{model}{what} {body}"):
        while True:
            try:
                if version is None:
                    version = (await client.get(f"/models/{model}")).headers.get("etag")
                headers = {"If-Match": version or "none"}
                answer = await client.request(method, f"/models/{model}{what}", json=body, headers=headers)
            except httpx2.TransportError:
                continue
            if answer.status_code == 200:
                return []
            if answer.status_code not in _AGAIN and version is not None and _LAGS not in answer.text:
                return [f"the change {what} {body} of {model} got {answer.status_code}: {answer.text}"]
            await asyncio.sleep(0.02)
