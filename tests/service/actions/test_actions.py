"""Models with actions over HTTP."""

from typing import Any

import pytest

from tests.service.actions.catalogue import NAMED, SHOES, definition, item
from tests.service.api.http_api import Api, body_of, problem_of


async def choose(api: Api, actions: list[dict[str, Any]] = SHOES, **fields: Any) -> dict[str, Any]:
    body = {"model": api.name, "context": {}, "actions": actions, "include_distribution": True} | fields
    return body_of(await api.post("/predict", **body), 200)


async def test_an_answer_is_the_id_of_an_action_with_its_probability(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name)), 201)
    answer = await choose(api, context={"user": {"age": 41}})
    assert answer["distribution"].keys() == {"red", "blue", "green"}
    assert answer["propensity"] == answer["distribution"][answer["label"]]
    body_of(await api.judge(answer["prediction_id"], correct=True), 200)
    (line,) = await api.rounds()
    (chosen,) = [each for each in SHOES if each["id"] == answer["label"]]
    assert line["label"] == answer["label"]
    assert line["true_label"] is None
    assert line["context"] == {"user": {"age": 41}}
    assert line["actions"] == [chosen | {"probability": None, "tag": None, "cost": None}]
    assert line["action_count"] == 3
    assert (await choose(api))["rounds_seen"] == 1


async def test_the_log_keeps_all_actions_if_it_shall(api: Api) -> None:
    actions = {"features": NAMED, "log_actions": "all"}
    body_of(await api.post("/models", **definition(api.name, actions=actions)), 201)
    answer = await choose(api)
    body_of(await api.judge(answer["prediction_id"], reward=0.25), 200)
    (line,) = await api.rounds()
    assert line["actions"] == [
        each | {"probability": answer["distribution"][each["id"]], "tag": None, "cost": None} for each in SHOES
    ]
    assert (line["label"], line["reward"], line["correct"]) == (answer["label"], 0.25, None)


@pytest.mark.parametrize("learner", ["fastcb", "epsilon-greedy-ridge"])
@pytest.mark.parametrize("norm", ["none", "scale", "unit"])
async def test_products_of_huge_numbers_damage_no_round(api: Api, learner: str, norm: str) -> None:
    features = {"kind": "dense", "size": 2, "norm": norm}
    body = definition(api.name, features={"kind": "dense", "size": 2}, actions={"features": features})
    body_of(await api.post("/models", **body | {"learner": learner}), 201)
    for size in (1e200, -1.7e308, 1.0):
        actions = [{"id": each, "features": [size, 1.0]} for each in "ab"]
        made = body_of(await api.post("/predict", model=api.name, context=[size, -size], actions=actions), 200)
        body_of(await api.judge(made["prediction_id"], correct=True), 200)
    made = await api.model()
    assert (made["rounds_seen"], made["damaged_rounds"]) == (3, 0)
    body_of(await api.named(f"{api.name}-copy").imported(await api.exported()), 201)


async def test_a_repeated_request_returns_the_stored_action(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name)), 201)
    many = [item(f"item-{i}", size=i) for i in range(500)]
    first = await choose(api, many, prediction_id="mine")
    same = [each | {"features": {"size": float(i)}} for i, each in enumerate(many)]
    again = await choose(api, same, prediction_id="mine")
    assert (again["label"], again["propensity"]) == (first["label"], first["propensity"])
    other = {"model": api.name, "context": {}, "actions": many[1:], "prediction_id": "mine"}
    problem_of(await api.post("/predict", **other), 409, "prediction-conflict", "prediction_id")


async def test_a_new_item_with_good_features_is_chosen_at_once(api: Api) -> None:
    """After red items were right and others wrong, a red item that was never there gets most of the probability."""
    body_of(await api.post("/models", **definition(api.name)), 201)
    for batch in range(15):
        ids = [[f"{colour}-{batch}-{i}" for colour in ("red", "blue", "green")] for i in range(20)]
        items = [{"context": {}, "actions": [item(id_, colour=id_.split("-")[0]) for id_ in each]} for each in ids]
        made = body_of(await api.post("/predict/batch", model=api.name, items=items), 200)["predictions"]
        given = [{"prediction_id": each["prediction_id"], "correct": each["label"][:3] == "red"} for each in made]
        body_of(await api.post("/feedback/batch", feedback=given), 200)
    chances = (await choose(api, [item("new", colour="red"), item("blue", colour="blue")]))["distribution"]
    assert chances["new"] > 0.9


async def test_numbers_of_any_kind_describe_contexts_and_actions(api: Api) -> None:
    features, actions = {"kind": "dense", "size": 2}, {"features": {"kind": "sparse", "size": 4}}
    model = body_of(
        await api.post("/models", name=api.name, features=features, actions=actions, learner="epsilon-greedy-ridge"),
        201,
    )
    assert model["labels"] == []
    assert model["actions"]["features"]["norm"] == "scale"
    given = [{"id": str(i), "features": {"indices": [i], "values": [1.0]}} for i in range(4)]
    answer = await choose(api, given, context=[0.5, -1.0])
    await api.judge(answer["prediction_id"], correct=True)
    (line,) = await api.rounds()
    assert line["context"] == [0.5, -1.0]
    assert line["actions"] == [given[int(answer["label"])] | {"probability": None, "tag": None, "cost": None}]


async def test_there_is_no_true_action(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name)), 201)
    answer = await choose(api)
    refused = await api.judge(answer["prediction_id"], true_label="red")
    problem_of(refused, 422, "wrong-truth", "true_label")
    body_of(await api.judge(answer["prediction_id"], correct=False), 200)
    model = await api.model()
    assert (model["rounds_seen"], model["correct"]) == (1, 0)
    listed = body_of(await api.get("/models", cursor=api.name[:-1], limit=1000), 200)["models"]
    (summary,) = [each for each in listed if each["name"] == api.name]
    assert (summary["label_count"], summary["actions"]) == (0, model["actions"])


async def test_only_eligible_actions_are_answered(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name)), 201)
    answer = await choose(api, eligible=["blue", "red"])
    assert answer["distribution"].keys() == {"red", "blue"}
    body = {"model": api.name, "context": {}, "actions": SHOES, "eligible": ["blue", "black"]}
    problem_of(await api.post("/predict", **body), 422, "unknown-action", "eligible.1")


async def test_actions_come_in_batches_too(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name)), 201)
    items = [{"context": {}, "actions": SHOES[:2]}, {"context": {}, "actions": []}, {"actions": SHOES, "context": {}}]
    answer = body_of(await api.post("/predict/batch", model=api.name, items=items, include_distribution=True), 200)
    first, second, third = answer["predictions"]
    assert (len(first["distribution"]), len(third["distribution"])) == (2, 3)
    assert (second["type"], second["field"]) == ("urn:wager:problem:no-actions", "actions")


async def test_a_model_with_actions_logs_by_a_policy_of_ids(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name, mode="logging")), 201)
    assert (await choose(api, policy={"blue": 0.25, "red": 0.75}))["label"] in {"blue", "red"}
    assert (await choose(api))["propensity"] == 1 / 3
    body = {"model": api.name, "context": {}, "actions": SHOES, "policy": {"black": 1.0}}
    problem_of(await api.post("/predict", **body), 422, "unknown-action", "policy")


async def test_labels_cannot_be_added_to_actions(api: Api) -> None:
    body_of(await api.post("/models", **definition(api.name)), 201)
    tag = await api.tag()
    problem_of(await api.change(tag, labels={"add": ["a"]}), 422, "labels-fixed", "labels")
    assert body_of(await api.change(tag, mode="frozen"), 200)["mode"] == "frozen"
    answer = await choose(api)
    assert (await api.judge(answer["prediction_id"], correct=True)).status_code == 200


async def test_vectors_identify_a_request_in_any_order_of_members(api: Api) -> None:
    vector = {"type": "vector", "size": 2}
    features = {"kind": "named", "fields": {"a": vector, "b": vector}}
    actions = {"features": features, "interactions": []}
    body_of(await api.post("/models", name=api.name, features=features, actions=actions), 201)
    sent, same, other = {"a": [1, 2], "b": [3, 0.0]}, {"b": [3, -0.0], "a": [1, 2]}, {"b": [1, 2], "a": [3, 0.0]}

    async def asked(context: Any, of_action: Any) -> Any:
        chosen = [{"id": "x", "features": of_action}]
        return await api.post("/predict", model=api.name, context=context, actions=chosen, prediction_id="p")

    first = body_of(await asked(sent, sent), 200)
    assert body_of(await asked(same, same), 200) == first
    for wrong in ((other, sent), (sent, other)):
        problem_of(await asked(*wrong), 409, "prediction-conflict", "prediction_id")
