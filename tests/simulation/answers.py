"""What must be true of the answer to a request for a prediction."""

from typing import NamedTuple

from service.prediction_id import PredictionId
from service.schemas.ofrep import Evaluation
from tests.simulation.histories import Since
from tests.simulation.log_rounds import Asked, Stored, ViolationError
from tests.simulation.truth import Truth


class Said(NamedTuple):
    """What an answer says."""

    id: PredictionId
    label: str | None
    propensity: float | None
    context: Asked  # of its request


def said_by(evaluation: Evaluation, context: Asked) -> Said:
    """Return what an evaluation says about a context."""
    said = evaluation.metadata
    return Said(PredictionId.parse(said.predictionId), evaluation.variant, said.propensity, context)


def stored_answer(truth: Truth, since: Since, said: Said) -> Stored | None:
    """Return what is stored as an answer, or was at some moment since its request arrived; None after a loss.

    Raises:
        ViolationError: if nothing such was stored.
    """
    if since.losses < truth.losses:
        return None
    stored = truth.histories.stored_since((said.id.block, said.id.token), since.moment)
    for each in stored:
        if said[1:] == (each.label, each.propensity, each.context):
            return each
    raise ViolationError(f"{said} is answered, and stored as {stored}")


def check_evaluation(truth: Truth, since: Since, said: Said) -> None:
    """Check that an evaluation is stored, and not older than the model was when its request arrived.

    Raises:
        ViolationError: if not.
    """
    stored = stored_answer(truth, since, said)
    if stored is not None and stored.changes_seen < since.changes:
        raise ViolationError(f"{said.id} has seen {stored.changes_seen} changes, there were {since.changes}")
