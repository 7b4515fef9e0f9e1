"""The errors of the client. `wager_client.problem_types` defines a subclass for each type of problem."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

_TYPE_PREFIX = "urn:wager:problem:"
_RETRIED = frozenset({408, 429, 500, 502, 503, 504, 507})  # with these statuses, a service is away


class WagerError(Exception):
    """The base of the client's errors."""

    is_away: bool = False  # whether the service cannot answer now, but a later attempt may succeed
    maybe_done: bool = False  # whether the service may have executed the request


class NoAnswerError(WagerError):
    """The service did not answer."""

    is_away = True

    def __init__(self, message: str, *, maybe_done: bool = True) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


class DeadlineError(NoAnswerError, TimeoutError):
    """The service did not answer before the deadline of the call."""


class SpoolInUseError(WagerError, BlockingIOError):
    """Another queue uses the file of this feedback queue."""


class UnexpectedAnswerError(WagerError):
    """The client cannot read a successful answer, or the answer is for another prediction."""

    maybe_done = True


class ProblemError(WagerError):
    """The service, or a proxy, refused the request.

    Attributes:
        slug: the problem's type without the service's prefix, such as `model-not-found`; empty if the answer has none.
        status: the HTTP status.
        title: the kind of problem, for people.
        detail: what is wrong with this request, for people. If the body is not a JSON object, this is its beginning.
        field: the path of the invalid field, if any.
        errors: each invalid field, with `field` and `detail`.
        request_id: the id of the request in the service's log, if any.
        retry_after: seconds to wait before another attempt; None if the answer has no such number.
    """

    of_slug: ClassVar[dict[str, "type[ProblemError]"]] = {}

    def __init_subclass__(cls, slug: str = "", **options: object) -> None:
        super().__init_subclass__(**options)
        if slug:
            ProblemError.of_slug[slug] = cls

    def __init__(self, status: int, body: Mapping[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.slug = str(body.get("type", "")).removeprefix(_TYPE_PREFIX)
        self.title = str(body.get("title", ""))
        self.detail = str(body.get("detail", ""))
        self.field: str | None = body.get("field")
        self.errors: list[Mapping[str, Any]] = list(body.get("errors") or [])
        self.request_id: str | None = body.get("request_id")
        self.retry_after = retry_after
        self.is_away = status in _RETRIED
        self.maybe_done = status >= 500 and self.slug != "too-busy"  # a busy service has not begun to execute it
        super().__init__(f"{status} {self.slug or 'without a problem type'}: {self.detail or self.title}")


class BadRequestError(ProblemError):
    """The request is not well-formed: 400."""


class UnauthenticatedError(ProblemError):
    """The API key is missing or invalid: 401."""


class ForbiddenError(ProblemError):
    """The API key does not allow the request: 403."""


class NotFoundError(ProblemError):
    """The model or the prediction does not exist: 404."""


class ConflictError(ProblemError):
    """The request contradicts stored data: 409."""


class PreconditionError(ProblemError):
    """The request for a change does not name the current version of the model: 412 or 428."""


class InvalidInputError(ProblemError):
    """A value of the request is invalid: 422. `field` names it."""


class TooManyRequestsError(ProblemError):
    """The key or the address has sent too many requests, or the model has no room for open predictions: 429."""


class ServerError(ProblemError):
    """The service failed: 500 and above."""


class UnavailableError(ServerError):
    """The service, or its store, is unavailable: 503."""


_OF_STATUS: dict[int, type[ProblemError]] = {
    400: BadRequestError,
    401: UnauthenticatedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    412: PreconditionError,
    422: InvalidInputError,
    428: PreconditionError,
    429: TooManyRequestsError,
    503: UnavailableError,
}


def class_of_status(status: int) -> type[ProblemError]:
    """Return the error class of a status."""
    return _OF_STATUS.get(status, ServerError if status >= 500 else ProblemError)


def problem_of(status: int, body: Mapping[str, Any], retry_after: float | None = None) -> ProblemError:
    """Convert a problem's body to an error. Its class is that of the problem's type or, if unknown, of the status."""
    slug = str(body.get("type", "")).removeprefix(_TYPE_PREFIX)
    return ProblemError.of_slug.get(slug, class_of_status(status))(status, body, retry_after)


def problem_of_answer(status: int, headers: Mapping[str, str], content: bytes) -> ProblemError:
    """Convert an unsuccessful answer, perhaps from a proxy, to an error. Header names are in lower case."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {"detail": content[:200].decode(errors="replace")}
    wait = headers.get("retry-after", "")  # seconds, or a date
    return problem_of(status, body, float(wait) if wait.isascii() and wait.isdecimal() else None)
