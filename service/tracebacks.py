"""Errors that outlive their handling, without the frames that their tracebacks keep alive."""

from typing import TypeVar

_Error = TypeVar("_Error", bound=Exception)


def without_traceback(error: _Error) -> _Error:
    """Remove the tracebacks of a handled error, and of the errors that led to it; return the error.

    A traceback refers to frames, and a frame often refers to the error: a cycle that keeps the whole request alive
    until a full garbage collection, which stops the worker for as long as there is much to free.
    """
    found: BaseException | None = error
    while found is not None:
        found.__traceback__ = None
        found = found.__cause__ or found.__context__
    return error
