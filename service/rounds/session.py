"""One worker's session for one model: predictions, feedback, and upkeep of the replica."""

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from service.choice.requests import PredictionRequest
from service.environment import Environment
from service.models.model import Model
from service.replicas.replica import Replica
from service.replicas.upkeep import Upkeep
from service.rounds.activation import activate
from service.rounds.explaining import Explainer
from service.rounds.feedback import FeedbackJoiner
from service.rounds.predictor import Predictor
from service.schemas.plain_bodies import GivenFeedback
from service.schemas.reports.explanations import ExplainAnswer, ExplainRequest
from service.schemas.rounds import ActivateAnswer, ActivateRequest, FeedbackAnswer, PredictAnswer


class ModelSession:
    """Serves one model in this worker."""

    def __init__(self, model: Model, environment: Environment) -> None:
        self._environment = environment
        self.replica = Replica(model, environment.store, environment.compute, environment.monotonic)
        self._upkeep = Upkeep(self.replica, environment.store, environment.now)
        self._predictor = Predictor(self.replica, environment, self._upkeep)
        self._feedback = FeedbackJoiner(self.replica, environment, self._upkeep)

    @property
    def model(self) -> Model:
        """The model, with every change that this worker has seen."""
        return self.replica.model

    @property
    def idle(self) -> bool:
        """Whether the session has no work queued or in progress."""
        return self._predictor.idle and self._feedback.idle and self._upkeep.idle

    def predict(self, request: PredictionRequest) -> Coroutine[Any, Any, PredictAnswer]:
        """See `Predictor.predict`."""
        return self._predictor.predict(request)

    def predict_all(self, requests: Sequence[PredictionRequest]) -> Awaitable[list[PredictAnswer | Exception]]:
        """See `Predictor.predict_all`."""
        return self._predictor.predict_all(requests)

    def explain(self, request: ExplainRequest, most_numbers: int) -> Awaitable[ExplainAnswer]:
        """See `Explainer.explain`."""
        return Explainer(self.replica, self._environment, most_numbers).explain(request)

    def give_feedback(self, request: GivenFeedback) -> Awaitable[FeedbackAnswer]:
        """See `FeedbackJoiner.give`."""
        return self._feedback.give(request)

    def give_all(self, requests: Sequence[GivenFeedback]) -> Awaitable[list[FeedbackAnswer | Exception]]:
        """See `FeedbackJoiner.give_all`."""
        return self._feedback.give_all(requests)

    def activate(self, request: ActivateRequest) -> Awaitable[ActivateAnswer]:
        """See `service.rounds.activation.activate`."""
        return activate(self.model, self._environment, request)

    def note_rounds(self, newest: int) -> None:
        """See `Upkeep.note_rounds`."""
        self._upkeep.note_rounds(newest)

    def maintain(self) -> Awaitable[None]:
        """See `Upkeep.run`."""
        return self._upkeep.run()
