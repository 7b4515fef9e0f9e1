"""Evaluates models as feature flags, for clients of OpenFeature."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from service import request_context
from service.access.keys import Names
from service.choice.requests import NO_OPTIONS, PredictionRequest
from service.error_messages.values import shown
from service.errors import FeatureTypeError, InvalidInputError, MissingFieldError, ModelNotFoundError, WagerError
from service.json_values import JsonObject
from service.models.flags import value_of, why_no_flag
from service.models.model import Model
from service.rounds.sessions import ModelSession, SessionCache
from service.rounds.stickiness import stickiness
from service.schemas.ofrep import TARGETING_KEY, Evaluation, EvaluationMetadata
from service.schemas.rounds import PredictAnswer

MOST_FLAGS = 100  # maximum flags of a bulk evaluation

_KEY = TARGETING_KEY.rpartition(".")[2]
_SHOWN_LATER = NO_OPTIONS._replace(activated=False)


class EvaluationContext(NamedTuple):
    """The context of an evaluation, without its targeting key."""

    targeting_key: str | None
    attributes: JsonObject


def read_context(given: JsonObject) -> EvaluationContext:
    """Divide a context into its targeting key and its attributes.

    An empty key counts as missing. Raises `FeatureTypeError` if the key is neither a string nor null.
    """
    key = given.get(_KEY)
    if key is not None and not isinstance(key, str):
        raise FeatureTypeError(f"got {shown(key)}; must be a string", TARGETING_KEY)
    return EvaluationContext(key or None, {name: each for name, each in given.items() if name != _KEY})


class Flags:
    """Evaluates flags. The key of a flag is its model's name."""

    def __init__(self, sessions: SessionCache) -> None:
        self._sessions, self._environment = sessions, sessions.environment

    async def evaluate(self, key: str, context: EvaluationContext) -> Evaluation:
        """Return the value for a context, from a new prediction or from the one that is still sticky."""
        return await self._sessions.use(key, "key", lambda session: self._evaluate(session, context, bulk=False))

    async def evaluate_all(self, context: EvaluationContext, own: Names) -> list[tuple[str, Evaluation | WagerError]]:
        """Evaluate the first `MOST_FLAGS` bulk flags with names in `own`, in name order; return errors, not raise them.

        The predictions must be activated. If there are more flags, the next one has an error that says so.
        """
        found, after = list[tuple[str, Evaluation | WagerError]](), own.before
        while (wanted := MOST_FLAGS + 1 - len(found)) > 0 and not own.ended_by(after):
            names = await self._environment.store.list_flags(after, wanted)
            covered = [name for name in names if name in own]
            results = await asyncio.gather(*(self._bulk_result(name, context) for name in covered))
            found += [(name, each) for name, each in zip(covered, results, strict=True) if each is not None]
            if len(names) < wanted:
                break
            after = names[-1]
        request_context.note_model(None)
        return _limited(found)

    async def _bulk_result(self, name: str, context: EvaluationContext) -> Evaluation | WagerError | None:
        """Return a flag's evaluation or its error; None if the model is gone or is not evaluated in bulk."""
        try:
            return await self._sessions.use(name, "key", lambda session: self._if_bulk(session, context))
        except ModelNotFoundError:
            return None
        except WagerError as error:
            return error

    async def _if_bulk(self, session: ModelSession, context: EvaluationContext) -> Evaluation | None:
        if not session.model.definition.ofrep.bulk:  # perhaps it is since a change by another worker
            await session.replica.catch_up()
        if not session.model.definition.ofrep.bulk:
            return None
        evaluation = await self._evaluate(session, context, bulk=True)
        return evaluation if session.model.definition.ofrep.bulk else None

    async def _evaluate(self, session: ModelSession, context: EvaluationContext, *, bulk: bool) -> Evaluation:
        try:
            request = self._request(session.model, context, bulk)
        except InvalidInputError:  # another worker may have changed the model
            await session.replica.catch_up()
            request = self._request(session.model, context, bulk)
        answer = await session.predictor.predict(request)
        return _evaluation(session.model, answer)  # a model as new as the answer

    def _request(self, model: Model, context: EvaluationContext, bulk: bool) -> PredictionRequest:
        definition, sticky = model.definition, None
        if (reason := why_no_flag(definition, model.learner)) is not None:
            raise InvalidInputError(f"{reason}; ask it with POST /predict", "key")
        if definition.ofrep.sticky_seconds:
            if context.targeting_key is None:
                raise MissingFieldError(
                    "missing; send it, or set ofrep.sticky_seconds of the model to 0", TARGETING_KEY
                )
            sticky = stickiness(definition, context.targeting_key, self._environment.now())
        attributes = context.attributes if model.choice.contexts.has_features else {}  # all flags share them
        return PredictionRequest(attributes, None, False, _SHOWN_LATER if bulk else NO_OPTIONS, sticky=sticky)


def _evaluation(model: Model, answer: PredictAnswer) -> Evaluation:
    label, propensity = answer.label or "", answer.propensity or 0.0  # a flag's answer has both
    metadata = EvaluationMetadata(answer.prediction_id, propensity, answer.holdout)
    return Evaluation(model.name, value_of(model.definition, label), label, "SPLIT", metadata)


def _limited(found: Sequence[tuple[str, Evaluation | WagerError]]) -> list[tuple[str, Evaluation | WagerError]]:
    limited = list(found[:MOST_FLAGS])
    if len(found) > MOST_FLAGS:
        detail = (
            f"a bulk evaluation answers the first {MOST_FLAGS} flags in name order; this one and later ones are not"
        )
        limited.append((found[MOST_FLAGS][0], InvalidInputError(detail)))
    return limited
