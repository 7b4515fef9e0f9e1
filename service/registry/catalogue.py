"""Lists the models of a store, searched, sorted and counted.

A worker keeps one row per model, with the numbers by which lists are sorted. Each list refreshes the `REREAD` oldest
rows and those of the models that it returns. So a list of up to `REREAD` models is exact; a longer one may sort and
count a model by an older row.
"""

import asyncio
import contextlib
import itertools
import math
from collections.abc import Sequence
from heapq import nsmallest
from typing import Generic, Literal, NamedTuple, TypeVar

from service.access.keys import Names
from service.analytics.overviews import read_overview
from service.environment import Environment
from service.error_messages.values import quoted
from service.errors import InvalidInputError, StoreError, StoreUnavailableError
from service.models.summaries import Summary, read_summary, summary_of
from service.registry.attention import NOT_NEEDED, WORST, attention_of
from service.store.stored_models import ListedModel, UnreadModel

REREAD = 500
"""Rows that each list reads again. It takes about 20 ms, in many short steps."""

_AT_ONCE = 64  # rows read together; decoding them occupies the event loop for one or two milliseconds

Sort = Literal["name", "traffic", "reward", "trouble"]
_Place = tuple[float, str]  # a model's place in an order: a number, then its name


class Query(NamedTuple):
    """Which models a list has, in which order, and which page of it to return."""

    search: str = ""  # a part of the name, in any case
    sort: Sort = "name"
    cursor: str = ""  # of the previous page; "" for the first page
    limit: int = 100

    def place(self) -> _Place:
        """Return the place after which the page begins; raise `InvalidInputError` if the cursor is of another order."""
        if not self.cursor:
            return -math.inf, ""
        sort, number, name = self.cursor.split(":") if ":" in self.cursor else ("name", "0", self.cursor)
        if sort != self.sort:
            raise InvalidInputError(
                f"got {quoted(self.cursor)}; must be the next_cursor of a page with the sort {quoted(self.sort)}",
                "cursor",
            )
        return float(number), name

    def cursor_after(self, place: _Place) -> str:
        """Return the cursor of the page after a place."""
        number, name = place
        return name if self.sort == "name" else f"{self.sort}:{number!r}:{name}"


class Entry(NamedTuple):
    """A model in a list."""

    listed: ListedModel
    summary: Summary
    attention: str | None  # why it needs attention; None if it needs none


_ItemT = TypeVar("_ItemT")


class Page(NamedTuple, Generic[_ItemT]):
    """Models in the order of a query."""

    models: list[_ItemT]
    next_cursor: str | None  # None on the last page
    total: int  # models on all pages
    attention: int  # those of them that need attention


class _Row(NamedTuple):
    rank: float  # of `Attention`
    reward: float  # the mean of the latest rewards; -infinity without any
    version: object = None  # what the summary depends on; None if it cannot be read


_UNREADABLE = _Row(WORST, -math.inf)


class Catalogue:
    """The models of a store as a list."""

    def __init__(self, environment: Environment) -> None:
        self._store, self._models = environment.store, environment.models
        self._rows: dict[str, _Row] = {}  # by name, those that were read longest ago first
        self._refreshing = asyncio.Lock()

    async def page(self, query: Query, own: Names) -> Page[Entry | UnreadModel]:
        """Return a page of the models with names in `own`; for unreadable ones, the errors.

        Raises `InvalidInputError` if the cursor is of another order.
        """
        start, text = query.place(), query.search.lower()
        traffic = await self._store.read_traffic() if query.sort == "traffic" else {}
        found = [name for name in await self._refresh() if text in name.lower() and name in own]
        places = [place for place in self._places(query.sort, found, traffic) if place > start]
        ahead = nsmallest(query.limit + 1, places)
        attention = sum(self._rows[name].rank < NOT_NEEDED.rank for name in found)
        page = ahead[: query.limit]
        models = [await self._entry(each) for each in await self._read([name for _, name in page])]
        following = query.cursor_after(page[-1]) if len(ahead) > len(page) else None
        return Page([each for each in models if each is not None], following, len(found), attention)

    async def check(self, name: str) -> None:
        """Raise `StoreError` if a model's list entry cannot be read or rebuilt. A missing model is not an error."""
        listed = await self._store.list_model(name)
        if listed is not None:
            await self._summary(listed)

    def _places(self, sort: Sort, names: list[str], traffic: dict[str, float]) -> list[_Place]:
        rows = self._rows
        if sort == "traffic":
            return [(-traffic.get(name, -math.inf), name) for name in names]
        if sort == "reward":
            return [(-rows[name].reward, name) for name in names]
        return [(rows[name].rank if sort == "trouble" else 0.0, name) for name in names]

    async def _refresh(self) -> list[str]:
        """Read the rows of new models, and those that were read longest ago; return the names of all models, sorted."""
        async with self._refreshing:  # so that several requests do not read the same new models
            names = await self._store.list_names(-1)
            oldest = list(itertools.islice(self._rows, REREAD))
            await self._read([*(name for name in names if name not in self._rows), *oldest])
            return [name for name in names if name in self._rows]

    async def _read(self, names: Sequence[str]) -> list[ListedModel | UnreadModel]:
        """Read the list entries of those models that exist, and their rows."""
        found = list[ListedModel | UnreadModel]()
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            listed = await self._store.list_models(some)
            read = [(each.name, await self._row(each)) for each in listed]
            for name in some:
                self._rows.pop(name, None)
            self._rows.update(read)
            found += listed
        return found

    async def _row(self, listed: ListedModel | UnreadModel) -> _Row:
        known = self._rows.get(listed.name, _UNREADABLE)
        if isinstance(listed, UnreadModel):
            return known if isinstance(listed.error, StoreUnavailableError) else _UNREADABLE
        version = listed.key.incarnation, listed.summary, listed.definition_bytes, listed.digest
        if known.version != version:
            try:
                await self._summary(listed)
            except StoreError:
                return _UNREADABLE
        overview = read_overview(listed.overview)
        reward = -math.inf if overview.reward is None else overview.reward
        return _Row(attention_of(listed, overview).rank, reward, version)

    async def _entry(self, listed: ListedModel | UnreadModel) -> Entry | UnreadModel | None:
        if isinstance(listed, UnreadModel):
            return listed
        try:
            summary = await self._summary(listed)
        except StoreError as error:
            return UnreadModel(listed.name, error)
        reason = attention_of(listed, read_overview(listed.overview)).reason
        return None if summary is None else Entry(listed, summary, reason)

    async def _summary(self, listed: ListedModel) -> Summary | None:
        """Return a model's summary, rebuilt if it is missing or invalid; None if the model is gone."""
        summary = read_summary(listed)
        if summary is not None:
            return summary
        stored = await self._store.get_model(listed.name)
        if stored is None:
            return None
        model = await self._models.read(stored)
        summary = summary_of(model, stored.definition)
        with contextlib.suppress(StoreError):  # if the store cannot keep the summary, the next call rebuilds it
            await self._store.keep_summary(model.key, summary.model_dump_json(exclude_defaults=True))
        return summary
