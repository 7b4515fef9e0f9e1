"""Calls a running service, and reads its logs page by page."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import httpx2
import typer

from service.error_messages.patterns import NAME
from service.error_messages.values import quoted
from service.json_values import JsonObject
from toolkit import ToolError

Url = Annotated[str, typer.Option(envvar="WAGER_BASE_URL", help="URL of the service.")]
Key = Annotated[str | None, typer.Option(envvar="WAGER_API_KEY", help="API key, if the service needs one.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

DEFAULT_URL = "http://127.0.0.1:8000"

PAGE = 2_000
"""Maximum rounds per request."""

_CHANGES = 1_000  # maximum per request
_TIMEOUT_SECONDS = 60.0


class RemoteError(ToolError):
    """The service did not answer, or refused a request.

    Attributes:
        status: the HTTP status; None if there was no answer.
        type: the last part of the problem's type, such as `model-not-found`; "" if there is none.
        field: the first invalid field of the request, if any.
    """

    def __init__(self, message: str, status: int | None = None, type_: str = "", field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.type = type_
        self.field = field


@contextlib.contextmanager
def answered(url: object) -> Iterator[None]:
    """Raise `RemoteError` if httpx2 cannot send a request or receives no answer."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        raise RemoteError(f"{url}: {error or type(error).__name__}") from error


def key_header(key: str | None) -> dict[str, str]:
    """Return the header with an API key; no header without a key.

    Raises:
        RemoteError: if a header cannot contain the key. The message does not contain the key.
    """
    if not key:
        return {}
    if not key.isascii() or not key.isprintable():
        raise RemoteError("the API key must consist of printable ASCII characters")
    return {"Authorization": f"Bearer {key}"}


def connect(url: str, key: str | None) -> httpx2.Client:
    """Return a client of the service at a URL. Raises `RemoteError` if the URL or the key is invalid."""
    with answered(url):
        return httpx2.Client(base_url=url, headers=key_header(key), timeout=_TIMEOUT_SECONDS)


def path_of(model: str) -> str:
    """Return the path of a model. Raises `RemoteError` if the name is invalid."""
    if not re.fullmatch(NAME, model):
        raise RemoteError(f"there is no model {quoted(model)}")
    return f"/models/{model}"


def call(client: httpx2.Client, method: str, path: str, **options: Any) -> httpx2.Response:
    """Return the successful answer to a request; `options` are those of `httpx2.Client.request`.

    Raises:
        RemoteError: if the service does not answer, or answers with a problem.
    """
    with answered(client.base_url):
        answer = client.request(method, path, **options)
    if not answer.is_success:
        raise _refused(answer)
    return answer


def download(client: httpx2.Client, path: str) -> Iterator[bytes]:
    """Yield the body of a successful answer in chunks. Raises as `call` does."""
    with answered(client.base_url), client.stream("GET", path) as answer:
        if not answer.is_success:
            answer.read()
            raise _refused(answer)
        yield from answer.iter_bytes()


def _refused(answer: httpx2.Response) -> RemoteError:
    try:
        problem = answer.json()
        text = f"{problem['title']}: {problem['detail']}"
        return RemoteError(text, answer.status_code, str(problem["type"]).rpartition(":")[2], problem.get("field"))
    except (ValueError, KeyError, TypeError):
        return RemoteError(f"HTTP {answer.status_code}: {answer.text[:200]}", answer.status_code)


def changes(client: httpx2.Client, model: str, after: int) -> JsonObject:
    """Return the answer of `GET /models/{name}/changes` for the changes after change `after`."""
    query = {"after": after, "limit": _CHANGES}
    found: JsonObject = call(client, "GET", f"{path_of(model)}/changes", params=query).json()
    return found


def rounds(client: httpx2.Client, model: str, after: int, limit: int) -> list[JsonObject]:
    """Return up to `limit` lines of a log after round `after`."""
    text = call(client, "GET", f"{path_of(model)}/rounds", params={"after": after, "limit": limit}).text
    return [json.loads(line) for line in text.split("\n") if line]


def pages(
    client: httpx2.Client, model: str, after: int, limit: int | None, wait: Callable[[], bool]
) -> Iterator[list[JsonObject]]:
    """Yield the lines of a log in pages, at most `limit` lines.

    At the end of the log, `wait` is called, and returns whether to look for further rounds. A request that finds no
    rounds yields an empty page.
    """
    left = limit
    while left is None or left > 0:
        most = PAGE if left is None else min(PAGE, left)
        lines = rounds(client, model, after, most)
        if lines:
            after, left = lines[-1]["round"], None if left is None else left - len(lines)
            yield lines
        if len(lines) < most:
            if not lines:
                yield []
            if not wait():
                return


def pages_until(
    client: httpx2.Client, model: str, after: int, until: int, limit: int | None = None
) -> Iterator[list[JsonObject]]:
    """Yield the lines of a log after round `after`, up to round `until`, in pages."""
    most = until - after  # a log may lack rounds, but never has more
    for lines in pages(client, model, after, most if limit is None else min(most, limit), lambda: False):
        wanted = [line for line in lines if line["round"] <= until]
        if wanted:
            yield wanted
        if len(wanted) < len(lines):
            return
