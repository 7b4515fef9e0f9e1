"""The laws of an older worker that meets changes of kinds that it does not know: it stops, and changes nothing."""

from typing import Any

import httpx2
import pytest
from pydantic import Field

from service.models import changes
from service.models.changes import StoredLabels
from service.strict_body import Body
from tests.servers import dump
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.workers import worker


class OlderChange(Body):
    """A change as a version reads it that knows labels and policies only."""

    labels: StoredLabels | None = None
    policies: dict[str, Any] = Field(default_factory=dict)
    at: float
    by: str | None = None


async def learn(api: Api) -> None:
    """Add a round to the model."""
    made = body_of(await api.predict(), 200)["prediction_id"]
    body_of(await api.judge(made, correct=True), 200)


async def alter(client: httpx2.AsyncClient, name: str, kind: str) -> str:
    """Make a change of a kind; return the model that has it."""
    any_version, bodies = {"If-Match": "*"}, {"rollback": {"snapshot": "mine"}, "promote": {"shadow": "rival"}}
    body_of(await client.post(f"/models/{name}/snapshots", json={"id": "mine"}), 201)
    if kind == "promote":
        rival = {"learner": {"algorithm": "uniform"}}
        body_of(await client.put(f"/models/{name}/shadows/rival", json=rival), 200)
    if kind == "clone":
        return str(body_of(await client.post(f"/models/{name}/clone", json={"name": f"{name}-copy"}), 201)["name"])
    body_of(await client.post(f"/models/{name}/{kind}", json=bodies.get(kind, {}), headers=any_version), 200)
    return name


def stored(url: str, name: str) -> dict[str, Any]:
    """Return the store's data about a model, without the statistics that the newer worker publishes now and then."""
    found = {key: value for key, value in dump(url).items() if f"{{{name}}}" in key}
    return {key: value for key, value in found.items() if not key.endswith(":tally")}


@pytest.mark.parametrize("kind", ["reset", "rollback", "promote", "clone"])
async def test_an_older_worker_stops_at_a_change_that_it_does_not_know(
    store_url: str, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it has the model open or not, it answers `newer-version`; this version then goes on with every round."""
    async with worker(store_url) as newer, worker(store_url) as older, worker(store_url) as fresh:
        api = Api(newer, "", name)
        body_of(await api.create(), 201)
        await learn(api)
        await learn(Api(older, "", name))  # the older one has the model open
        changed = Api(newer, "", await alter(newer, name, kind))
        await learn(changed)
        before = stored(store_url, changed.name)
        with monkeypatch.context() as patched:
            patched.setattr(changes, "Change", OlderChange)
            for each in (older, fresh):
                for _ in range(2):
                    problem_of(await Api(each, "", changed.name).predict(), 503, "newer-version")
        assert stored(store_url, changed.name) == before
        await learn(changed)
        assert (await changed.model())["rounds_seen"] == 4
