"""`/models/{name}/shadows`: add, list, read, remove."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from service import errors
from service.api.middleware.access import caller_id
from service.api.responses.problems import responses
from service.api.responses.routes import StrictRoute
from service.api.routes.models import IfMatch, Name, answer_described, versions_in
from service.error_messages.patterns import NAME
from service.lifecycle.promoting import Promoting
from service.schemas.lifecycle import PromoteRequest, ShadowAnswer, ShadowList, ShadowRequest
from service.schemas.models import ModelAnswer
from service.shadows.use_cases import Shadows

ShadowName = Annotated[str, Path(pattern=NAME, description="The shadow's name, as that of a model.")]


def router(shadows: Shadows, promoting: Promoting) -> APIRouter:
    """Return the routes of shadows."""
    routes = APIRouter(prefix="/models/{name}", tags=["shadows"], route_class=StrictRoute)
    _add_reading(routes, shadows)
    _add_changes(routes, shadows)
    _add_promotion(routes, promoting)
    return routes


def _add_promotion(routes: APIRouter, promoting: Promoting) -> None:
    @routes.post(
        "/promote",
        response_model=ModelAnswer,
        responses=responses(
            *(errors.ShadowNotFoundError, errors.TooManySnapshotsError, errors.ShadowLagsError),
            *errors.CHANGE_ERRORS,
            *errors.POLICY_ERRORS,
            *errors.SIZE_ERRORS,
        ),
    )
    async def promote(name: Name, body: PromoteRequest, request: Request, if_match: IfMatch = None) -> Response:
        """Let a model continue with the learner and the state of a shadow, which ends.

        Predictions and feedback go on. The state is that of the shadow after every round before the change. Repeating
        the last change with the same `If-Match`, as after a lost answer, returns its result.

        A shadow that lags too much is refused with 409 `shadow-lags`: repeat the request when its `lag` is small.
        """
        described = await promoting.promote(name, body.shadow, versions_in(if_match), caller_id())
        return await answer_described(request, described)


def _add_reading(routes: APIRouter, shadows: Shadows) -> None:
    @routes.get("/shadows", responses=responses(*errors.READING_ERRORS))
    async def list_shadows(name: Name) -> ShadowList:
        """List the shadows of a model, each with its comparison with what the model answered."""
        return ShadowList(shadows=await shadows.all(name))

    @routes.get("/shadows/{shadow}", responses=responses(*errors.READING_ERRORS, errors.ShadowNotFoundError))
    async def get_shadow(name: Name, shadow: ShadowName) -> ShadowAnswer:
        """Return a shadow and its comparison with what the model answered."""
        return await shadows.get(name, shadow)


def _add_changes(routes: APIRouter, shadows: Shadows) -> None:
    @routes.put(
        "/shadows/{shadow}",
        responses=responses(
            *(errors.ShadowLearnerError, errors.TooManyShadowsError),
            *errors.WRITING_ERRORS,
            *errors.LEARNER_ERRORS,
            *errors.POLICY_ERRORS,
            *errors.SIZE_ERRORS,
        ),
    )
    async def put_shadow(name: Name, shadow: ShadowName, body: ShadowRequest) -> ShadowAnswer:
        """Give a model a shadow: a learner that learns from the same rounds, without answering.

        It begins with the oldest round of the log. Repeating the request changes nothing; another learner begins anew.
        """
        return await shadows.put(name, shadow, body.learner, caller_id())

    @routes.delete(
        "/shadows/{shadow}", status_code=204, responses=responses(*errors.READING_ERRORS, errors.ShadowNotFoundError)
    )
    async def delete_shadow(name: Name, shadow: ShadowName) -> None:
        """Remove a shadow and what it has learned."""
        await shadows.drop(name, shadow)
