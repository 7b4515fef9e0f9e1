"""The laws of the guides: the requests on the page about Personalizer and the code of the page about browsers run."""

import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import httpx2
import pytest

from wager_client import AsyncWager

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(r"`POST (\S+)`\n\n```json\n(.*?)```(?:\n\n200:\n\n```json\n(.*?)```)?", re.DOTALL)
_DRAWN = ("label", "propensity")


def fits(shown: Any, given: Any) -> bool:
    if isinstance(shown, dict):
        return all(name in given and (name in _DRAWN or fits(shown[name], given[name])) for name in shown)
    if isinstance(shown, list):
        return len(shown) == len(given) and all(map(fits, shown, given))
    return bool(shown == pytest.approx(given)) if isinstance(shown, float) else bool(shown == given)


async def test_the_personalizer_page_runs(client: httpx2.AsyncClient) -> None:
    blocks = _BLOCK.findall((ROOT / "docs/guides/from-personalizer.md").read_text())
    assert len(blocks) == 7
    models = [json.loads(body)["name"] for path, body, _ in blocks if path == "/models"]
    for path, body, shown in blocks:
        answer = await client.post(path, json=json.loads(body))
        assert answer.is_success, answer.text
        assert not shown or fits(json.loads(shown), answer.json()), answer.text
    for name in models:
        await client.delete(f"/models/{name}")


async def test_the_page_about_browsers_runs(client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (ROOT / "docs/guides/calling-from-a-browser.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    page = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)
    exec(compile(code, "calling-from-a-browser.md", "exec"), vars(page))
    wager = vars(page)["wager"] = AsyncWager("http://localhost", timeout=60.0, http_client=client)
    await wager.create_model("front-page", labels=["plain", "question"], features={"kind": "named"})
    transport = httpx2.ASGITransport(app=page.app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://shop") as browser:
        shown = await browser.get("/headline", params={"hour": 9})
        assert shown.json() in ("plain", "question")
        for _ in range(2):
            assert (await browser.post("/clicked")).is_success
    rounds = [each async for each in wager.rounds("front-page")]
    assert [(each.label, each.correct) for each in rounds] == [(shown.json(), True)]
    await wager.delete_model("front-page")
