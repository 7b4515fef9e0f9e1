"""Fixtures for tests of models with actions."""

import httpx2
import pytest

from tests.service.api.http_api import Api


@pytest.fixture
def api(client: httpx2.AsyncClient, name: str) -> Api:
    return Api(client, "", name)
