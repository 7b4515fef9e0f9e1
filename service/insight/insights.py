"""The use cases that read statistics: of one model, and of all models at a glance."""

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from service.access.keys import Names
from service.catalogue.catalogue import Catalogue
from service.catalogue.stored import stored_under
from service.compute import Compute
from service.environment import Environment
from service.errors import ModelNotFoundError, StoreError
from service.insight.answers import statistics_answer
from service.insight.figures import counted_model
from service.insight.glances import glance_of
from service.insight.subject import Subject, subject_of
from service.schemas.models import ModelSummary
from service.schemas.reports.statistics import ModelGlance
from service.store.base import ModelStats
from service.store.stored_models import UnreadModel
from service.wording.values import quoted

_COST_PER_BYTE = 500  # cost of reading a byte of statistics and of writing the answer, in multiply-adds
_COST_OF_MODEL = 100_000  # cost of a glance of a model without statistics
_MOST_SUBJECTS = 512


class GlancePage(NamedTuple):
    """Models in name order, as JSON, and the name to continue after; None if there are no more."""

    models: list[ModelGlance | UnreadModel]
    next_cursor: str | None


class Insights:
    """Reads the published statistics of models.

    Args:
        environment: provides the store, worker threads and the clock.
        catalogue: lists the models.
    """

    def __init__(self, environment: Environment, catalogue: Catalogue) -> None:
        self._store = environment.store
        self._compute: Compute = environment.compute
        self._models = environment.models
        self._now = environment.now
        self._catalogue = catalogue
        self._subjects: OrderedDict[tuple[str, bytes], Subject] = OrderedDict()

    async def read(self, name: str) -> bytes:
        """Return the statistics of a model as JSON.

        Raises:
            ModelNotFoundError: if the model does not exist.
            StoreCorruptError: if the model or its statistics cannot be read.
            NewerVersionError: if a newer version wrote them.
        """
        stats, subject = await self._store.read_model_stats(name), await self._subject(name)
        if stats is None:
            raise _missing(name)
        return await self._compute.run_costly(_cost(stats), name, _written, stats, subject, self._now())

    async def page(self, cursor: str, limit: int, own: Names) -> GlancePage:
        """Return up to `limit` models in `own` after the cursor. An unreadable one does not affect the others."""
        page = await self._catalogue.page(cursor, limit, own)
        found = await asyncio.gather(*[self._stats(item) for item in page.models])
        cost = sum(map(_cost, [stats for stats in found if isinstance(stats, ModelStats)]))
        models = await self._compute.run_costly(
            cost, "", _glances, list(zip(page.models, found, strict=True)), self._now()
        )
        return GlancePage(models, page.next_cursor)

    async def _stats(self, item: ModelSummary | UnreadModel) -> ModelStats | UnreadModel | None:
        """Return the counters of a listed model; None if it is gone."""
        if isinstance(item, UnreadModel):
            return item
        try:
            return await self._store.read_model_stats(item.name)
        except StoreError as error:
            return UnreadModel(item.name, error)

    async def _subject(self, name: str) -> Subject:
        """Return the subject of a model, which is read again after each change."""
        listed = await self._store.list_model(name)
        if listed is None:
            raise _missing(name)
        version = listed.key.incarnation, listed.digest
        subject = self._subjects.get(version)
        if subject is None:
            stored = await stored_under(self._store, name)
            model = await self._models.read(stored)
            version, subject = (model.key.incarnation, model.digest), subject_of(model)
            self._subjects[version] = subject
        self._subjects.move_to_end(version)
        if len(self._subjects) > _MOST_SUBJECTS:
            self._subjects.popitem(last=False)
        return subject


def _missing(name: str) -> ModelNotFoundError:
    return ModelNotFoundError(f"there is no model {quoted(name)}", "name")


def _cost(stats: ModelStats) -> int:
    return _COST_OF_MODEL + len(stats.statistics) * _COST_PER_BYTE


def _written(stats: ModelStats, subject: Subject, now: float) -> bytes:
    return statistics_answer(counted_model(stats), subject, now).model_dump_json().encode()


_Pair = tuple[ModelSummary | UnreadModel, ModelStats | UnreadModel | None]


def _glances(pairs: list[_Pair], now: float) -> list[ModelGlance | UnreadModel]:
    models: list[ModelGlance | UnreadModel] = []
    for summary, stats in pairs:
        if isinstance(stats, UnreadModel):
            models.append(stats)
        elif isinstance(summary, ModelSummary) and stats is not None:
            models.append(glance_of(summary, stats, now))
    return models
