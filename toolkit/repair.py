"""The command `wager repair`, which searches the store for unreadable data and changes nothing."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Annotated, NamedTuple

import typer

from learners.base import InvalidStateError
from service.commands.options import fail, use_store
from service.error_messages.values import counted, quoted
from service.errors import ModelNotFoundError, NewerVersionError, StoreCorruptError
from service.models.model import Model
from service.models.reading import stored_model
from service.replicas.starts import read_state
from service.store.capabilities import Store
from service.store.log_entries import begin_of, read_entries, read_page
from service.store.redis.open_store import OpenStore
from service.store.values import Damage, DamagedSnapshotError, LogEntry

EXIT_DAMAGED = 1
EXIT_NAME = 2

_PAGE = 512
_MOST_MODELS = 10_000_000
_UNREADABLE = (NewerVersionError, StoreCorruptError, KeyError, ValueError)


class Finding(NamedTuple):
    """Data that cannot be read."""

    model: str
    what: str
    reason: str
    damaged: bool = True  # False: not damaged, but written by a newer version

    def __str__(self) -> str:
        kind = "damaged" if self.damaged else "written by a newer version, not searched"
        return f"{self.model}: {self.what}: {kind}: {self.reason}"


def repair(model: Annotated[str | None, typer.Option(help="Search this model only.")] = None) -> None:
    """Find damage in the store, without changing anything.

    Reads definitions, snapshots, logs and open predictions, and lists damage.

    Exit codes: 0 without damage, 1 with damage, 2 for an unknown model or invalid settings, 5 if the store does not
    answer, or does not exist.
    """
    damaged, newer = use_store(partial(_print_findings, model), create=False)
    found = counted(damaged, "damaged records") if damaged else "no damage found"
    typer.echo(found + "; data of a newer version was not searched" * bool(newer))
    raise typer.Exit(EXIT_DAMAGED if damaged else 0)


async def _print_findings(name: str | None, opened: OpenStore) -> tuple[int, int]:
    """Print each finding; return the numbers of damaged records and of records of a newer version."""
    damaged = newer = 0
    try:
        async for finding in search(opened.store, name):
            typer.echo(str(finding))
            damaged, newer = damaged + finding.damaged, newer + (not finding.damaged)
    except ModelNotFoundError as error:
        fail(str(error), EXIT_NAME)
    return damaged, newer


async def search(store: Store, name: str | None) -> AsyncIterator[Finding]:
    """Yield the unreadable data of one model, or of all models if `name` is None.

    Raises:
        ModelNotFoundError: if the named model does not exist.
    """
    if name is not None and not await _exists(store, name):
        raise ModelNotFoundError(f"there is no model {quoted(name)}", "model")
    for each in [name] if name else await store.list_names(_MOST_MODELS):
        async for finding in _search_model(store, each):
            yield finding


async def _exists(store: Store, name: str) -> bool:
    try:
        return await store.get_model(name) is not None
    except (StoreCorruptError, KeyError, ValueError):  # it exists but cannot be read
        return True


def _finding(name: str, what: str, error: Exception) -> Finding:
    return Finding(name, what, getattr(error, "detail", str(error)), not isinstance(error, NewerVersionError))


async def _search_model(store: Store, name: str) -> AsyncIterator[Finding]:
    try:
        stored = await store.get_model(name)
        if stored is None:
            return
        model = stored_model(stored)
    except _UNREADABLE as error:
        yield _finding(name, "definition", error)
        return
    try:
        recorded = (await store.read_damage(model.key)).found
    except (StoreCorruptError, ValueError) as error:
        yield _finding(name, "record of damage", error)
        recorded = []
    for each in recorded:
        yield Finding(name, f"{_named(each)}, on record", each.reason)
    searches = {
        "snapshot": _search_snapshot(store, model, recorded),
        "log": _search_log(store, model, recorded),
        "predictions": _search_predictions(store, model),
    }
    for what, findings in searches.items():
        try:
            async for finding in findings:
                yield finding
        except ModelNotFoundError:  # deleted during the search
            return
        except StoreCorruptError as error:  # the other searches continue
            yield _finding(name, what, error)


def _named(damage: Damage) -> str:
    if damage.snapshot:
        return f"snapshot of {damage.last} rounds"
    return f"round {damage.first}" if damage.first == damage.last else f"rounds {damage.first} to {damage.last}"


async def _search_snapshot(store: Store, model: Model, recorded: list[Damage]) -> AsyncIterator[Finding]:
    what = "snapshot"
    try:
        snapshot = await store.load_snapshot(model.key)
        if snapshot is not None:
            what = f"snapshot of {snapshot.round_count} rounds"
            read_state(model.learner, snapshot.state)
    except NewerVersionError as error:
        yield _finding(model.name, what, error)
    except (DamagedSnapshotError, InvalidStateError) as error:
        if isinstance(error, DamagedSnapshotError):
            what = f"snapshot of {error.round_count} rounds"
        if what not in map(_named, recorded):
            yield Finding(model.name, what, str(error))


async def _search_log(store: Store, model: Model, recorded: list[Damage]) -> AsyncIterator[Finding]:
    after, begun = 0, False
    while True:
        try:
            tail = await store.read_tail(model.key, after, _PAGE)
        except NewerVersionError as error:
            yield _finding(model.name, f"log after round {after}", error)
            return
        entries = tail.entries
        if not begun and not entries and tail.changes:  # the log of a copy that has no round yet
            after = tail.changes[0].round_count
        if not entries or entries[-1].last_round <= after:
            if entries or after != tail.round_count:
                reason = f"it ends with round {after}, but {tail.round_count} rounds are counted"
                yield Finding(model.name, "log", reason)
            return
        if not begun:  # the rounds before the first entry may have been trimmed
            after, begun = (begin_of(model.choice.records, entries[0]) or 1) - 1, True
        try:
            for finding in _damage_in(model, entries, after, recorded):
                yield finding
        except NewerVersionError as error:
            yield _finding(model.name, f"log after round {after}", error)
        after = entries[-1].last_round


def _damage_in(model: Model, entries: list[LogEntry], after: int, recorded: list[Damage]) -> Iterator[Finding]:
    rounds = [each for each in recorded if not each.snapshot]
    try:
        stretches = [read_entries(model.choice.records, entries, after, rounds)]
    except StoreCorruptError as error:
        yield _finding(model.name, "log", error)
        stretches = list(read_page(model.choice.records, entries))
    for stretch in stretches:
        for each in stretch.damaged:
            yield Finding(model.name, _named(each), each.reason)


async def _search_predictions(store: Store, model: Model) -> AsyncIterator[Finding]:
    cursor: str | None = ""
    while cursor is not None:
        page = await store.scan_blocks(model.key, cursor)
        for block in page.blocks:
            try:
                model.choice.records.waiting(block.record)
            except (NewerVersionError, StoreCorruptError) as error:
                yield _finding(model.name, f"prediction {block.id}", error)
        cursor = page.next_cursor
