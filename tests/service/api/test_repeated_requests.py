"""A repeated request keeps its answer, also after a change of the model that would refuse it now."""

from typing import Any

import pytest

from tests.service.actions.catalogue import SHOES
from tests.service.actions.catalogue import definition as with_actions
from tests.service.api.http_api import Api, X, body_of, problem_of
from tests.service.sample_models import LABELS

POLICY = dict.fromkeys(LABELS[:2], 0.5)
RETIRE = {"labels": {"retire": [LABELS[0]]}}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str, str]] = {
    "a retired eligible label": ({}, {"eligible": LABELS[:2]}, RETIRE, "label-retired", "eligible.0"),
    "a retired baseline": ({}, {"baseline": LABELS[0]}, RETIRE, "label-retired", "baseline"),
    "a policy after logging": ({"mode": "logging"}, {"policy": POLICY}, {"mode": "online"}, "wrong-mode", "policy"),
    "slots of fewer labels": ({}, {"top": len(LABELS)}, RETIRE, "too-few-choices", "top"),
    "no baseline for a new holdout": (
        {},
        {},
        {"holdout": {"fraction": 0.5, "policy": "baseline"}},
        "baseline-needed",
        "baseline",
    ),
}
"""For each: the model, the request, the change, and the problem of a new request with its field."""


@pytest.mark.parametrize("case", CHANGES)
async def test_an_answered_request_keeps_its_answer(api: Api, case: str) -> None:
    """The same request gets the same answer, alone and in a batch; a new one is refused by the field."""
    created, asked, change, slug, field = CHANGES[case]
    body_of(await api.create(**created), 201)
    first = body_of(await api.predict(prediction_id="mine", **asked), 200)
    body_of(await api.patch(f"/models/{api.name}", **change), 200)
    problem_of(await api.predict(prediction_id="new", **asked), 422, slug, field)
    assert body_of(await api.predict(prediction_id="mine", **asked), 200) == first
    items = [{"context": X, "prediction_id": id_} | asked for id_ in ("mine", "new")]
    mine, new = body_of(await api.post("/predict/batch", model=api.name, items=items), 200)["predictions"]
    assert mine == first
    assert (new["status"], new["field"]) == (422, field)


async def test_another_request_under_the_same_id_is_refused(api: Api) -> None:
    """A request that was never answered gets its refusal, even if its id is in use."""
    body_of(await api.create(), 201)
    body_of(await api.predict(prediction_id="mine", eligible=LABELS[:2]), 200)
    body_of(await api.patch(f"/models/{api.name}", labels={"retire": [LABELS[0]]}), 200)
    answer = await api.predict(prediction_id="mine", eligible=[LABELS[0], LABELS[2]])
    problem_of(answer, 422, "label-retired", "eligible.0")
    problem_of(await api.predict([1.0], prediction_id="mine"), 422, "wrong-context-length", "context")


@pytest.mark.parametrize("asked", [{}, {"top": 2}], ids=["one answer", "slots"])
async def test_an_answered_request_with_actions_keeps_its_answer(api: Api, asked: dict[str, Any]) -> None:
    """A choice among actions that followed a client's policy is repeated after logging ends."""
    body_of(await api.post("/models", **with_actions(api.name, mode="logging")), 201)
    body: dict[str, Any] = {"model": api.name, "context": {}, "actions": SHOES, "prediction_id": "mine", **asked}
    body["policy"] = {"red": 0.5, "blue": 0.5}
    first = body_of(await api.post("/predict", **body), 200)
    body_of(await api.patch(f"/models/{api.name}", mode="online"), 200)
    assert body_of(await api.post("/predict", **body), 200) == first
    problem_of(await api.post("/predict", **body | {"prediction_id": "new"}), 422, "wrong-mode", "policy")
