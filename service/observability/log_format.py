"""Log formats: JSON lines, or text for a terminal."""

import io
import logging
import sys
from typing import Any, Literal, TextIO

import structlog

from service import request_context
from service.json_values import JsonObject

LogFormat = Literal["auto", "json", "console"]

_MOST_CHARACTERS = 4000  # longer texts of an event are cut; tracebacks are not


def configuration(log_format: LogFormat) -> JsonObject:
    """Return a picklable configuration for `logging.config.dictConfig`: one event per line on standard error.

    In the console format, an event may be followed by an indented traceback.
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
    """Return a formatter of aligned text, coloured on a terminal, with Python's tracebacks."""
    return _formatter(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_write_traceback))


def _formatter(*last: Any) -> logging.Formatter:
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        _with_request,
    ]
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[remove_meta, _plain, *last])


def _plain(_: Any, __: str, event: Any) -> Any:
    """Escape line breaks and control characters, and shorten long texts: clients choose parts of the texts."""
    return {name: _printable(value) if isinstance(value, str) else value for name, value in event.items()}


def _printable(text: str) -> str:
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}… ({len(text)} characters)"
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _write_traceback(to: TextIO, error: Any) -> None:
    """Write a traceback with every line indented, so that no error message looks like another event."""
    written = io.StringIO()
    structlog.dev.plain_traceback(written, error)
    to.write("\n  ".join(map(_printable, written.getvalue().split("\n"))))


def _with_request(_: Any, __: str, event: Any) -> Any:
    """Add the id of the current request; drop the coloured copy of the message that uvicorn adds."""
    event.pop("color_message", None)
    notes = request_context.current.get()
    if notes is not None:
        event.setdefault("request_id", notes.request_id)
    return event
