"""Sample models for tests: definitions, rounds written directly to a store, and the reference fold."""

import json
import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from learners.answers import draw_answers, uniforms_per_answer
from learners.base import NO_LABEL, AnyLearner, Contexts, Problem, Rounds
from learners.mathematics.preparation import Preparation, prepare
from learners.registry import ALL_LEARNERS
from service.compute import Compute
from service.contexts.sparse import SparseFeatures
from service.models.model import Limits, Model, new_model
from service.models.reading import stored_model
from service.prediction_id import PredictionId, tokens_of
from service.rounds.feedback import feedback_rules
from service.schemas.models import ModelDefinition
from service.store.capabilities import Store
from service.store.records.new_predictions import NewPredictions
from service.store.stored_models import ModelKey, digests_of
from service.store.values import Block, Feedback, FeedbackStatus, LogEntry
from tests.service.workers import START

COMPUTE = Compute(2)
"""Thread pool shared by all tests."""
LABELS = ["red", "green", "blue", "none"]
SIZE = 3
SOBA_DIAGONAL = {"algorithm": "soba-diagonal"}
GAPTRON = {"algorithm": "gaptron", "loss": "logistic", "eta_scale": 20.0}
SOBA = {"algorithm": "soba"}
UNIFORM = {"algorithm": "uniform"}
LABEL_SET = {"algorithm": "fenchel-young-multilabel"}
RANKING = {"algorithm": "fenchel-young-ranking", "polytope": "birkhoff"}
LEARNER_CHOICES = [SOBA_DIAGONAL, GAPTRON, SOBA, UNIFORM]


def definition(name: str, **fields: Any) -> dict[str, Any]:
    features = {"kind": "dense", "size": SIZE, "norm": "unit", "intercept": False}
    return {"name": name, "labels": LABELS, "features": features, "learner": SOBA_DIAGONAL} | fields


def some_contexts(seed: int, n: int) -> list[list[float]]:
    rows: list[list[float]] = np.random.default_rng(seed).normal(size=(n, SIZE)).tolist()
    return rows


async def make_model(store: Store, name: str, incarnation: str = "first", **fields: Any) -> Model:
    model = new_model(
        ModelDefinition.model_validate(definition(name, **fields)), incarnation, Limits(2**30, 10**12, 2**30)
    )
    text = model.definition.model_dump_json()
    assert await store.create_model(model.key, text, START)
    return replace(model, digests=digests_of([text]))


async def play(
    store: Store, model: Model, n: int, seed: int = 1, now: float = START, blocks: int | None = None
) -> None:
    rng = np.random.default_rng(seed)
    contexts = _drawn_contexts(model, rng, n)
    decisions = model.learner.decide(model.learner.init(), contexts)
    uniforms = rng.random((n, uniforms_per_answer(model.learner)))
    labels, propensities, residual_uniforms = draw_answers(model.learner, decisions, uniforms)
    outputs = model.choice.answers.codec.rows(labels)
    made = NewPredictions(outputs, propensities, residual_uniforms, decisions.evidence, contexts, now, now + 60.0, 0)
    made = made._replace(changes_seen=model.change_count, digest=model.digest)
    bounds = [n * i // (blocks or n) for i in range((blocks or n) + 1)]
    names = [f"played-{seed}-{number}" for number in range(len(bounds) - 1)]
    tokens = tokens_of(bounds, str(seed))
    records = model.choice.records.encode_blocks(made, bounds, tokens, [bytes(16)] * len(names))
    await store.add_predictions(model.key, list(map(Block, names, records)), 600.0, None)
    spans = zip(names, pairwise(bounds), strict=True)
    own = [(block, token) for block, (start, stop) in spans for token in tokens[start:stop]]
    ids = [PredictionId(model.name, *each) for each in own]
    truths = model.choice.answers.codec.encode(
        rng.permutation(labels)
    )  # answers of other rounds, which are valid answers
    feedback = [
        Feedback(id_, None, truth) if model.learner.needs_true_label else Feedback(id_, bool(rng.random() < 0.7), None)
        for id_, truth in zip(ids, truths, strict=True)
    ]
    results = await store.add_feedback(model.key, feedback, feedback_rules(model), now)
    assert {result.status for result in results} <= {FeedbackStatus.RECORDED}


def _drawn_contexts(model: Model, rng: np.random.Generator, n: int) -> Contexts:
    if isinstance(model.definition.features, SparseFeatures):
        lengths = rng.integers(1, 4, n)
        indices = np.concatenate([rng.permutation(50)[:length] for length in lengths])
        return Contexts.sparse(lengths, indices, rng.normal(size=len(indices)) / 10)
    numbers = rng.normal(size=(n, SIZE))
    return Contexts.dense(numbers / np.linalg.norm(numbers, axis=1, keepdims=True))


async def whole_log(store: Store, key: ModelKey) -> list[LogEntry]:
    return (await store.read_tail(key, 0, 1_000_000)).entries


def sequential_fold(model: Model, entries: Sequence[LogEntry]) -> Any:
    records = one_by_one(entries)
    assert model.choice.records.table(records)["round"].tolist() == list(range(1, len(records) + 1))
    state = model.learner.init()
    for record in records:
        state = model.learner.fold(state, model.rounds_of(model.choice.records.rows([record])))
    return state


def one_by_one(entries: Sequence[LogEntry]) -> list[bytes]:
    rounds = b"".join(entry.payload for entry in entries)
    records = []
    while rounds:
        length = int.from_bytes(rounds[:4], "little")
        records.append(rounds[:length])
        rounds = rounds[length:]
    return records


async def true_state(store: Store, name: str) -> Any:
    stored = await store.get_model(name)
    assert stored is not None
    return sequential_fold(stored_model(stored), await whole_log(store, stored.key))


def bits(state: Any) -> list[bytes]:
    return [array.tobytes() for array in state]


async def post(client: Any, path: str, status: Any = None, **body: Any) -> Any:
    """Post a JSON object; check the status, or success, and return the answer's."""
    response = await client.post(path, json=body)
    assert response.status_code == status if status else response.is_success, response.text
    return response.json()


def slug_of(answer: dict[str, Any]) -> str:
    """Return the name of a problem, or `ok` for an answer."""
    return str(answer["type"]).removeprefix("urn:wager:problem:") if "type" in answer else "ok"


def learner_of(model: dict[str, Any]) -> AnyLearner:
    features, choice = model["features"], dict(model["learner"])
    problem = Problem(len(model["labels"]), features["size"] + features["intercept"], features["norm_bound"])
    learner: AnyLearner = ALL_LEARNERS[choice.pop("algorithm")](problem=problem, **choice)
    return learner


def prepared(model: dict[str, Any], context: Sequence[float]) -> Contexts:
    features = model["features"]
    preparation = Preparation(features["norm"], features["norm_bound"], features["intercept"], features["size"])
    return prepare(Contexts.dense([context]), preparation)


def distribution_of(learner: AnyLearner, state: Any, context: Contexts) -> list[float]:
    probabilities: list[float] = learner.decide(state, context).distributions[0].tolist()
    return probabilities


class Replay:
    def __init__(self, model: dict[str, Any], tolerance: float = 0.0) -> None:
        self._tolerance = tolerance
        self._model = model
        self.learner = learner_of(model)
        self.labels: list[str] = model["labels"]
        self.states = [self.learner.init()]  # after each round

    def distribution(self, context: Sequence[float]) -> list[float]:
        return distribution_of(self.learner, self.states[-1], prepared(self._model, context))

    def add(self, line: dict[str, Any]) -> None:
        assert line["round"] == len(self.states)
        seen, context = self.states[line["rounds_seen"]], prepared(self._model, line["context"])
        label = self.labels.index(line["label"])
        decisions = self.learner.decide(seen, context)
        assert math.isclose(decisions.distributions[0, label], line["propensity"], rel_tol=self._tolerance)
        truth = NO_LABEL if line["true_label"] is None else self.labels.index(line["true_label"])
        one = Rounds.of_bits(
            contexts=context,
            labels=np.array([label]),
            propensities=np.array([line["propensity"]]),
            correct=np.array([line["correct"]]),
            true_labels=np.array([truth]),
            evidence=decisions.evidence,
            residual_uniforms=np.zeros(1),  # no learner here flips coins
        )
        copied = self.learner.state_type(*(array.copy() for array in self.states[-1]))
        self.states.append(self.learner.fold(copied, one))


def replay(model: dict[str, Any], log: str, tolerance: float = 0.0) -> Replay:
    played = Replay(model, tolerance)
    for line in log.splitlines():
        played.add(json.loads(line))
    return played


def taught_by(model: Model, learner: Any) -> Model:
    return replace(model, learner=learner)


class CutShort:
    def __init__(self, learner: Any, fold_cost: int = 1) -> None:
        self._learner = learner
        self._fold_cost = fold_cost
        self.broken = True
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def fold_cost(self, _: int) -> int:
        return self._fold_cost

    def fold_unchecked(self, state: Any, rounds: Any) -> Any:
        state = self._learner.fold_unchecked(state, rounds)
        if not self.broken:
            return state
        self.begun.set()
        if self._fold_cost == 1:
            raise FloatingPointError("cut short")
        self.go_on.wait(10.0)
        return self._learner.fold_unchecked(state, rounds)  # two folds, so that the state is clearly wrong
