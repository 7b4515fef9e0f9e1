"""Fixtures for tests of commands."""

import asyncio
from collections.abc import Iterator

import pytest
import uvloop

from service.store.embedded.server import EmbeddedServer
from tests.service.threads import Served, in_thread


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """Provide the event loop of `wager serve`."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as running:
        yield running


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a service on its own store for a module: commands call it over the network."""
    with EmbeddedServer(tmp_path_factory.mktemp("live")) as server, in_thread(server.url) as served:
        yield served
