"""The laws of abstentions: neither right nor wrong anywhere, with the reward 1 - c; feedback on them counts once."""

import json
import math
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from typer.testing import CliRunner

from service.__main__ import app
from service.schemas.reports import EvaluationAnswer
from service.shadows.replica import ShadowReplica
from service.store.redis.redis_store import RedisStore
from tests.service.api.http_api import Api, body_of, problem_of
from tests.service.api.test_statistics import publish, statistics
from tests.service.metrics import scrape, value
from tests.service.replicas.altering import current
from tests.service.rounds.clicks import close_expired
from tests.service.sample_models import COMPUTE
from tests.service.workers import Clock, worker
from toolkit.files.exported import Export, Lines
from wager_client.results import Feedback, Model, ModelSummary, Round, read

COST = 0.2
REWARD = 1.0 - COST
UNBOUNDED = {"kind": "dense", "size": 2, "norm": "none"}  # so that other learners can be shadows
LIFE = [([0.0, 0.0], "no"), ([1.0, 1.0], "yes"), ([0.0, 0.0], "yes"), ([-1.0, -1.0], "yes"), ([0.0, 0.0], "no")]
"""Contexts with their true labels. The two experts agree, so the learner abstains, or answers, with certainty."""


class Counted(NamedTuple):
    """How many rounds were answered right, answered wrong, and not answered."""

    right: float
    wrong: float
    abstained: float


LIVED = Counted(1, 1, 3)


async def create(api: Api, **fields: Any) -> None:
    body = {"labels": ["no", "yes", "abstain"], "features": {"kind": "dense", "size": 2}}
    learner = {"algorithm": "adahedge", "abstention_cost": COST}
    body_of(await api.post("/models", **{"name": api.name, **body, "learner": learner} | fields), 201)


async def drawn(api: Api, context: list[float], **fields: Any) -> dict[str, Any]:
    return body_of(await api.predict(context, **fields), 200)


async def lived(api: Api) -> list[dict[str, Any]]:
    """Create a model, and live its life; return the answers to feedback."""
    await create(api)
    found = []
    for context, truth in LIFE:
        made = await drawn(api, context)
        found.append(body_of(await api.judge(made["prediction_id"], true_label=truth), 200))
    return found


@pytest.fixture
def api(client: httpx2.AsyncClient, name: str) -> Api:
    return Api(client, "", name)


async def logged(api: Api) -> list[dict[str, Any]]:
    return await api.rounds(limit=1000)


def counted(lines: list[Any]) -> Counted:
    """Count answers to feedback, or lines of a log."""
    for line in lines:
        assert line["abstained"] == (line["correct"] is None) == (line["reward"] == REWARD)
        assert line["abstained"] or line["reward"] == float(line["correct"])
    bits = [line["correct"] for line in lines]
    return Counted(bits.count(True), bits.count(False), sum(line["abstained"] for line in lines))


def of_model(model: Any) -> Counted:
    assert model["total_reward"] == pytest.approx(model["correct"] + REWARD * model["abstained"])
    return Counted(model["correct"], model["rounds_seen"] - model["correct"] - model["abstained"], model["abstained"])


def of_means(rounds: int, abstained: float, accuracy: float) -> Counted:
    right = accuracy * (rounds - abstained)
    return Counted(right, rounds - abstained - right, abstained)


def of_evaluation(answer: EvaluationAnswer) -> Counted:
    served = answer.policies[0]
    assert served.abstention is not None
    assert served.abstention.accuracy is not None
    assert served.abstention.cost == pytest.approx(COST * served.abstention.rate)
    (snips,) = [each.value for each in served.estimates if each.estimator == "snips"]
    answered = 1.0 - served.abstention.rate
    assert snips == pytest.approx(
        answered * served.abstention.accuracy + served.abstention.rate - served.abstention.cost
    )
    return of_means(served.rounds, served.abstention.rate * served.rounds, served.abstention.accuracy)


class Seen(NamedTuple):
    """Where the life of a model is looked at."""

    client: httpx2.AsyncClient
    api: Api
    store: RedisStore
    answers: list[dict[str, Any]]  # to its feedback
    folder: Path


async def of_answers(seen: Seen) -> Counted:
    return counted(seen.answers)


async def of_log(seen: Seen) -> Counted:
    return counted(await logged(seen.api))


async def of_description(seen: Seen) -> Counted:
    return of_model(await seen.api.model())


async def of_list(seen: Seen) -> Counted:
    return of_model(await listed(seen.api))


async def listed(api: Api) -> Any:
    """Return the model's entry in the list of models."""
    models = body_of(await api.get("/models", cursor=api.name[:-1], limit=1000), 200)["models"]
    return next(each for each in models if each["name"] == api.name)


async def of_metrics(seen: Seen) -> Counted:
    samples = await scrape(seen.client)
    right, rounds, abstained = (
        value(samples, f"wager_{each}_total", model=seen.api.name) for each in ("correct", "predictions", "abstained")
    )
    served = value(samples, "wager_reward_ratio", model=seen.api.name, policy="served", estimator="mean")
    assert served * rounds == pytest.approx(right + REWARD * abstained)
    return Counted(right, rounds - right - abstained, abstained)


async def of_statistics(seen: Seen) -> Counted:
    await publish(seen.store, seen.api.name)
    found = await statistics(seen.client, seen.api.name)
    abstention, rounds = found["abstention"], found["rounds"]
    assert (found["metric"], abstention["accuracy"]["rounds"]) == ("value", rounds - abstention["rounds"])
    assert abstention["rate"] == abstention["rounds"] / rounds
    assert abstention["cost"] == pytest.approx(COST * abstention["rounds"])
    assert found["reward"]["mean"] == pytest.approx(found["curve"]["points"][-1]["cumulative"])
    assert found["reward"]["mean"] * rounds == pytest.approx(1.0 + REWARD * abstention["rounds"])
    return of_means(rounds, abstention["rounds"], abstention["accuracy"]["mean"])


async def of_latest_rounds(seen: Seen) -> Counted:
    found = body_of(await seen.api.get(f"/models/{seen.api.name}/evaluation"), 200)
    return of_evaluation(EvaluationAnswer.model_validate(found))


async def export(seen: Seen, kind: str) -> Path:
    lines = await logged(seen.api)
    path = Export(seen.folder / f"log.{kind}", kind, await seen.api.model())
    return path.write(Lines(lines, [None] * len(lines)))


async def of_ndjson(seen: Seen) -> Counted:
    path = await export(seen, "ndjson")
    return counted([json.loads(line) for line in path.read_text().splitlines()])


async def of_parquet(seen: Seen) -> Counted:
    parquet = pytest.importorskip("pyarrow.parquet")
    return counted(parquet.read_table(await export(seen, "parquet")).to_pylist())


async def of_dsjson(seen: Seen) -> Counted:
    path = await export(seen, "dsjson")
    costs = [-json.loads(line)["_label_cost"] for line in path.read_text().splitlines()]
    return Counted(costs.count(1.0), costs.count(0.0), costs.count(REWARD))


async def of_wager_evaluate(seen: Seen) -> Counted:
    words = ["evaluate", str(await export(seen, "parquet")), "--replicates", "20", "--policy", "uniform", "--json"]
    found = CliRunner().invoke(app, [*words, "--learner", "adahedge", "--learner", "perceptron"])
    assert found.exit_code == 0, found.output
    shown = CliRunner().invoke(app, words[:-1]).stdout
    assert all(each in shown for each in ("accuracy", "abstention rate", "abstention cost"))
    return of_evaluation(EvaluationAnswer.model_validate_json(found.stdout))


async def of_client(seen: Seen) -> Counted:
    lines = [read(Round, line) for line in await logged(seen.api)]
    given, model = [read(Feedback, each) for each in seen.answers], read(Model, await seen.api.model())
    summary = read(ModelSummary, await listed(seen.api))
    assert [(each.correct, each.abstained) for each in lines] == [(each.correct, each.abstained) for each in given]
    assert model.abstained == summary.abstained
    return counted([vars(each) for each in lines])


async def of_copies(seen: Seen) -> Counted:
    clone, file = seen.api.named(f"{seen.api.name}-clone"), seen.api.named(f"{seen.api.name}-file")
    body_of(await seen.api.post(f"/models/{seen.api.name}/clone", name=clone.name), 201)
    body_of(await file.imported(await seen.api.exported()), 201)
    found = {of_model(await each.model()) for each in (seen.api, clone, file)}
    (same,) = found | {await of_statistics(seen._replace(api=each)) for each in (clone, file)}
    return same


async def of_imported_rounds(seen: Seen) -> Counted:
    copy = seen.api.named(f"{seen.api.name}-rounds")
    await create(copy)
    wanted = ("context", "label", "propensity", "true_label")
    rounds = [{name: line[name] for name in wanted} for line in await logged(seen.api)]
    body_of(await copy.post(f"/models/{copy.name}/rounds", source="log", offset=0, rounds=rounds), 200)
    labelled = [{"context": context, "true_label": truth} for context, truth in LIFE]
    body_of(await copy.post(f"/models/{copy.name}/rounds", source="labels", offset=0, rounds=labelled), 200)
    lines = await logged(copy)
    (same,) = {counted(lines[:5]), counted(lines[5:])}
    assert of_model(await copy.model()) == (2, 2, 6)
    return same


SURFACES: list[Callable[[Seen], Coroutine[Any, Any, Counted]]] = [
    of_answers, of_log, of_description, of_list, of_metrics, of_statistics, of_latest_rounds, of_ndjson, of_parquet,
    of_dsjson, of_wager_evaluate, of_client, of_copies, of_imported_rounds,
]  # fmt: skip


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.__name__)
async def test_an_abstained_round_is_neither_right_nor_wrong(
    store_url: str,
    store: RedisStore,
    name: str,
    tmp_path: Path,
    surface: Callable[[Seen], Coroutine[Any, Any, Counted]],
) -> None:
    async with worker(store_url, metrics_models=name) as client:
        api = Api(client, "", name)
        seen = Seen(client, api, store, await lived(api), tmp_path)
        assert await surface(seen) == pytest.approx(LIVED)


GIVEN = {"true_label": "no"}
ABSTAINED = {"correct": None, "reward": REWARD, "abstained": True}


async def promote(api: Api, learner: Any) -> None:
    body_of(await api.request("PUT", f"/models/{api.name}/shadows/rival", json={"learner": learner}), 200)
    path, body = f"/models/{api.name}/promote", {"shadow": "rival"}
    body_of(await api.request("POST", path, json=body, headers={"If-Match": "*"}), 200)


@pytest.mark.parametrize("learner", ["perceptron", {"algorithm": "adahedge", "abstention_cost": 0.4}])
async def test_duplicate_feedback_gets_the_first_answer(store_url: str, name: str, learner: Any) -> None:
    """So it does from another worker, after a restart, and from a model that has another learner by then."""
    async with worker(store_url) as one:
        api = Api(one, "", name)
        await create(api, features=UNBOUNDED)
        early, late = [(await drawn(api, [0.0, 0.0]))["prediction_id"] for _ in range(2)]
        first = body_of(await api.judge(early, **GIVEN), 200)
        assert first == {"prediction_id": early, **ABSTAINED, "status": "recorded", "round": 1}
    async with worker(store_url) as two:
        api = Api(two, "", name)
        again = first | {"status": "duplicate"}
        assert body_of(await api.judge(early, **GIVEN), 200) == again
        await promote(api, learner)
        assert body_of(await api.judge(early, **GIVEN), 200) == again
        made_before = body_of(await api.judge(late, **GIVEN), 200)
        assert made_before == {"prediction_id": late, **ABSTAINED, "status": "recorded", "round": 2}
        assert counted(await logged(api)) == (0, 0, 2)
        conflict = problem_of(await api.judge(early, true_label="yes"), 409, "feedback-conflict", "true_label")
        assert f"recorded reward: {REWARD}" in conflict["detail"]


async def test_feedback_that_waits_is_an_abstention_before_and_after_its_window(
    store: RedisStore, store_url: str, name: str
) -> None:
    clock = Clock()
    async with worker(store_url, clock) as client:
        api = Api(client, "", name)
        await create(api, window_seconds=60.0, learn="at_window_close")
        id_ = (await drawn(api, [0.0, 0.0]))["prediction_id"]
        expected = {"prediction_id": id_, **ABSTAINED, "status": "recorded", "round": None}
        assert body_of(await api.judge(id_, **GIVEN), 200) == expected
        assert body_of(await api.judge(id_, **GIVEN), 200) == expected | {"status": "duplicate"}
        clock.now += 61.0
        await close_expired(store, clock)
        assert body_of(await api.judge(id_, **GIVEN), 200) == expected | {"status": "duplicate", "round": 1}
        assert (counted(await logged(api)), of_model(await api.model())) == ((0, 0, 1), (0, 0, 1))


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"correct": True}, "label-needed", "true_label"),
    ({"correct": False}, "label-needed", "true_label"),
    ({"correct": False, "true_label": "no"}, "inconsistent-feedback", "correct"),
    ({"correct": True, "true_label": "no"}, "inconsistent-feedback", "correct"),
    ({"correct": True, "true_label": "abstain"}, "wrong-truth", "true_label"),
    ({"true_label": "abstain"}, "wrong-truth", "true_label"),
    ({"reward": 0.5}, "reward-not-accepted", "reward"),
]


@pytest.mark.parametrize(("feedback", "slug", "field"), REFUSED, ids=str)
async def test_only_a_true_label_judges_an_abstention(
    api: Api, feedback: dict[str, Any], slug: str, field: str
) -> None:
    await create(api)
    id_ = (await drawn(api, [0.0, 0.0]))["prediction_id"]
    line = {"context": [0.0, 0.0], "label": "abstain", "propensity": 1.0, **feedback}
    problem_of(await api.judge(id_, **feedback), 422, slug, field)
    imported = await api.post(f"/models/{api.name}/rounds", source="s", offset=0, rounds=[line])
    problem_of(imported, 422, slug, f"rounds.0.{field}")
    assert (await api.model())["rounds_seen"] == 0
    assert body_of(await api.judge(id_, **GIVEN), 200)["status"] == "recorded"


@pytest.mark.parametrize("cost", [0.0, -0.1, 0.5, 1.0, "0.3", None, True])
async def test_the_cost_of_abstaining_is_below_one_half(api: Api, cost: Any) -> None:
    body = {"name": api.name, "labels": ["no", "yes", "abstain"], "features": {"kind": "dense", "size": 2}}
    learner = {"algorithm": "adahedge", "abstention_cost": cost}
    problem_of(
        await api.post("/models", **body, learner=learner), 422, "invalid-hyperparameter", "learner.abstention_cost"
    )
    made = body_of(await api.post("/models", **body, learner="adahedge"), 201)
    assert made["learner"] == {"algorithm": "adahedge", "abstention_cost": 0.3}


async def test_shadows_learn_from_abstentions(api: Api, store: RedisStore) -> None:
    """Their true labels are known, so no round is skipped; the values of the policies are means of the rewards."""
    await create(api, features=UNBOUNDED)
    for learner in ("adahedge", "perceptron"):
        path = f"/models/{api.name}/shadows/{learner}"
        body_of(await api.request("PUT", path, json={"learner": learner}), 200)
    for context, truth in LIFE:
        made = await drawn(api, context)
        body_of(await api.judge(made["prediction_id"], true_label=truth), 200)
    model = await current(store, api.name)
    for shadow in await store.read_shadows(model.key):
        replica = ShadowReplica(model, store, COMPUTE, shadow)
        assert await replica.advance(lambda: True)
        assert (replica.sums.rounds, replica.sums.skipped) == (5, 0)
        assert replica.sums.reward == pytest.approx(1.0 + 3 * REWARD)


async def test_the_bound_is_that_of_theorem_7(client: httpx2.AsyncClient, store: RedisStore, name: str) -> None:
    """The cost of the answers is within the bound: each expert errs once, and is undecided in three rounds."""
    await lived(Api(client, "", name))
    await publish(store, name)
    found = await statistics(client, name)
    nats, rounds = math.log(2.0), len(LIFE)
    bound = min(nats / (1.0 - 2.0 * COST), math.sqrt(rounds * nats)) + 4.0 / 3.0 * nats + 2.0
    assert found["bound"]["mistakes"] == pytest.approx(bound)
    assert found["curve"]["points"][-1]["bound"] == max(0.0, 1.0 - bound / rounds)
    assert 1.0 + found["abstention"]["cost"] <= 1.0 + 3 * 0.5 + bound
    assert "c = 0.2" in found["bound"]["guarantee"]
    assert f"{nats / (1.0 - 2.0 * COST) + 4.0 / 3.0 * nats + 2.0:.4g} for d = 2" in found["bound"]["guarantee"]


async def test_a_shadow_bounds_contexts_as_the_model_does(client: httpx2.AsyncClient, name: str) -> None:
    """AdaHedge bounds entries, others the length: where contexts are refused, a promotion would refuse others."""
    for norm, status in [("reject", 422), ("scale", 200)]:
        api = Api(client, "", f"{name}-{norm}")
        await create(api, features={"kind": "dense", "size": 2, "norm": norm})
        for learner, expected in [("fenchel-young", status), ("adahedge", 200)]:
            answer = await api.request("PUT", f"/models/{api.name}/shadows/rival", json={"learner": learner})
            assert answer.status_code == expected, answer.text
            assert expected == 200 or answer.json()["field"] == "learner.algorithm"
