"""Fixtures for tests of the HTTP interface."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.service.api.attacked import IMPATIENT, Attacked, attacked
from tests.service.api.http_api import Api


@pytest.fixture(params=["", "/v1"], ids=["root", "v1"])
def api(client: httpx2.AsyncClient, request: pytest.FixtureRequest, name: str) -> Api:
    """Return the routes at the root, or under /v1."""
    return Api(client, request.param, name)


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """Run a service with short deadlines, for the laws of slow clients."""
    with attacked(tmp_path_factory.mktemp("impatient"), **IMPATIENT) as built:
        yield built


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Attacked]:
    """Run a service with default settings, except that it requires keys and has webhook secrets."""
    with attacked(tmp_path) as built:
        yield built
