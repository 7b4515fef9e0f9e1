"""Answers requests that fail unexpectedly, and those that the worker no longer waits for."""

import asyncio
import logging

from starlette.types import ASGIApp, Receive, Scope, Send

from service import request_context
from service.api.responses.problems import answer_to, internal_error
from service.errors import StoppingError

_log = logging.getLogger(__name__)


class Failures:
    """Middleware that answers with a problem if a response has not begun."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See `ASGIApp`."""
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:  # the server is stopping and no longer waits
            if _has_begun():
                raise
            stopping = answer_to(StoppingError("this worker stopped before it could answer"))
            await stopping(scope, receive, send)
        except Exception as error:
            if not _has_begun():
                _log.error("unexpected error", exc_info=error)
                await internal_error()(scope, receive, send)
            raise


def _has_begun() -> bool:
    notes = request_context.current.get()
    return notes is None or bool(notes.status)
