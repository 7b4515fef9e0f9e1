"""`/models/{name}/clone`, `/export` and `/import`: copies of a model with its state."""

from collections.abc import AsyncIterator, Callable

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from service import errors, input_errors
from service.api.middleware.access import caller_id, check_new_model
from service.api.resources.lifecycle.arriving_files import ArrivingFiles
from service.api.resources.models import CreatedRoute, Name, created_headers
from service.api.responses.bodies import answer_with
from service.api.responses.problems import responses, wrong_media_type
from service.api.responses.strict_route import StrictRoute
from service.catalogue.descriptions import Described
from service.lifecycle.copying import Copying, Exported
from service.schemas.lifecycle import CloneRequest
from service.schemas.models import ModelAnswer

_CHUNK = 2**18
_LARGEST_FILES = 2
"""Number of the largest files for import that a worker's memory may hold."""

_BYTES = "application/octet-stream"
_FILE = {"schema": {"type": "string", "format": "binary"}}
_UNREADABLE = (errors.NewerVersionError, errors.StoreCorruptError)


def router(copying: Copying, most_bytes: int, now: Callable[[], float]) -> APIRouter:
    """Return the routes of copies.

    Args:
        copying: the use cases.
        most_bytes: maximum bytes of a file to import.
        now: returns seconds of a monotonic clock.
    """
    routes = APIRouter()
    routes.include_router(_clones(copying))
    routes.include_router(_export(copying))
    routes.include_router(_import(copying, ArrivingFiles(_LARGEST_FILES * most_bytes, now)))
    return routes


def _clones(copying: Copying) -> APIRouter:
    routes = APIRouter(prefix="/models/{name}", tags=["lifecycle"], route_class=CreatedRoute)

    @routes.post(
        "/clone",
        status_code=201,
        response_model=ModelAnswer,
        responses=responses(
            errors.ModelNotFoundError,
            errors.ModelExistsError,
            input_errors.TooManyChangesError,
            *_UNREADABLE,
            errors.StoreFullError,
        ),
    )
    async def clone_model(name: Name, request: CloneRequest) -> Described:
        """Create a model with the definition, the changes, the counts and the state of this one.

        Its log begins after the rounds that the state has seen. Open predictions and kept snapshots are not copied.
        """
        check_new_model(request.name)
        return await copying.clone(name, request.name, caller_id())

    return routes


def _export(copying: Copying) -> APIRouter:
    routes = APIRouter(prefix="/models/{name}", tags=["lifecycle"], route_class=StrictRoute)

    @routes.get(
        "/export",
        response_class=StreamingResponse,
        responses=responses(errors.ModelNotFoundError, *_UNREADABLE)
        | {200: {"description": "The file.", "content": {_BYTES: _FILE}}},
    )
    async def export_model(name: Name) -> StreamingResponse:
        """Return the model as a file: definition, changes, statistics and state, but no rounds.

        The file is safetensors with JSON, which docs/lifecycle.md describes.
        """
        exported = await copying.export(name)
        headers = {
            "Content-Disposition": f'attachment; filename="{name}.safetensors"',
            "Content-Length": str(len(exported.header) + len(exported.body)),
        }
        return StreamingResponse(_parts(exported), media_type=_BYTES, headers=headers)

    return routes


def _import(copying: Copying, files: ArrivingFiles) -> APIRouter:
    routes = APIRouter(prefix="/models/{name}", tags=["lifecycle"], route_class=StrictRoute)

    @routes.post(
        "/import",
        status_code=201,
        response_model=ModelAnswer,
        responses=responses(
            errors.ModelNotFoundError,  # if the key does not allow the name, as for every path with a name
            errors.ModelExistsError,
            input_errors.ModelFileError,
            input_errors.NewerFileError,
            input_errors.TooManyChangesError,
            input_errors.ModelTooLargeError,
            input_errors.ModelTooCostlyError,
            errors.StoreFullError,
        ),
        openapi_extra={"requestBody": {"required": True, "content": {_BYTES: _FILE}}},
    )
    async def import_model(name: Name, request: Request) -> object:
        """Create a model of this name from a file that `GET /models/{name}/export` returned.

        The body may have up to `WAGER_MAX_IMPORT_BYTES`.
        """
        check_new_model(name)
        _check_type(request)
        async with files.whole(caller_id(), request.stream()) as file:
            created = await copying.import_(name, file, caller_id())
        return await answer_with(request, created.answer, 201, created_headers(created))

    return routes


def _check_type(request: Request) -> None:
    """Refuse other media types: a page of another site could send them without a preflight request."""
    given = request.headers.get("content-type")
    if given is None or given.partition(";")[0].strip().lower() != _BYTES:
        raise wrong_media_type(request, f"the file with Content-Type {_BYTES}")


async def _parts(exported: Exported) -> AsyncIterator[bytes]:
    for whole in (memoryview(exported.header), exported.body):
        for start in range(0, len(whole), _CHUNK):
            yield bytes(whole[start : start + _CHUNK])
