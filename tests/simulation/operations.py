"""The operations whose interleavings are searched."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from service.background.due_models import expiry
from service.choice.requests import PredictionRequest
from service.errors import FeedbackConflictError, PredictionExpiredError
from service.prediction_id import PredictionId
from service.schemas.fast_decoders import DecodedFeedback
from service.schemas.models import ModelPatch
from tests.service.sample_models import SIZE
from tests.simulation.log_rounds import ViolationError
from tests.simulation.models import SQUARECB
from tests.simulation.truths import Truths
from tests.simulation.workers import SimulatedWorker

MODEL = "small"
POLICIES = {
    "learner": SQUARECB,
    "costs": {"red": 1.0, "green": 0.5},
    "budget": {"cost": 0.2},
    "on_expiry": "incorrect",
    "window_seconds": 100.0,
    "retain_rounds": 0,
}


class Operation(NamedTuple):
    """What a client, or a worker, does once. A client repeats it after a fault."""

    name: str
    worker: int  # 0 or 1
    do: Callable[[Truths, SimulatedWorker], Any]
    after: str = ""  # the operation that must have ended


def _predict(own: str) -> Callable[[Truths, SimulatedWorker], Any]:
    request = PredictionRequest([1.0] * SIZE, PredictionId(MODEL, own), False)
    return lambda _, worker: worker.rounds.predict(MODEL, request)


def _give(own: str, *, correct: bool) -> Callable[[Truths, SimulatedWorker], Any]:
    async def give(truths: Truths, worker: SimulatedWorker) -> None:
        feedback, truth = DecodedFeedback(PredictionId(MODEL, own), correct, None), truths[MODEL]
        since = truth.since(0.0)
        try:
            answer = await worker.rounds.give_feedback(feedback)
        except (FeedbackConflictError, PredictionExpiredError) as error:
            there = truth.rounds[truth.closed[own, -1] - 1]
            if there.is_expired != isinstance(error, PredictionExpiredError):
                raise ViolationError(f"feedback {correct} is refused ({error}), but its round is {there}") from error
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


OPERATIONS: Sequence[Operation] = (
    Operation("predict 1", 0, _predict("p1")),
    Operation("predict 2", 1, _predict("p2")),
    Operation("feedback", 0, _give("p1", correct=True), after="predict 1"),
    Operation("duplicate", 1, _give("p1", correct=True), after="predict 1"),
    Operation("contradiction", 1, _give("p1", correct=False), after="predict 1"),
    Operation("expiry", 1, _close),
    Operation("snapshot", 0, _snapshot),
    Operation("label change", 1, _change),
)
