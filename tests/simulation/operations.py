"""The operations whose interleavings are searched."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from service.background.due_models import expiry
from service.choice.requests import NO_OPTIONS, PredictionRequest
from service.errors import FeedbackConflictError, NotActivatedError, PredictionExpiredError, WagerError
from service.prediction_id import PredictionId
from service.rounds.flags import EvaluationContext
from service.schemas.fast_decoders import DecodedFeedback
from service.schemas.models import ModelPatch
from service.schemas.rounds import ActivateRequest
from tests.service.sample_models import SIZE
from tests.simulation.answers import Said, check_evaluation, said_by, stored_answer
from tests.simulation.log_rounds import Asked, ViolationError
from tests.simulation.models import FLAG, MODELS, SQUARECB, context_of
from tests.simulation.refusals import check_refusal
from tests.simulation.truth import Truth
from tests.simulation.truths import Truths
from tests.simulation.workers import SimulatedWorker

MODEL = "small"
POLICIES: Mapping[str, Any] = {
    "learner": SQUARECB,
    "costs": {"red": 1.0, "green": 0.5},
    "budget": {"cost": 0.2},
    "on_expiry": "incorrect",
    "learn": "on_arrival",
    "window_seconds": 100.0,
    "retain_rounds": 0,
}
_OF_FLAG = {"on_expiry": "incorrect", "learn": "on_arrival", "retain_rounds": 0, **MODELS[FLAG]}
_ACTIVE, _INACTIVE = (1.0,) * SIZE, (2.0,) * SIZE
"""The contexts of all requests, by what they ask for."""


class Operation(NamedTuple):
    """What a client, or a worker, does once. A client repeats it after a fault."""

    name: str
    worker: int  # 0 or 1
    do: Callable[[Truths, SimulatedWorker], Any]
    after: str = ""  # the operation that must have ended


def _predict(own: str, context: Asked = _ACTIVE) -> Callable[[Truths, SimulatedWorker], Any]:
    id_ = PredictionId(MODEL, own)

    async def predict(truths: Truths, worker: SimulatedWorker) -> None:
        options = NO_OPTIONS._replace(activated=context != _INACTIVE)
        truths.asked[context], since = options, truths[MODEL].since(0.0)
        answer = await worker.rounds.predict(MODEL, PredictionRequest([*context], id_, False, options))
        stored_answer(truths[MODEL], since, Said(id_, answer.label, answer.propensity, context))

    return predict


def _activate(own: str) -> Callable[[Truths, SimulatedWorker], Any]:
    request = ActivateRequest.model_validate({"prediction_id": f"{MODEL}:{own}"})

    async def activate(truths: Truths, worker: SimulatedWorker) -> None:
        try:
            await worker.rounds.activate(request)
        except PredictionExpiredError as error:
            _check_expiry(truths[MODEL], own, error)

    return activate


def _check_expiry(truth: Truth, own: str, error: WagerError) -> None:
    """Check that the store has closed a prediction: its clock may be ahead, but no worker's clock ends a window."""
    if not truth.has_expired((own, -1)):
        raise ViolationError(f"{own} has not expired, but a request is refused: {error}") from error


async def _evaluate(truths: Truths, worker: SimulatedWorker) -> None:
    since = truths[MODEL].since(0.0)
    evaluation = await worker.flags.evaluate(MODEL, EvaluationContext("user", context_of(FLAG, [*_ACTIVE])))
    check_evaluation(truths[MODEL], since, said_by(evaluation, _ACTIVE))


async def _give_to_evaluation(truths: Truths, worker: SimulatedWorker) -> None:
    (block, _), *_ = truths[MODEL].histories.stored
    await _give(block, correct=True)(truths, worker)


def _give(own: str, *, correct: bool) -> Callable[[Truths, SimulatedWorker], Any]:
    async def give(truths: Truths, worker: SimulatedWorker) -> None:
        feedback, truth = DecodedFeedback(PredictionId(MODEL, own), correct, None), truths[MODEL]
        since = truth.since(0.0)
        try:
            answer = await worker.rounds.give_feedback(feedback)
        except PredictionExpiredError as error:
            _check_expiry(truth, own, error)
            return
        except (FeedbackConflictError, NotActivatedError) as error:
            check_refusal(truth, (own, -1), correct, since, error)
            return
        truth.acknowledge((own, -1), answer.round, answer.reward, since)
        if answer.reward != float(correct):
            raise ViolationError(f"feedback {correct} is answered with {answer.reward}")

    return give


async def _close(_: Truths, worker: SimulatedWorker) -> None:
    await expiry(worker.environment, worker.sessions).run()


async def _snapshot(_: Truths, worker: SimulatedWorker) -> None:
    await worker.sessions.write_snapshot(MODEL)


def _change(_: Truths, worker: SimulatedWorker) -> Any:
    policies = {"rules": {"floor": {"new": 0.5}}, "costs": {"new": 0.3, "red": 0.2}, "budget": {"cost": 0.1}}
    patch = ModelPatch.model_validate({"labels": {"add": ["new"]}, **policies})
    return worker.registry.change(MODEL, patch, ("*",), None)


def _relabel(_: Truths, worker: SimulatedWorker) -> Any:
    return worker.registry.change(MODEL, ModelPatch.model_validate({"labels": {"add": ["new"]}}), ("*",), None)


class Search(NamedTuple):
    """Operations whose interleavings are searched.

    Attributes:
        faults: of which at most one happens.
        is_late: whether a worker may read a reply later than the store sends it.
        policies: of the model.
    """

    operations: Sequence[Operation]
    faults: Sequence[str] = ("lose reply of", "kill before", "kill after")
    is_late: bool = False
    policies: Mapping[str, Any] = POLICIES


SEARCHES: Mapping[str, Search] = {
    "rounds": Search(
        [
            Operation("predict 1", 0, _predict("p1")),
            Operation("predict 2", 1, _predict("p2")),
            Operation("feedback", 0, _give("p1", correct=True), after="predict 1"),
            Operation("duplicate", 1, _give("p1", correct=True), after="predict 1"),
            Operation("contradiction", 1, _give("p1", correct=False), after="predict 1"),
            Operation("expiry", 1, _close),
        ]
    ),
    "changes": Search(
        [
            Operation("predict 1", 0, _predict("p1")),
            Operation("feedback", 0, _give("p1", correct=True), after="predict 1"),
            Operation("expiry", 1, _close),
            Operation("snapshot", 0, _snapshot),
            Operation("label change", 1, _change),
        ]
    ),
    "commits": Search(
        [
            Operation("predict 1", 0, _predict("p1")),
            Operation("predict 2", 0, _predict("p2")),
            Operation("predict 3", 0, _predict("p3")),
            Operation("feedback", 0, _give("p1", correct=True), after="predict 1"),
            Operation("feedback 2", 0, _give("p2", correct=True), after="predict 2"),
            Operation("feedback 3", 0, _give("p3", correct=True), after="predict 3"),
            Operation("label change", 1, _change),
        ],
        faults=("cancel", "lose reply of"),
    ),
    "activation": Search(
        [
            Operation("predict 1", 0, _predict("p1", _INACTIVE)),
            Operation("feedback", 0, _give("p1", correct=True), after="predict 1"),
            Operation("activation", 1, _activate("p1"), after="predict 1"),
            Operation("contradiction", 1, _give("p1", correct=False), after="activation"),
            Operation("expiry", 1, _close),
        ],
        is_late=True,
    ),
    "flag": Search(
        [
            Operation("evaluation", 0, _evaluate),
            Operation("evaluation 2", 1, _evaluate),
            Operation("feedback", 0, _give_to_evaluation, after="evaluation"),
            Operation("expiry", 1, _close),
            Operation("label change", 1, _relabel),
        ],
        faults=("lose reply of", "kill after", "cancel"),
        policies=_OF_FLAG,
    ),
}
"""What is searched, by name."""
