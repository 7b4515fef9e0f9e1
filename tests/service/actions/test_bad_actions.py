"""Bad requests about actions: each gets a problem that names the field, and changes nothing."""

from typing import Any

from tests.service.actions.catalogue import NAMED, SHOES, definition, item
from tests.service.api.http_api import Api, body_of, problem_of

_DENSE = {"kind": "dense", "size": 2}
_FASTCB: dict[str, Any] = {"algorithm": "fastcb"}
_CLOSED = NAMED | {"closed": True, "fields": {"user.age": {"type": "number"}}}

CREATIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("labels-or-actions", "actions", {"labels": ["a", "b"]}),
    ("labels-or-actions", "labels", {"actions": None}),
    ("learner-without-actions", "learner.algorithm", {"learner": "gaptron"}),
    ("learner-without-actions", "learner.algorithm", {"learner": "nobody"}),
    *[
        ("invalid-hyperparameter", "learner.half_life_rounds", {"learner": _FASTCB | {"half_life_rounds": given}})
        for given in (5, "x", -1)
    ],
    ("unknown-choice", "actions.log_actions", {"actions": {"features": NAMED, "log_actions": "some"}}),
    ("missing-field", "actions.features", {"actions": {}}),
    ("unknown-choice", "actions.features.kind", {"actions": {"features": {"kind": "none"}}}),
    ("invalid-features", "actions.features.norm", {"actions": {"features": NAMED | {"norm": "reject"}}}),
    ("invalid-features", "features.norm", {"features": NAMED | {"norm": "unit"}}),
    ("invalid-features", "actions.features.closed", {"actions": {"features": NAMED | {"closed": True}}}),
    ("unknown-namespace", "actions.interactions.0.1", {"actions": {"features": NAMED, "interactions": [["a", "b.c"]]}}),
    ("unknown-namespace", "actions.interactions.0.1", {"actions": {"features": _DENSE, "interactions": [["a", "b"]]}}),
    (
        "unknown-namespace",
        "actions.interactions.0.0",
        {"features": _CLOSED, "actions": {"features": NAMED, "interactions": [["item", "b"]]}},
    ),
    ("invalid-features", "actions.interactions.1", {"actions": {"features": NAMED, "interactions": [["a", "b"]] * 2}}),
    (
        "invalid-features",
        "actions.features.size",
        {"features": {"kind": "sparse", "size": 2**20}, "actions": {"features": {"kind": "sparse", "size": 2**20}}},
    ),
    ("model-too-large", "learner.algorithm", {"learner": "epsilon-greedy-ridge"}),
]

REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("missing-field", "actions", {"actions": None}),
    ("no-actions", "actions", {"actions": []}),
    ("duplicate-actions", "actions.3.id", {"actions": [*SHOES, SHOES[0]]}),
    ("too-many-actions", "actions", {"actions": [item(str(i)) for i in range(10_001)]}),
    (
        "too-many-features",
        "actions",
        {
            "context": {f"c{i}": 1 for i in range(100)},
            "actions": [item(str(i), a=1, b=1, c=1, d=1) for i in range(5000)],
        },
    ),
    ("duplicate-labels", "eligible", {"eligible": ["red", "red"]}),
    ("unknown-action", "eligible.0", {"eligible": ["pink"]}),
    ("wrong-type", "actions.0.features", {"actions": [{"id": "a", "features": None}]}),
    ("missing-field", "actions.0.id", {"actions": [{"features": {}}]}),
    ("missing-field", "actions.0.features", {"actions": [{"id": "a"}]}),
    ("unknown-field", "actions.0.colour", {"actions": [item("a") | {"colour": "red"}]}),
    ("out-of-range", "actions.0.id", {"actions": [item("")]}),
    ("wrong-type", "actions.0.id", {"actions": [{"id": 1, "features": {}}]}),
    ("wrong-type", "actions", {"actions": "red"}),
    ("wrong-context-length", "actions.1.features", {"actions": [SHOES[0], {"id": "a", "features": [1.0]}]}),
    ("wrong-feature-type", "actions.1.features.tags.0", {"actions": [SHOES[0], item("a", tags=[1])]}),
    ("invalid-feature-name", "actions.0.features.a.b", {"actions": [item("a", **{"a.b": 1, "a": {"b": 1}})]}),
    ("wrong-feature-type", "context.tags.0", {"context": {"tags": [1]}}),
    (
        "too-many-features",
        "actions.0.features",
        {"context": {f"c{i}": 1 for i in range(100)}, "actions": [item("a", **{f"f{i}": 1 for i in range(650)})]},
    ),
    (
        "too-many-features",
        "actions.0.features",
        {"actions": [item("a", **{f"n{j}": {f"f{i}": 1 for i in range(900)} for j in range(5)})]},
    ),
]


async def test_bad_definitions_are_refused(api: Api) -> None:
    for slug, field, changes in CREATIONS:
        body = {name: value for name, value in (definition(api.name) | changes).items() if value is not None}
        problem_of(await api.post("/models", **body), 422, slug, field)
    assert (await api.get(f"/models/{api.name}")).status_code == 404
    body_of(await api.create(), 201)
    problem_of(await api.predict(actions=SHOES), 422, "actions-not-allowed", "actions")


async def test_bad_requests_are_refused(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name)), 201)
    for slug, field, changes in REQUESTS:
        body = {"model": api.name, "context": {}, "actions": SHOES} | changes
        given = {name: value for name, value in body.items() if value is not None}
        problem_of(await api.post("/predict", **given), 422, slug, field)
    assert (await api.model())["predictions"] == 0
