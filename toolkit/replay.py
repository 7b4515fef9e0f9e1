"""The command `wager replay`: imports the rounds of a file into a model, each exactly once."""

import json
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

import httpx2
import typer

from service.commands.options import EXIT_INTERRUPTED, fail
from service.error_messages.patterns import CLOCK_SECONDS
from service.error_messages.values import counted
from service.json_values import JsonObject
from toolkit import ToolError
from toolkit.files import options
from toolkit.files.columns import Chosen
from toolkit.files.lines import FileError, digest_of
from toolkit.files.parquet import parts_of
from toolkit.files.readers import Reader, open_reader, survey
from toolkit.files.rows import Row, Shape, shape_of
from toolkit.progress import Progress
from toolkit.remote import DEFAULT_URL, AsJson, Key, RemoteError, Url, call, connect, path_of

_REQUEST_BYTES = 2**20
"""Approximate maximum bytes of a request; by default, the service accepts four times as many."""

_WAITS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between attempts to send a request."""

_LATER = frozenset({429, 500, 502, 503, 504})
"""Statuses after which a later attempt may succeed."""


def replay(
    file: Annotated[Path, typer.Argument(help="dsjson, CSV, NDJSON or Parquet, or a folder of Parquet parts.")],
    model: Annotated[str, typer.Option(help="Name of the model.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    format_: Annotated[str | None, typer.Option("--format", help="dsjson, csv, parquet or ndjson.")] = None,
    create: Annotated[bool, typer.Option(help="Create the model, with labels and features as in the file.")] = False,
    learner: Annotated[str | None, typer.Option(help="With --create: the name of its learner.")] = None,
    label_column: options.LabelColumn = None,
    propensity_column: options.PropensityColumn = None,
    reward_column: options.RewardColumn = None,
    feature_columns: options.FeatureColumns = None,
    feature_prefix: options.FeaturePrefix = None,
    text_columns: options.TextColumns = None,
    costs: Annotated[str, typer.Option(help="dsjson: negate (reward = -cost) or complement (1 - cost).")] = "negate",
    action_id: Annotated[str | None, typer.Option(help="dsjson: the feature of an action that is its id.")] = None,
    without_abstentions: Annotated[
        bool, typer.Option("--without-abstentions", help="Leave out the rounds in which the model abstained.")
    ] = False,
    without_costs: Annotated[
        bool, typer.Option("--without-costs", help="Leave out costs, as for a learner that cannot weigh them.")
    ] = False,
    source: Annotated[str | None, typer.Option(help="The identity of the rounds; by default a digest.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Maximum rounds in a request.")] = 500,
    limit: Annotated[int | None, typer.Option(min=0, help="Only the first rows of the file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file, and send nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import the rounds of a file into a model, each exactly once. Repeat the command to continue an interrupted one.

    Rounds with a propensity are learned as logged. For rows with only a true label, the model draws the label itself.
    """
    features, text = options.names_in(feature_columns), options.names_in(text_columns)
    names = label_column, propensity_column, reward_column, features, feature_prefix, text
    chosen = Chosen(*names, abstentions=not without_abstentions, costs=not without_costs)
    if costs not in ("negate", "complement"):
        fail(f"--costs: got {costs!r}; must be negate or complement")
    reader = open_reader(file, format_, chosen, costs, action_id)
    source = source or _digest(file, chosen, costs, action_id)
    result: JsonObject = {"model": model, "source": source}
    with connect(url, api_key) as client:
        sender = Sender(client, model, source, batch)
        try:
            definition, new = _definition(client, model, file, reader, create=create)
            new |= {"learner": {"algorithm": learner}} if new and learner is not None else {}
            shape = shape_of(definition)
            rounds, labelled = _check(file, reader, shape, limit)
            result |= {"rounds": rounds, "labelled": labelled, "skipped": reader.skipped}
            if dry_run:
                if new:
                    typer.echo(f"would create the model {json.dumps(new)}", err=True)
                result |= {
                    "dry_run": True,
                    "first": next((row.round for row in islice(reader.rows(shape), limit)), None),
                }
            else:
                if new:  # after the check: an invalid file changes nothing
                    _create(client, new, shape)
                result |= sender.send_rest(reader.rows(shape), rounds)
        except KeyboardInterrupt:
            known = sender.position is not None
            done = f"{sender.position:,} rounds of source {source} are imported" if known else "nothing was sent"
            fail(f"interrupted: {done}; repeat the command to continue", EXIT_INTERRUPTED)
    typer.echo(json.dumps(result) if as_json else _sentence(result))


def _digest(file: Path, *settings: object) -> str:
    """Return the default source: a digest of the file or its parts, and of the settings to read them."""
    parts = parts_of(file)
    digests = [digest_of(part, *settings) for part in parts]
    return digests[0] if len(digests) == 1 else digest_of(parts[0], digests)


def _definition(
    client: httpx2.Client, model: str, file: Path, reader: Reader, *, create: bool
) -> tuple[JsonObject, JsonObject]:
    """Return the definition of the model, and the body that creates it, which is empty if the model exists."""
    try:
        return call(client, "GET", path_of(model)).json(), {}
    except RemoteError as error:
        if not create or error.type != "model-not-found":
            raise
    new = {"name": model, **survey(file, reader)}
    return {"labels": [], "actions": None} | new, new


def _create(client: httpx2.Client, definition: JsonObject, shape: Shape) -> None:
    """Create a model, unless another client has just created one that fits the same rounds."""
    typer.echo(f"creating the model {json.dumps(definition)}", err=True)
    try:
        call(client, "POST", "/models", json=definition)
    except RemoteError as error:
        if error.type != "model-exists":
            raise
        existing = shape_of(call(client, "GET", path_of(definition["name"])).json())
        if existing._replace(size=shape.size) != shape:
            raise


def _check(file: Path, reader: Reader, shape: Shape, limit: int | None) -> tuple[int, int]:
    """Read the whole file, or its first rows; return their number, and how many have only a true label."""
    rounds, labelled, latest = 0, 0, time.time() + CLOCK_SECONDS
    with Progress("checking", None, "rows") as progress:
        for row in islice(reader.rows(shape), limit):
            rounds, labelled = rounds + 1, labelled + ("propensity" not in row.round)
            at = row.round.get("at")
            if at is not None and datetime.fromisoformat(at).timestamp() > latest:
                raise FileError(row.path, row.place, f"got the time {at}; must be from 1970 to now")
            if rounds % 1000 == 0:
                progress.advance(1000)
    if not rounds and limit != 0:
        raise FileError(file, "", "has no rounds")
    return rounds, labelled


class Sender:
    """Imports the rounds of one source, at most `batch` in a request.

    Attributes:
        imported: the number of rounds that were new to the model.
        position: the number of rounds of the source that the model has imported; None before the service reports it.
    """

    def __init__(self, client: httpx2.Client, model: str, source: str, batch: int) -> None:
        self._client, self._path, self._source, self._batch = client, path_of(model), source, batch
        self.imported = 0
        self.position: int | None = None

    def send_rest(self, rows: Iterator[Row], total: int) -> JsonObject:
        """Import those of the first `total` rows that the model lacks; return the outcome.

        `rows` are all rows of the source. Other clients may import the same rows at the same time.
        """
        imports = self._retry("GET", f"{self._path}/imports").json()["imports"]
        self.position = next((int(each["position"]) for each in imports if each["source"] == self._source), 0)
        before, began = self.position, time.monotonic()
        with Progress("importing", max(0, total - before)) as progress:
            for offset, batch in _batches(islice(rows, before, total), before, self._batch):
                self._send(offset, batch)
                progress.advance(len(batch))
        seconds = time.monotonic() - began
        pace = round(self.imported / max(seconds, 1e-9))
        return {
            "imported": self.imported,
            "position": self.position,
            "seconds": round(seconds, 3),
            "rounds_per_second": pace,
        }

    def _send(self, offset: int, batch: Sequence[Row]) -> None:
        body = {"source": self._source, "offset": offset, "rounds": [row.round for row in batch]}
        content = json.dumps(body, separators=(",", ":")).encode()
        try:
            answer = self._retry("POST", f"{self._path}/rounds", content=content).json()
        except RemoteError as error:
            match = (error.field or "").split(".")  # such as rounds.3.label
            row = batch[int(match[1])] if match[0] == "rounds" and len(match) > 1 else None
            place = f"{row.path}: {row.place}: " if row else ""
            raise ToolError(f"{place}{error}; {offset:,} rounds of source {self._source} are imported") from error
        self.imported += answer["imported"]
        self.position = max(self.position or 0, answer["position"])

    def _retry(self, method: str, path: str, **options: object) -> httpx2.Response:
        headers = {"content-type": "application/json"}
        for seconds in _WAITS:
            try:
                return call(self._client, method, path, headers=headers, **options)
            except RemoteError as error:
                if error.status is not None and error.status not in _LATER:
                    raise
            time.sleep(seconds)
        return call(self._client, method, path, headers=headers, **options)


def _batches(rows: Iterator[Row], offset: int, most: int) -> Iterator[tuple[int, list[Row]]]:
    """Yield the offset and the rows of each request; the first offset is `offset`."""
    batch, size = list[Row](), 0
    for row in rows:
        bytes_ = _size(row.round)
        if batch and (len(batch) == most or size + bytes_ > _REQUEST_BYTES):
            yield offset, batch
            offset, batch, size = offset + len(batch), [], 0
        batch.append(row)
        size += bytes_
    if batch:
        yield offset, batch


def _size(round_: JsonObject) -> int:
    """Estimate the bytes of a round in JSON."""
    context = round_.get("context") or ()
    if "actions" in round_ or isinstance(context, dict):
        return len(json.dumps(round_))
    return 100 + 20 * len(context)


_OF_ORDER = (
    "\nThe model learned the labelled rows as they are, in the order of the file. `wager compare` shuffles them, and "
    "may standardise columns: its errors differ where that matters."
)


def _sentence(result: JsonObject) -> str:
    skipped = f", {counted(result['skipped'], 'lines')} left out" if result["skipped"] else ""
    if result.get("dry_run"):
        first = f"; the first round is {json.dumps(result['first'])}" if result["first"] else ""
        return f"{result['rounds']:,} rows{skipped}{first}"
    order = _OF_ORDER if result["labelled"] else ""
    present = min(result["position"], result["rounds"])
    return (
        f"{result['imported']:,} rounds imported into {result['model']}{skipped}, {result['rounds_per_second']:,} "
        f"rounds/s; {present:,} of {result['rounds']:,} rows are in the model; source {result['source']}{order}"
    )
