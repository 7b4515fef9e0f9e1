"""The models under load, created before the run and deleted after it."""

import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

from service.load.http.client import NO_ANSWER, Answer, Client
from service.load.http.errors import LoadError
from service.load.plan import Plan
from service.load.world import feature_schema, label_names

_CREATED = 201
_READY = 200


async def check_ready(client: Client) -> None:
    """Check that the server is Wager and ready.

    Raises:
        LoadError: if it is not.
    """
    answer = await client.call("GET", "/readyz")
    try:
        ready = answer.status == _READY and json.loads(answer.body)["status"] == "ready"
    except (ValueError, LookupError, TypeError):
        ready = False
    if not ready:
        raise LoadError(f"no service is ready at {client.target.host} port {client.target.port}: {explained(answer)}")


@contextlib.asynccontextmanager
async def created(client: Client, plan: Plan) -> AsyncIterator[list[str]]:
    """Create the models of a plan, yield their names, and delete them unless the plan keeps them.

    Raises:
        LoadError: if the service refuses a model.
    """
    run = secrets.token_hex(4)
    names: list[str] = []
    try:
        for number in range(plan.models):
            names.append(f"{plan.prefix}-{run}-{number}")
            await _create(client, plan, names[-1])
        yield names
    finally:
        if not plan.keep:
            for name in names:
                await client.call("DELETE", f"/models/{name}")


async def _create(client: Client, plan: Plan, name: str) -> None:
    definition: dict[str, Any] = {
        "name": name,
        "labels": label_names(plan),
        "features": feature_schema(plan),
        "retain_rounds": int(min(1e9, 2 * plan.rounds_expected + 1000)),  # the audit reads the whole log
    }
    if plan.learner is not None:
        definition["learner"] = plan.learner
    answer = await client.call("POST", "/models", json.dumps(definition).encode())
    if answer.status != _CREATED:
        raise LoadError(f"the model cannot be created: {explained(answer)}")


def explained(answer: Answer) -> str:
    """Describe an unexpected response in one line."""
    if answer.status == NO_ANSWER:
        return "no answer came"
    return f"{answer.status} {answer.body[:500].decode(errors='replace')}"
