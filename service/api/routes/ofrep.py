"""The OpenFeature Remote Evaluation Protocol (OFREP): evaluations of one flag, and of all bulk flags."""

import hashlib
import re
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path
from starlette.types import Receive, Scope, Send

from service import errors
from service.api.middleware.access import check_model, check_room, own_names
from service.api.responses.bodies import send_body
from service.api.responses.evaluation_failures import EVALUATIONS, failure_of
from service.api.responses.problems import problem_of, responses
from service.api.responses.routes import JsonRoute
from service.error_messages.patterns import NAME
from service.error_messages.values import quoted
from service.rounds.flags import Flags, read_context
from service.schemas.ofrep import BulkEvaluation, Evaluation, EvaluationFailure, EvaluationRequest

_ERRORS = responses(
    *(*errors.WRITING_ERRORS, *errors.CONTEXT_ERRORS, errors.LearnerFailedError, errors.LearnerNotReadyError),
    errors.OpenPredictionsFullError,
)
_Key = Annotated[str, Path(description="The flag: the name of a model.")]
_is_name = re.compile(NAME).fullmatch


class _Route(JsonRoute):
    """A route of the protocol, which ignores the query: its clients may send parameters of later versions."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].endswith("\n"):  # the pattern of the path ends before it
            raise HTTPException(404)
        await super().handle({**scope, "query_string": b""}, receive, send)


class _TaggedRoute(_Route):
    """A route whose response has an ETag, which a repeated request may name to get 304 while it is the same."""

    async def send(self, scope: Scope, send: Send, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        tag = b'"%s"' % hashlib.blake2b(body, digest_size=16).hexdigest().encode()
        given = b",".join([value for name, value in scope["headers"] if name == b"if-none-match"])
        if tag not in {each.strip().removeprefix(b"W/") for each in given.split(b",")}:
            return await super().send(scope, send, [*headers, (b"etag", tag)], body)
        await send({"type": "http.response.start", "status": 304, "headers": [(b"etag", tag)]})
        return await send_body(send, b"")


_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "description": "The ETag of an earlier response.",
    "schema": {"type": "string"},
}


def router(flags: Flags) -> APIRouter:
    """Return the route that evaluates one flag."""
    routes = APIRouter(tags=["flags"], route_class=_Route)

    @routes.post(EVALUATIONS + "/{key:path}", responses=_ERRORS)  # a key may contain slashes
    async def evaluate_flag(key: _Key, request: EvaluationRequest) -> Evaluation:
        """Evaluate a model as a feature flag, for an OpenFeature client: draw a label, and return its value.

        The prediction is stored as one of `POST /predict`. Repeated evaluations within `ofrep.sticky_seconds` return
        it again.
        """
        if not _is_name(key):
            raise errors.ModelNotFoundError(f"there is no model {quoted(key)}", "key")
        check_model(key, "key")
        check_room()
        return await flags.evaluate(key, read_context(request.context))

    return routes


def bulk_router(flags: Flags) -> APIRouter:
    """Return the route that evaluates all bulk flags."""
    routes = APIRouter(tags=["flags"], route_class=_TaggedRoute)

    @routes.post(
        EVALUATIONS,
        responses=_ERRORS | {304: {"description": "The flags are those with the ETag in `If-None-Match`."}},
        openapi_extra={"parameters": [_IF_NONE_MATCH]},
    )
    async def evaluate_flags(request: EvaluationRequest) -> BulkEvaluation:
        """Evaluate every model with `ofrep.bulk` that the API key allows, for a browser that shows the values later.

        Each prediction takes feedback after `POST /activate`, which says that its value was shown.
        """
        check_room()
        found = await flags.evaluate_all(read_context(request.context), own_names())
        return BulkEvaluation([_entry(key, result) for key, result in found])

    return routes


def _entry(key: str, result: Evaluation | errors.WagerError) -> Evaluation | EvaluationFailure:
    return failure_of(problem_of(result), key) if isinstance(result, errors.WagerError) else result
