"""Lists the open predictions of a model, over as many pages as a large store takes."""

import json
from typing import Any


async def open_predictions(client: Any, name: str) -> list[dict[str, Any]]:
    lines, path = list[dict[str, Any]](), f"/models/{name}/predictions"
    while path:
        answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        lines += map(json.loads, answer.text.splitlines())
        path = answer.links.get("next", {}).get("url", "")
    return lines
