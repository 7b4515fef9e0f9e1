"""One running service for all tests of the client."""

from collections.abc import Iterator

import pytest

from tests.service.wager import Wager, serve


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wager]:
    with serve(tmp_path_factory.mktemp("service")) as wager:
        yield wager
