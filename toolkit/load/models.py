"""The models under load, and the synthetic world of their contexts."""

import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import numpy as np

from toolkit.load.client import NO_ANSWER, Answer, Client, LoadError
from toolkit.load.plan import Plan

_NOISE = 0.6  # length of the noise around a label's centre of length 1
_POOL = 4096  # maximum contexts of a process, which it uses in turn


class Example(NamedTuple):
    """A context as JSON, and its right label."""

    context: str
    label: str


def label_names(plan: Plan) -> list[str]:
    """Return the labels of every model."""
    return [f"label-{k}" for k in range(plan.labels)]


def feature_schema(plan: Plan) -> dict[str, object]:
    """Return the feature definition of every model."""
    return {"kind": "dense" if plan.nonzeros is None else "sparse", "size": plan.features}


def examples(plan: Plan, process: int) -> list[Example]:
    """Draw the examples of one process. All processes share one world, and each draws its own contexts from it.

    Dense contexts are noisy points around one centre per label. Half of a sparse context's non-zeros are the features
    that belong to its label, the other half are random features.
    """
    n = int(min(_POOL, max(1, plan.rounds_expected)))
    rng = np.random.default_rng([plan.seed, 1, process])
    labels = rng.integers(plan.labels, size=n).tolist()
    make = _dense if plan.nonzeros is None else _sparse
    return [Example(context, f"label-{k}") for context, k in zip(make(plan, labels, rng), labels, strict=True)]


def _dense(plan: Plan, labels: list[int], rng: np.random.Generator) -> list[str]:
    used = sorted(set(labels))
    centres = {k: np.random.default_rng([plan.seed, 0, k]).standard_normal(plan.features) for k in used}
    return [json.dumps(_point(centres[k], rng), separators=(",", ":")) for k in labels]


def _point(centre: np.ndarray, rng: np.random.Generator) -> list[float]:
    noise = _NOISE / len(centre) ** 0.5 * rng.standard_normal(len(centre))
    point: list[float] = (centre / np.linalg.norm(centre) + noise).round(4).tolist()
    return point


def _sparse(plan: Plan, labels: list[int], rng: np.random.Generator) -> list[str]:
    assert plan.nonzeros is not None
    own = max(1, plan.nonzeros // 2)
    contexts = []
    for k in labels:
        signature = np.random.default_rng([plan.seed, 0, k]).choice(plan.features, own, replace=False)
        others = rng.choice(plan.features, plan.nonzeros, replace=False)
        indices = np.unique(np.concatenate([signature, others[: plan.nonzeros - own]]))
        values = rng.uniform(0.5, 1.5, len(indices)).round(4)
        contexts.append(json.dumps({"indices": indices.tolist(), "values": values.tolist()}, separators=(",", ":")))
    return contexts


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
