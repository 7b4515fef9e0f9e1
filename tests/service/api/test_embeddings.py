"""The requests and answers of docs/guides/embeddings.md work as shown."""

import json
import re
from pathlib import Path

import httpx2
import pytest

from tests.service.api.http_api import Api, body_of

_PAGE = Path(__file__).parents[3] / "docs/guides/embeddings.md"


async def test_the_examples_of_the_page_work(client: httpx2.AsyncClient, name: str) -> None:
    blocks = [json.loads(each) for each in re.findall(r"```json\n(.*?)\n```", _PAGE.read_text(), re.DOTALL)]
    created, asked, answered, wrong, refused, choice, choosing, chosen = blocks
    api, articles = Api(client, "", name), Api(client, "", f"{name}-articles")
    body_of(await api.post("/models", **(created | {"name": api.name})), 201)
    body_of(await articles.post("/models", **(choice | {"name": articles.name})), 201)
    for one, request, expected in ((api, asked, answered), (articles, choosing, chosen)):
        answer = body_of(await one.post("/predict", **(request | {"model": one.name})), 200)
        assert answer["distribution"] == pytest.approx(expected["distribution"])
    problem = body_of(await api.post("/predict", model=api.name, context=wrong), 422)
    assert {field: problem[field] for field in refused} == refused
    explained = body_of(await api.post(f"/models/{api.name}/explain", context=asked["context"]), 200)
    assert {"user.embedding[0]", "user.embedding[3]"} <= {each["name"] for each in explained["features"]}
