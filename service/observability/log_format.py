"""Log formats: JSON lines, or text for a terminal."""

import logging
import sys
from typing import Any, Literal

import structlog

from service import request_context

LogFormat = Literal["auto", "json", "console"]


def configuration(log_format: LogFormat) -> dict[str, Any]:
    """Return a configuration for `logging.config.dictConfig`, in plain values that worker processes can receive.

    Everything is logged to standard error, one event per line, including exceptions.

    Args:
        log_format: "auto" means "console" if standard error is a terminal, else "json".
    """
    if log_format == "auto":
        log_format = "console" if sys.stderr.isatty() else "json"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"wager": {"()": f"service.observability.log_format.{log_format}_formatter"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "wager", "stream": "ext://sys.stderr"}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
    }


def json_formatter() -> logging.Formatter:
    """Return a formatter of JSON lines: time, level, logger, event, and the fields of the event."""
    return _formatter(structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str))


def console_formatter() -> logging.Formatter:
    """Return a formatter of aligned, coloured text, with Python's tracebacks."""
    plain = structlog.dev.plain_traceback
    return _formatter(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain))


def _formatter(*last: Any) -> logging.Formatter:
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _with_request,
    ]
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[remove_meta, *last])


def _with_request(_: Any, __: str, event: Any) -> Any:
    """Add the id of the current request; drop the coloured copy of the message that uvicorn adds."""
    event.pop("color_message", None)
    notes = request_context.current.get()
    if notes is not None:
        event.setdefault("request_id", notes.request_id)
    return event
