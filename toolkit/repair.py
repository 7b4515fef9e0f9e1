"""The command `wager repair`: searches the store for unreadable data. The search changes nothing."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from learners.base import InvalidStateError
from service.commands.options import fail, use_store
from service.error_messages.values import quoted
from service.errors import ModelNotFoundError, NewerVersionError, StoreCorruptError
from service.models.model import Model
from service.models.reading import stored_model
from service.replicas.starts import read_state
from service.store.base import Block, LogEntry, Store
from service.store.log_entries import Stretch, begin_of, read_entries, read_page
from service.store.values import Damage, DamagedSnapshotError

_PAGE = 512
_MOST_MODELS = 10_000_000


class Finding(NamedTuple):
    """Data that cannot be read."""

    model: str
    what: str
    reason: str
    damaged: bool  # False: a newer version wrote it

    def __str__(self) -> str:
        kind = "damaged" if self.damaged else "written by a newer version, not searched"
        return f"{self.model}: {self.what}: {kind}: {self.reason}"


async def search(store: Store, name: str | None) -> AsyncIterator[Finding]:
    """Yield the unreadable data of one model, or of all models if `name` is None."""
    if name is not None and not await _is_there(store, name):
        raise ModelNotFoundError(f"there is no model {quoted(name)}", "model")
    for each in [name] if name else await store.list_names(_MOST_MODELS):
        async for finding in _search_model(store, each):
            yield finding


async def _is_there(store: Store, name: str) -> bool:
    try:
        return await store.get_model(name) is not None
    except (StoreCorruptError, KeyError, ValueError):  # it exists, but cannot be read
        return True


async def _search_model(store: Store, name: str) -> AsyncIterator[Finding]:
    try:
        stored = await store.get_model(name)
        if stored is None:
            return
        model = stored_model(stored)
    except NewerVersionError as error:
        yield Finding(name, "definition", error.detail, damaged=False)
        return
    except (StoreCorruptError, KeyError, ValueError) as error:
        yield Finding(name, "definition", str(error), damaged=True)
        return
    try:
        recorded = (await store.read_damage(model.key)).found
    except (StoreCorruptError, ValueError) as error:
        yield Finding(name, "record of damage", str(error), damaged=True)
        recorded = []
    for each in recorded:
        yield Finding(name, f"{_named(each)}, on record", each.reason, damaged=True)
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
            yield Finding(name, what, error.detail, damaged=True)


def _named(damage: Damage) -> str:
    if damage.snapshot:
        return f"snapshot of {damage.last} rounds"
    return f"round {damage.first}" if damage.first == damage.last else f"rounds {damage.first} to {damage.last}"


async def _search_snapshot(store: Store, model: Model, recorded: list[Damage]) -> AsyncIterator[Finding]:
    what = "snapshot"
    try:
        snapshot = await store.load_snapshot(model.key)
        if snapshot is None:
            return
        what = f"snapshot of {snapshot.round_count} rounds"
        read_state(model.learner, snapshot.state)
    except NewerVersionError as error:
        yield Finding(model.name, what, error.detail, damaged=False)
    except DamagedSnapshotError as error:
        what = f"snapshot of {error.round_count} rounds"
        if all(_named(each) != what for each in recorded):
            yield Finding(model.name, what, str(error), damaged=True)
    except InvalidStateError as error:
        if all(_named(each) != what for each in recorded):
            yield Finding(model.name, what, str(error), damaged=True)


async def _search_log(store: Store, model: Model, recorded: list[Damage]) -> AsyncIterator[Finding]:
    after, begun = 0, False
    while True:
        try:
            tail = await store.read_tail(model.key, after, _PAGE)
        except NewerVersionError as error:
            yield Finding(model.name, f"log after round {after}", error.detail, damaged=False)
            return
        entries = tail.entries
        if not begun and not entries and tail.changes:  # the log of a copy, without a round yet
            after = tail.changes[0].round_count
        if not entries or entries[-1].last_round <= after:
            if entries or after != tail.round_count:
                reason = f"it ends with round {after}, but {tail.round_count} rounds are counted"
                yield Finding(model.name, "log", reason, damaged=True)
            return
        if not begun:  # the rounds before the first entry may have been trimmed
            after, begun = (begin_of(model.choice.records, entries[0]) or 1) - 1, True
        try:
            for finding in _damage_in(model, entries, after, recorded):
                yield finding
        except NewerVersionError as error:
            yield Finding(model.name, f"log after round {after}", error.detail, damaged=False)
        after = entries[-1].last_round


def _damage_in(model: Model, entries: list[LogEntry], after: int, recorded: list[Damage]) -> Iterator[Finding]:
    rounds = [each for each in recorded if not each.snapshot]
    stretches: list[Stretch]
    try:
        stretches = [read_entries(model.choice.records, entries, after, rounds)]
    except StoreCorruptError as error:
        yield Finding(model.name, "log", error.detail, damaged=True)
        stretches = read_page(model.choice.records, entries)
    for stretch in stretches:
        for each in stretch.damaged:
            yield Finding(model.name, _named(each), each.reason, damaged=True)


async def _search_predictions(store: Store, model: Model) -> AsyncIterator[Finding]:
    async for block in _blocks(store, model):
        what = f"prediction {block.id}"
        try:
            model.choice.records.waiting(block.record)
        except NewerVersionError as error:
            yield Finding(model.name, what, error.detail, damaged=False)
        except StoreCorruptError as error:
            yield Finding(model.name, what, error.detail, damaged=True)


async def _blocks(store: Store, model: Model) -> AsyncIterator[Block]:
    cursor: str | None = ""
    while cursor is not None:
        page = await store.scan_blocks(model.key, cursor)
        for block in page.blocks:
            yield block
        cursor = page.next_cursor


if TYPE_CHECKING:
    from service.store.redis.open_store import OpenStore

EXIT_DAMAGED = 1
EXIT_NAME = 2


def repair(
    model: Annotated[str | None, typer.Option(help="Search this model only.")] = None,
) -> None:
    """Find damage in the store, without changing anything.

    Reads definitions, snapshots, logs and open predictions, and lists damage.

    Exit codes: 0 without damage, 1 with damage, 2 for an unknown model or invalid settings, 5 if the store does not
    answer.
    """
    damaged = use_store(partial(_search, model))
    typer.echo(f"{damaged} damaged" if damaged else "nothing is damaged")
    raise typer.Exit(EXIT_DAMAGED if damaged else 0)


async def _search(name: str | None, opened: "OpenStore") -> int:
    """Print each finding; return the number of damaged records."""
    from service.errors import ModelNotFoundError

    damaged = 0
    try:
        async for finding in search(opened.store, name):
            typer.echo(str(finding))
            damaged += finding.damaged
    except ModelNotFoundError as error:
        fail(str(error), EXIT_NAME)
    return damaged
