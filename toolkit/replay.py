"""The command `wager replay`: sends rounds to a running service, each exactly once."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import httpx2
import typer

from service.commands.options import EXIT_INTERRUPTED, fail
from toolkit.files.rows import Row
from toolkit.remote import DEFAULT_URL, Key, RemoteError, Url, call

_REQUEST_BYTES = 2**20
"""Bytes of a request, about; the service accepts at least four times as many."""

_WAITS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between the attempts to send a request."""

_LATER = frozenset({429, 500, 502, 503, 504})
"""Statuses after which a request may succeed."""


class SendingError(Exception):
    """A round was refused, or the service is away; the message is for the user."""


class Sender:
    """Imports the rounds of one source.

    Args:
        client: calls the service.
        model: the name of the model.
        source: the identity of the rounds.
        pause: waits for some seconds.

    Attributes:
        imported: the number of rounds that were new to the model.
        place: the number of rounds of the source that are known to be in the model; None before the service says it.
    """

    def __init__(self, client: httpx2.Client, model: str, source: str, pause: Callable[[float], None]) -> None:
        self._client, self._path, self._source, self._pause = client, f"/models/{model}", source, pause
        self.imported = 0
        self.place: int | None = None

    def position(self) -> int:
        """Return the number of rounds imported so far."""
        imports = self._retried("GET", f"{self._path}/imports").json()["imports"]
        self.place = next((int(each["position"]) for each in imports if each["source"] == self._source), 0)
        return self.place

    def send(self, rows: Iterator[Row], position: int, batch: int, progress: Callable[[int], None]) -> None:
        """Import the rows from a position on, and count them. Other clients may import the same at the same time."""
        for part in _parts(rows, batch):
            body = {"source": self._source, "offset": position, "rounds": [row.round for row in part]}
            answer = self._import(body, part, position)
            self.imported += answer["imported"]
            self.place = max(self.place or 0, answer["position"])
            position += len(part)
            progress(len(part))

    def _import(self, body: dict[str, Any], part: Sequence[Row], position: int) -> dict[str, Any]:
        content = json.dumps(body, separators=(",", ":")).encode()
        try:
            answer: dict[str, Any] = self._retried("POST", f"{self._path}/rounds", content=content).json()
            return answer
        except RemoteError as error:
            raise SendingError(self._explained(error, part, position)) from error

    def _explained(self, error: RemoteError, part: Sequence[Row], position: int) -> str:
        """Return the error with the place in the file of the round that it names."""
        match = (error.field or "").split(".")
        row = part[int(match[1])] if match[0] == "rounds" and len(match) > 1 else None
        place = f"{row.path}: {row.place}: " if row else ""
        return f"{place}{error}; {position:,} rounds of source {self._source} are imported"

    def _retried(self, method: str, path: str, **options: Any) -> httpx2.Response:
        headers = {"content-type": "application/json"}
        for seconds in _WAITS:
            try:
                return call(self._client, method, path, headers=headers, **options)
            except RemoteError as error:
                if error.status is not None and error.status not in _LATER:
                    raise
            self._pause(seconds)
        return call(self._client, method, path, headers=headers, **options)


def _parts(rows: Iterator[Row], batch: int) -> Iterator[list[Row]]:
    """Yield consecutive rows that fit into one request."""
    part, size = list[Row](), 0
    for row in rows:
        each = _size(row.round)
        if part and (len(part) == batch or size + each > _REQUEST_BYTES):
            yield part
            part, size = [], 0
        part.append(row)
        size += each
    if part:
        yield part


def _size(given: dict[str, Any]) -> int:
    """Estimate the bytes of a round in JSON."""
    context = given.get("context") or ()
    if "actions" in given or isinstance(context, dict):
        return len(json.dumps(given))
    return 100 + 20 * len(context)


if TYPE_CHECKING:
    import httpx2

    from toolkit.files.readers import Reader
    from toolkit.files.rows import Row, Shape


class Replay(NamedTuple):
    """What to import, and where."""

    path: Path
    reader: "Reader"
    model: str
    source: str
    limit: int | None
    batch: int
    create: bool
    learner: str | None
    dry_run: bool


def replay(  # noqa: PLR0913, PLR0917 - the options of a command are its parameters
    file: Annotated[Path, typer.Argument(help="dsjson, CSV, NDJSON or Parquet, or a folder of Parquet parts.")],
    model: Annotated[str, typer.Option(help="Name of the model.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    format_: Annotated[str | None, typer.Option("--format", help="dsjson, csv, parquet or ndjson.")] = None,
    create: Annotated[bool, typer.Option(help="Create the model, with labels and features as in the file.")] = False,
    learner: Annotated[str | None, typer.Option(help="With --create: the name of its learner.")] = None,
    label_column: Annotated[str | None, typer.Option(help="The label; without propensities, the true label.")] = None,
    propensity_column: Annotated[str | None, typer.Option(help="The probability of the label.")] = None,
    reward_column: Annotated[str | None, typer.Option(help="The reward, from 0 to 1.")] = None,
    feature_columns: Annotated[str | None, typer.Option(help="The features, separated by commas.")] = None,
    feature_prefix: Annotated[str | None, typer.Option(help="What the names of the features begin with.")] = None,
    text_columns: Annotated[str | None, typer.Option(help="Features that are texts though they are digits.")] = None,
    costs: Annotated[str, typer.Option(help="dsjson: negate (reward = -cost) or complement (1 - cost).")] = "negate",
    action_id: Annotated[str | None, typer.Option(help="dsjson: the feature of an action that is its id.")] = None,
    source: Annotated[str | None, typer.Option(help="The identity of the rounds; by default a digest.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Maximum rounds in a request.")] = 500,
    limit: Annotated[int | None, typer.Option(min=0, help="Only the first rounds of the file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file, and send nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Import the rounds of a file into a model, each exactly once. Repeat the command to continue an interrupted one.

    Rounds with a propensity are learned as logged. Of fully labelled ones, the model draws the label itself.
    """
    from toolkit.files.columns import Chosen
    from toolkit.files.lines import FileError, digest_of
    from toolkit.files.parquet import parts_of
    from toolkit.files.readers import open_reader

    features, text = (tuple(each.split(",")) if each else () for each in (feature_columns, text_columns))
    chosen = Chosen(label_column, propensity_column, reward_column, features, feature_prefix, text)
    rule: Literal["negate", "complement"] = "complement" if costs == "complement" else "negate"
    if costs not in {"negate", "complement"}:
        fail(f"--costs: got {costs!r}; must be negate or complement")
    try:
        reader = open_reader(file, format_, chosen, rule, action_id)
        digests = [digest_of(part, chosen, rule, action_id) for part in parts_of(file)] if source is None else []
        name = source or (digests[0] if len(digests) == 1 else digest_of(parts_of(file)[0], digests))
        result = _run(Replay(file, reader, model, name, limit, batch, create, learner, dry_run), url, api_key)
    except FileError as error:
        fail(str(error))
    typer.echo(json.dumps(result) if as_json else _sentence(result))


def _run(wanted: Replay, url: str, api_key: str | None) -> dict[str, Any]:
    """Check the whole file, then import what is missing; end the command if the service refuses, or if interrupted."""
    from toolkit.files.rows import shape_of
    from toolkit.remote import RemoteError, connect

    place: int | None = None
    try:
        with connect(url, api_key) as client:
            sender = Sender(client, wanted.model, wanted.source, time.sleep)
            try:
                asked, definition = _definition(client, wanted)
                shape = shape_of(definition)
                checked = _checked_rows(wanted, shape)
                found = {"model": wanted.model, "source": wanted.source, "rounds": checked}
                result = found | {"skipped": wanted.reader.skipped}
                if wanted.dry_run:
                    return result | {"dry_run": True, "first": next(iter(wanted.reader.rows(shape))).round}
                if asked is not None:  # after the check: a file with a mistake changes nothing
                    _create(client, asked, shape)
                return result | _sent(sender, wanted, shape, checked)
            finally:
                place = sender.place
    except (RemoteError, SendingError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        done = "nothing was sent" if place is None else f"{place:,} rounds of source {wanted.source} are imported"
        fail(f"interrupted: {done}; repeat the command to continue", EXIT_INTERRUPTED)


def _sent(sender: "Sender", wanted: Replay, shape: "Shape", checked: int) -> dict[str, Any]:
    """Import what is missing; return what became of it."""
    from toolkit.progress import Progress

    before, began = sender.position(), time.monotonic()
    rows = islice(wanted.reader.rows(shape), before, checked)
    with Progress("importing", max(0, checked - before)) as progress:
        sender.send(rows, before, wanted.batch, progress.advance)
    seconds = time.monotonic() - began
    pace = {"seconds": round(seconds, 3), "rounds_per_second": round(sender.imported / max(seconds, 1e-9))}
    return {"imported": sender.imported, "position": sender.place} | pace


def _create(client: "httpx2.Client", asked: dict[str, Any], shape: "Shape") -> None:
    """Create a model, unless another client has created one for the same rounds."""
    from toolkit.files.rows import shape_of
    from toolkit.remote import RemoteError, call

    typer.echo(f"creating the model {json.dumps(asked)}", err=True)
    try:
        call(client, "POST", "/models", json=asked)
    except RemoteError as error:
        if error.type != "model-exists":
            raise
        there = shape_of(call(client, "GET", f"/models/{asked['name']}").json())
        if there._replace(size=shape.size) != shape:
            raise


def _definition(client: "httpx2.Client", wanted: Replay) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the body that creates the model, None if it exists, and its definition."""
    from toolkit.files.readers import survey
    from toolkit.remote import RemoteError, call

    try:
        found: dict[str, Any] = call(client, "GET", f"/models/{wanted.model}").json()
        return None, found
    except RemoteError as error:
        if not wanted.create or error.type != "model-not-found":
            raise
    asked = {"name": wanted.model, **survey(wanted.path, wanted.reader)}
    if wanted.learner is not None:
        asked["learner"] = {"algorithm": wanted.learner}
    if wanted.dry_run:
        typer.echo(f"would create the model {json.dumps(asked)}", err=True)
    return asked, {"labels": [], "actions": None} | asked


def _checked_rows(wanted: Replay, shape: Any) -> int:
    """Read the whole file, or its first rounds; return their number."""
    from service.error_messages.patterns import CLOCK_SECONDS
    from toolkit.files.lines import FileError
    from toolkit.progress import Progress

    checked = 0
    with Progress("checking", None) as progress:
        rows: Iterator[Row] = islice(wanted.reader.rows(shape), wanted.limit)
        latest = time.time() + CLOCK_SECONDS
        for row in rows:
            checked += 1
            at = row.round.get("at")
            if at is not None and datetime.fromisoformat(at).timestamp() > latest:
                raise FileError(row.path, row.place, f"got the time {at}; must be from 1970 to now")
            if checked % 1000 == 0:
                progress.advance(1000)
    if not checked and wanted.limit != 0:
        raise FileError(wanted.path, "", "has no rounds")
    return checked


def _sentence(result: dict[str, Any]) -> str:
    skipped = f", {result['skipped']:,} lines without a round" if result["skipped"] else ""
    if result.get("dry_run"):
        return f"{result['rounds']:,} rounds{skipped}; the first one is {json.dumps(result['first'])}"
    there = min(result["position"], result["rounds"])
    return (
        f"{result['imported']:,} rounds imported into {result['model']}{skipped}, {result['rounds_per_second']:,} "
        f"rounds/s; {there:,} of {result['rounds']:,} are there; source {result['source']}"
    )
