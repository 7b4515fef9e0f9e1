"""`/models/{name}/snapshots`, `/rollback`, `/reset`, `/shadows`, `/promote`: keep or replace a model's state."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from service import errors
from service.api.middleware.access import caller_id
from service.api.responses.problems import responses
from service.api.responses.routes import StrictRoute
from service.api.routes.models import IfMatch, Name, answer_described, versions_in
from service.error_messages.patterns import NAME
from service.lifecycle.promoting import Promoting
from service.lifecycle.replacing import Replacing
from service.lifecycle.snapshots import Snapshots
from service.lifecycle.use_cases import Lifecycle
from service.schemas import lifecycle as schemas
from service.schemas.models import ModelAnswer
from service.shadows.use_cases import Shadows

ShadowName = Annotated[str, Path(pattern=NAME, description="The shadow's name; the rules for model names apply.")]
SnapshotName = Annotated[str, Path(pattern=NAME, description="The id of a kept snapshot.")]


def router(lifecycle: Lifecycle) -> APIRouter:
    """Return the routes of kept snapshots, rollback and reset."""
    routes = APIRouter(prefix="/models/{name}", tags=["lifecycle"], route_class=StrictRoute)
    _add_snapshots(routes, lifecycle.snapshots)
    _add_changes(routes, lifecycle.replacing)
    return routes


def _add_snapshots(routes: APIRouter, snapshots: Snapshots) -> None:
    @routes.get("/snapshots", responses=responses(*errors.READING_ERRORS))
    async def list_snapshots(name: Name) -> schemas.SnapshotList:
        """List the kept snapshots of a model, the oldest first."""
        return await snapshots.list(name)

    @routes.post(
        "/snapshots",
        status_code=201,
        responses=responses(
            *(errors.SnapshotExistsError, errors.TooManySnapshotsError, errors.LearnerNotReadyError),
            *errors.WRITING_ERRORS,
        ),
    )
    async def take_snapshot(name: Name, request: schemas.SnapshotRequest) -> schemas.SnapshotAnswer:
        """Keep the model's current state, which includes every acknowledged round, to return to it later.

        A kept snapshot never changes, and stays until it is deleted. Repeating the request returns the same snapshot.
        """
        return await snapshots.take(name, request, caller_id())

    @routes.delete(
        "/snapshots/{snapshot}",
        status_code=204,
        responses=responses(errors.SnapshotNotFoundError, errors.SnapshotNeededError, *errors.READING_ERRORS),
    )
    async def delete_snapshot(name: Name, snapshot: SnapshotName) -> None:
        """Delete a kept snapshot, unless the log still has a rollback or a promotion that continues from it."""
        await snapshots.drop(name, snapshot)


def _add_changes(routes: APIRouter, replacing: Replacing) -> None:
    @routes.post(
        "/rollback",
        response_model=ModelAnswer,
        responses=responses(errors.SnapshotNotFoundError, errors.ModelTooLargeError, *errors.CHANGE_ERRORS),
    )
    async def roll_back(
        name: Name, body: schemas.RollbackRequest, request: Request, if_match: IfMatch = None
    ) -> Response:
        """Continue from the state of a kept snapshot: forget what the model has learned since.

        Labels and policies stay as they are; the log and the statistics continue. Labels that were added after the
        snapshot begin anew. Repeating the last change with the same `If-Match`, for example after a lost response,
        returns its result.
        """
        versions = versions_in(if_match)
        return await answer_described(request, await replacing.roll_back(name, body.snapshot, versions, caller_id()))

    @routes.post("/reset", response_model=ModelAnswer, responses=responses(*errors.CHANGE_ERRORS))
    async def reset(name: Name, body: schemas.ResetRequest, request: Request, if_match: IfMatch = None) -> Response:
        """Continue from the learner's initial state: forget everything that the model has learned.

        Labels and policies stay as they are; the log and the statistics continue. Repeating the last change with the
        same `If-Match`, for example after a lost response, returns its result.
        """
        return await answer_described(request, await replacing.reset(name, versions_in(if_match), caller_id()))


def shadows_router(shadows: Shadows, promoting: Promoting) -> APIRouter:
    """Return the routes of shadows."""
    routes = APIRouter(prefix="/models/{name}", tags=["shadows"], route_class=StrictRoute)
    _add_shadows(routes, shadows)
    _add_shadow_changes(routes, shadows)
    _add_promotion(routes, promoting)
    return routes


def _add_promotion(routes: APIRouter, promoting: Promoting) -> None:
    @routes.post(
        "/promote",
        response_model=ModelAnswer,
        responses=responses(
            *(errors.ShadowNotFoundError, errors.TooManySnapshotsError, errors.ShadowLagsError),
            errors.LearnerNotReadyError,
            *(*errors.CHANGE_ERRORS, *errors.FIT_ERRORS),
        ),
    )
    async def promote(name: Name, body: schemas.PromoteRequest, request: Request, if_match: IfMatch = None) -> Response:
        """Continue with the learner and the state of a shadow, and remove the shadow.

        Predictions and feedback continue. The new state is that of the shadow after all rounds before the change.
        Repeating the last change with the same `If-Match`, for example after a lost response, returns its result.

        If the shadow lags too much, the answer is 409 `shadow-lags`: repeat the request when its `lag` is small.
        """
        described = await promoting.promote(name, body.shadow, versions_in(if_match), caller_id())
        return await answer_described(request, described)


def _add_shadows(routes: APIRouter, shadows: Shadows) -> None:
    @routes.get("/shadows", responses=responses(*errors.READING_ERRORS))
    async def list_shadows(name: Name) -> schemas.ShadowList:
        """List the shadows of a model, each with its comparison with what the model answered."""
        return schemas.ShadowList(shadows=await shadows.all(name))

    @routes.get("/shadows/{shadow}", responses=responses(*errors.READING_ERRORS, errors.ShadowNotFoundError))
    async def get_shadow(name: Name, shadow: ShadowName) -> schemas.ShadowAnswer:
        """Return a shadow and its comparison with what the model answered."""
        return await shadows.get(name, shadow)


def _add_shadow_changes(routes: APIRouter, shadows: Shadows) -> None:
    @routes.put(
        "/shadows/{shadow}",
        responses=responses(
            *(errors.ShadowLearnerError, errors.TooManyShadowsError, *errors.WRITING_ERRORS, *errors.LEARNER_ERRORS)
        ),
    )
    async def put_shadow(name: Name, shadow: ShadowName, body: schemas.ShadowRequest) -> schemas.ShadowAnswer:
        """Add a shadow, which learns from the model's rounds without answering, or replace the shadow's learner.

        A shadow begins with the oldest round of the log. Repeating the request changes nothing; another learner begins
        anew.
        """
        return await shadows.put(name, shadow, body.learner, caller_id())

    @routes.delete(
        "/shadows/{shadow}", status_code=204, responses=responses(*errors.READING_ERRORS, errors.ShadowNotFoundError)
    )
    async def delete_shadow(name: Name, shadow: ShadowName) -> None:
        """Remove a shadow and what it has learned."""
        await shadows.drop(name, shadow)
