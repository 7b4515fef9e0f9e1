"""The laws of docs/reference/exchanges.md."""

from pathlib import Path

import pytest

from service.store.embedded.server import EmbeddedServer
from tests.service import exchanges

_PAGE = Path(__file__).parents[2] / "docs/reference/exchanges.md"


async def test_the_service_gives_the_answers_on_the_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    with EmbeddedServer(tmp_path_factory.mktemp("exchanges")) as server:
        assert await exchanges.page(server.url) == _PAGE.read_text()
