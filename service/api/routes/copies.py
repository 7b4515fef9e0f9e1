"""`/models/{name}/clone`, `/export` and `/import`: copies of a model with its state."""

import asyncio
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable
from weakref import WeakValueDictionary

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from service import errors
from service.api.middleware.access import caller_id, check_new_model, own_quota
from service.api.responses.bodies import answer_with
from service.api.responses.problems import responses, wrong_media_type
from service.api.responses.routes import StrictRoute
from service.api.routes.models import CreatedRoute, Name, created_headers
from service.errors import OverloadedError
from service.lifecycle.copying import Copying
from service.registry.descriptions import Described
from service.schemas.lifecycle import CloneRequest
from service.schemas.models import ModelAnswer


class _File:
    """A file that is arriving, waiting or being imported. `owner` is the id of an API key; None if none is required."""

    def __init__(self, owner: str | None, begun_at: float) -> None:
        self.owner = owner
        self.begun_at = begun_at
        self.data = bytearray()
        self.is_whole = False

    def pace(self, now: float) -> float:
        """Return the bytes per second so far; infinity if whole. The added second keeps the pace of a new file low."""
        return math.inf if self.is_whole else len(self.data) / (now - self.begun_at + 1.0)


class ArrivingFiles:
    """The files to import that a worker has in memory: at most `most_bytes` in all. `now` is monotonic, in seconds."""

    def __init__(self, most_bytes: int, now: Callable[[], float]) -> None:
        self._most_bytes = most_bytes
        self._now = now
        self._bytes: Counter[str | None] = Counter()  # by owner
        self._waiting: dict[_File, None] = {}  # files whose import has not begun, oldest first
        # A lock for each owner, who may import only one file at a time.
        self._turns: WeakValueDictionary[str | None, asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def whole(self, owner: str | None, parts: AsyncIterator[bytes]) -> AsyncIterator[memoryview]:
        """Yield a file once it has arrived and no other file of its owner is being imported.

        Raises OverloadedError if the file was discarded to free memory for others.
        """
        file = _File(owner, self._now())
        self._waiting[file] = None
        try:
            async for part in parts:
                self._add(file, part)
            file.is_whole = True
            async with self._turns.setdefault(owner, asyncio.Lock()):
                self._check(file)
                del self._waiting[file]
                yield memoryview(file.data)
        finally:
            self._waiting.pop(file, None)
            self._release(file)

    def _add(self, file: _File, part: bytes) -> None:
        self._check(file)
        file.data += part
        self._bytes[file.owner] += len(part)
        while self._bytes.total() > self._most_bytes:
            lost = self._slowest()
            del self._waiting[lost]
            self._release(lost)
            lost.data.clear()  # its task may be waiting for a part that never comes
        self._check(file)

    def _slowest(self) -> _File:
        """Return the slowest file, to discard it.

        If possible, spare the files of owners with a small share of the bytes, and the fastest file of each owner.
        """
        now, least = self._now(), self._most_bytes / (2 * len(self._bytes))
        heavy = [file for file in self._waiting if self._bytes[file.owner] >= least] or list(self._waiting)
        by_pace = sorted(heavy, key=lambda file: file.pace(now))
        fastest = {file.owner: file for file in by_pace}
        others = [file for file in by_pace if file is not fastest[file.owner]]
        return (others or by_pace)[0]

    def _check(self, file: _File) -> None:
        if file not in self._waiting:
            raise OverloadedError(
                f"this worker has reached its limit of {self._most_bytes:,} bytes of files to import, and this file "
                "had to give way to others"
            )

    def _release(self, file: _File) -> None:
        self._bytes[file.owner] -= len(file.data)
        if not self._bytes[file.owner]:
            del self._bytes[file.owner]


_CHUNK = 2**18
_LARGEST_FILES = 2  # number of files of the largest allowed size that a worker may have in memory

_BYTES = "application/octet-stream"
_FILE = {"schema": {"type": "string", "format": "binary"}}


def router(copying: Copying, most_bytes: int, now: Callable[[], float]) -> APIRouter:
    """Return the routes of copies. A file to import has at most `most_bytes`; `now` is monotonic, in seconds."""
    clones = APIRouter(prefix="/models/{name}", tags=["lifecycle"], route_class=CreatedRoute)
    files = APIRouter(prefix="/models/{name}", tags=["lifecycle"], route_class=StrictRoute)
    _add_clone(clones, copying)
    _add_export(files, copying)
    _add_import(files, copying, ArrivingFiles(_LARGEST_FILES * most_bytes, now))
    routes = APIRouter()
    routes.include_router(clones)
    routes.include_router(files)
    return routes


def _add_clone(routes: APIRouter, copying: Copying) -> None:
    @routes.post(
        "/clone",
        status_code=201,
        response_model=ModelAnswer,
        responses=responses(
            *(errors.ModelExistsError, errors.TooManyModelsError, errors.TooManyChangesError),
            *(errors.LearnerNotReadyError, *errors.WRITING_ERRORS),
        ),
    )
    async def clone_model(name: Name, request: CloneRequest) -> Described:
        """Create a model with the definition, the changes, the counts and the state of this one.

        The log of the new model begins after the rounds that the state has seen. Open predictions, kept snapshots and
        shadows are not copied.
        """
        check_new_model(request.name)
        return await copying.clone(name, request.name, caller_id(), own_quota())


def _add_export(routes: APIRouter, copying: Copying) -> None:
    @routes.get(
        "/export",
        response_class=StreamingResponse,
        responses=responses(*errors.READING_ERRORS, errors.LearnerNotReadyError)
        | {200: {"description": "The file.", "content": {_BYTES: _FILE}}},
    )
    async def export_model(name: Name) -> StreamingResponse:
        """Return the model as a file: definition, changes, statistics, state and shadows, but no rounds.

        The file is in the safetensors format, and contains JSON; docs/guides/lifecycle.md describes it.
        """
        exported = await copying.export(name)
        headers = {
            "Content-Disposition": f'attachment; filename="{name}.safetensors"',
            "Content-Length": str(sum(map(len, exported))),
        }
        return StreamingResponse(_chunks(exported), media_type=_BYTES, headers=headers)


def _add_import(routes: APIRouter, copying: Copying, files: ArrivingFiles) -> None:
    @routes.post(
        "/import",
        status_code=201,
        response_model=ModelAnswer,
        responses=responses(
            errors.ModelNotFoundError,  # if the key does not allow the name, as for every path with a name
            *(errors.ModelExistsError, errors.ModelFileError, errors.NewerFileError, errors.TooManyChangesError),
            *(errors.ModelTooLargeError, errors.ModelTooCostlyError, errors.StoreFullError, errors.TooManyModelsError),
        ),
        openapi_extra={"requestBody": {"required": True, "content": {_BYTES: _FILE}}},
    )
    async def import_model(name: Name, request: Request) -> object:
        """Create a model of this name from a file that `GET /models/{name}/export` returned.

        The body may have up to `WAGER_MAX_IMPORT_BYTES` bytes.
        """
        check_new_model(name)
        # Pages of other sites can send some other media types without a preflight request.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _BYTES:
            raise wrong_media_type(request, f"the file with Content-Type {_BYTES}")
        async with files.whole(caller_id(), request.stream()) as file:
            created = await copying.import_(name, file, caller_id(), own_quota())
        return await answer_with(
            request, created.answer, 201, created_headers(created, request.scope.get("root_path", ""))
        )


async def _chunks(exported: tuple[bytes | memoryview, ...]) -> AsyncIterator[bytes]:
    for whole in exported:
        for start in range(0, len(whole), _CHUNK):
            yield bytes(memoryview(whole)[start : start + _CHUNK])
