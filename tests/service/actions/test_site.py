"""A site whose items come and go: what the features are worth is learned, whatever the item."""

import httpx2

from tests.service.actions.site import run


async def test_a_site_with_new_items_every_day_learns(client: httpx2.AsyncClient, name: str) -> None:
    """In the last tenth of 3,000 requests, most of the distance from chance to the best items is gained."""
    share = (await run(client, name, 3_000))[-1]
    assert share.chosen - share.uniform > 0.5 * (share.best - share.uniform)
