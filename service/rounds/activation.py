"""Activation: lets a prediction take feedback once its answer is shown."""

from service.environment import Environment
from service.errors import WagerError
from service.models.model import Model
from service.rounds.feedback import REFUSALS
from service.schemas.rounds import ActivateAnswer, ActivateRequest
from service.store.base import FeedbackStatus
from service.wording.values import quoted


async def activate(model: Model, environment: Environment, request: ActivateRequest) -> ActivateAnswer:
    """Activate a prediction.

    Raises:
        WagerError: if it is unknown, expired or unreadable, or the store fails.
    """
    text = str(request.prediction_id)
    status = await environment.store.activate(request.prediction_id, model.key.incarnation, environment.now())
    if status is FeedbackStatus.RECORDED:
        return ActivateAnswer(text, "activated")
    if status is FeedbackStatus.DUPLICATE:
        return ActivateAnswer(text, "duplicate")
    error, detail, field = REFUSALS[status]
    refusal: WagerError = error(detail.format(id=quoted(text)), field)
    raise refusal
