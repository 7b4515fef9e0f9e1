"""The models under load, and their synthetic contexts."""

import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from typing import NamedTuple

import numpy as np

from toolkit.load.client import OK, Client, LoadError
from toolkit.load.plan import Plan

_NOISE = 0.6  # root mean square length of the noise around a label's centre of length 1
_POOL = 4096  # maximum contexts of a process, used in turn
_CREATED = 201


class Example(NamedTuple):
    """A context as JSON, and its right label."""

    context: str
    label: str


def examples(plan: Plan, process: int) -> list[Example]:
    """Draw the examples of one process. All processes share each label's distribution, and draw different contexts.

    A dense context is a noisy point around the centre of its label. Half of a sparse context's non-zeros are the
    features of its label, and the other half are random features, some of which may coincide with them.
    """
    n = int(min(_POOL, max(1, plan.rounds_expected)))
    rng = np.random.default_rng([plan.seed, 1, process])
    labels = rng.integers(plan.labels, size=n).tolist()
    draw = _dense if plan.nonzeros is None else _sparse
    return [Example(json.dumps(draw(plan, k, rng), separators=(",", ":")), f"label-{k}") for k in labels]


def _dense(plan: Plan, label: int, rng: np.random.Generator) -> list[float]:
    centre = np.random.default_rng([plan.seed, 0, label]).standard_normal(plan.features)
    noise = _NOISE / len(centre) ** 0.5 * rng.standard_normal(len(centre))
    point: list[float] = (centre / np.linalg.norm(centre) + noise).round(4).tolist()
    return point


def _sparse(plan: Plan, label: int, rng: np.random.Generator) -> dict[str, list[float]]:
    nonzeros = plan.nonzeros or 1
    own = max(1, nonzeros // 2)
    signature = np.random.default_rng([plan.seed, 0, label]).choice(plan.features, own, replace=False)
    others = rng.choice(plan.features, nonzeros, replace=False)
    indices = np.unique(np.concatenate([signature, others[: nonzeros - own]]))
    return {"indices": indices.tolist(), "values": rng.uniform(0.5, 1.5, len(indices)).round(4).tolist()}


async def check_ready(client: Client) -> None:
    """Check that the server is Wager and ready. Raises `LoadError`."""
    answer = await client.call("GET", "/readyz")
    try:
        ready = answer.status == OK and json.loads(answer.body)["status"] == "ready"
    except (ValueError, LookupError, TypeError):
        ready = False
    if not ready:
        raise LoadError(f"no service is ready at {client.target.host} port {client.target.port}: {answer}")


@contextlib.asynccontextmanager
async def created(client: Client, plan: Plan) -> AsyncIterator[list[str]]:
    """Create the models of a plan, yield their names, and delete them unless the plan keeps them."""
    run = secrets.token_hex(4)
    names: list[str] = []
    try:
        for number in range(plan.models):
            names.append(f"{plan.prefix}-{run}-{number}")
            answer = await client.call("POST", "/models", json.dumps({"name": names[-1], **plan.definition}).encode())
            if answer.status != _CREATED:
                raise LoadError(f"the model cannot be created: {answer}")
        yield names
    finally:
        if not plan.keep:
            for name in names:
                await client.call("DELETE", f"/models/{name}")
