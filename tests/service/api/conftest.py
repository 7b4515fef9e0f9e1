"""Fixtures for tests of the HTTP interface."""

import httpx2
import pytest

from tests.service.api.http_api import Api


@pytest.fixture
def api(client: httpx2.AsyncClient, name: str) -> Api:
    """Return the routes at the root: `tests/service/access/test_scopes.py` calls each of them under /v1 as well."""
    return Api(client, "", name)
