"""One running service for all tests of the client."""

from collections.abc import Iterator

import pytest

from tests.service.wager import Wager, serve


ORIGIN = "http://tool.example"
"""The origin of pages that may call the service."""


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wager]:
    with serve(tmp_path_factory.mktemp("service"), WAGER_CORS_ORIGINS=ORIGIN) as wager:
        yield wager
