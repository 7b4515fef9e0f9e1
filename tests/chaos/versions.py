"""Two versions of the service on one store, as in a rolling upgrade: each request goes to either."""

import random

import httpx2


class EitherVersion(httpx2.AsyncBaseTransport):
    """Sends each request to a random one of several services. It keeps their connections.

    Args:
        urls: URLs of the services; the requests may name any of them.
    """

    def __init__(self, urls: list[httpx2.URL]) -> None:
        self._urls, self._chance = urls, random.Random(1)
        self._transport = httpx2.AsyncHTTPTransport(verify=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        url = self._chance.choice(self._urls)
        request.url = request.url.copy_with(host=url.host, port=url.port)
        return await self._transport.handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()
