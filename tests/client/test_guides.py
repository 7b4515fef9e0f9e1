"""The laws of the guides: every request on the page about Personalizer runs, and its answer is as shown."""

import json
import re
from typing import Any

import httpx2
import pytest

from tests.architecture.modules import ROOT

_BLOCK = re.compile(r"`POST (\S+)`\n\n```json\n(.*?)```(?:\n\n200:\n\n```json\n(.*?)```)?", re.DOTALL)
_DRAWN = ("label", "propensity")


def fits(shown: Any, given: Any) -> bool:
    """Check that an answer has what the page shows. Drawn labels and their probabilities may differ."""
    if isinstance(shown, dict):
        return all(name in given and (name in _DRAWN or fits(shown[name], given[name])) for name in shown)
    if isinstance(shown, list):
        return len(shown) == len(given) and all(map(fits, shown, given))
    return bool(shown == pytest.approx(given)) if isinstance(shown, float) else bool(shown == given)


async def test_the_personalizer_page_runs(client: httpx2.AsyncClient) -> None:
    """Each request is accepted, in order, and each answer on the page is the service's."""
    blocks = _BLOCK.findall((ROOT / "docs" / "from-personalizer.md").read_text())
    assert len(blocks) == 7
    models = [json.loads(body)["name"] for path, body, _ in blocks if path == "/models"]
    for path, body, shown in blocks:
        answer = await client.post(path, json=json.loads(body))
        assert answer.is_success, answer.text
        assert not shown or fits(json.loads(shown), answer.json()), answer.text
    for name in models:
        await client.delete(f"/models/{name}")
