"""The desks of one worker, by model: a cache bounded in bytes."""

import logging
import sys
from collections import OrderedDict

from service.errors import ModelNotFoundError, WagerError
from service.models.model import Model, reading_cost, stored_model
from service.rounds.session import Desk, Outside
from service.store.stored_models import StoredModel

_log = logging.getLogger(__name__)

_DESK_BYTES = 16_384
"""About what a desk takes beside its learner's state and its labels."""


class Desks:
    """Opens desks as they are asked for, and closes those longest unused when memory runs short.

    Args:
        outside: what desks need.
        max_bytes: about how much memory desks and their states may take; the busy ones may exceed it.
    """

    def __init__(self, outside: Outside, max_bytes: int) -> None:
        self._outside = outside
        self._max_bytes = max_bytes
        self._desks: OrderedDict[str, Desk] = OrderedDict()
        self._costs: dict[Desk, int] = {}
        self._bytes = 0

    async def find(self, name: str, field: str) -> Desk:
        """The desk of the model of that name.

        Raises:
            ModelNotFoundError: if there is no such model, blaming that field of the request.
            StoreCorruptError: if its definition cannot be read.
        """
        desk = self._desks.get(name)
        if desk is not None:
            self._desks.move_to_end(name)
            return desk
        stored = await self._outside.store.get_model(name)
        if stored is None:
            raise ModelNotFoundError(f"there is no model {name!r}", field)
        compute = self._outside.compute
        model = await compute.run_costly(reading_cost(stored), name, _complete_model, stored)
        return self._open(Desk(model, self._outside))

    def drop(self, desk: Desk) -> None:
        """Forgets a desk, as when its model is gone."""
        if self._desks.get(desk.model.name) is desk:
            del self._desks[desk.model.name]
            self._bytes -= self._costs.pop(desk)
            desk.replica.give_up()

    def forget(self, name: str) -> None:
        """Drop the desk of a model that is deleted."""
        if name in self._desks:
            self.drop(self._desks[name])

    async def maintain(self) -> None:
        """Does the upkeep of every desk; one whose model is gone is dropped, trouble with one is logged."""
        for desk in list(self._desks.values()):
            try:
                await desk.maintain()
            except ModelNotFoundError:
                self.drop(desk)
            except WagerError as error:  # the requests that meet it are told
                _log.warning("upkeep of model %s: %s", desk.model.name, error.detail)
            except Exception:  # noqa: BLE001  one broken model must not end the upkeep of all
                _log.exception("upkeep of model %s", desk.model.name)

    def _open(self, desk: Desk) -> Desk:
        there = self._desks.setdefault(desk.model.name, desk)
        if there is desk:  # else another request opened it while this one waited for the store
            self._costs[desk] = _cost(desk)
            self._bytes += self._costs[desk]
            self._make_room(desk)
        return there

    def _make_room(self, newest: Desk) -> None:
        for desk in list(self._desks.values()):
            if self._bytes <= self._max_bytes:
                return
            if desk.idle and desk is not newest:
                self.drop(desk)


def _complete_model(stored: StoredModel) -> Model:
    """The stored model, with what is made once from its labels."""
    model = stored_model(stored)
    _ = model.answers, model.format
    return model


def _cost(desk: Desk) -> int:
    """About the memory that a desk holds: its learner's state, the labels, the tables of them, and the rest."""
    labels = desk.model.definition.labels
    strings = sys.getsizeof(labels) + sum(map(sys.getsizeof, labels))
    return desk.replica.bytes + strings + desk.model.answers.table_bytes + _DESK_BYTES
