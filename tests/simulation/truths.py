"""The truths about all models. A model that is deleted and created again has another incarnation, and another truth."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from service.choice.requests import Options
from service.store import keys
from service.store.records.layout import KEY_BYTES
from service.store.stored_models import ModelKey
from tests.simulation.log_rounds import Asked, Own, ViolationError
from tests.simulation.redis_server import RedisServer
from tests.simulation.shadow_truth import ShadowTruth
from tests.simulation.truth import Truth

_REFUSED = 1
"""What the script says that stores predictions of a block for which there is no room."""


class Truths:
    """The truths about all incarnations of all models.

    Args:
        server: holds the models.
        reach: returns the earliest and the latest moment that any clock may have shown.
        elapsed: returns the seconds since the simulation began.
        most_open_bytes: of the predictions of each model; 0 for any.
    """

    def __init__(
        self,
        server: RedisServer,
        reach: Callable[[], tuple[float, float]],
        elapsed: Callable[[], float],
        most_open_bytes: int = 0,
    ) -> None:
        self._server, self._most_open_bytes = server, most_open_bytes
        self._clocks = reach, elapsed
        self.asked = dict[Asked, Options]()  # what clients asked for, by their contexts, which differ
        self._all: dict[ModelKey, Truth] = {}
        self._now: dict[str, Truth] = {}
        self._shadows: dict[ModelKey, ShadowTruth] = {}

    def __getitem__(self, name: str) -> Truth:
        """Return the truth about the last incarnation of a model."""
        return self._now[name]

    def __iter__(self) -> Iterator[Truth]:
        """Return the truths about the last incarnations."""
        return iter(self._now.values())

    @property
    def names(self) -> list[str]:
        """The names of all models."""
        return list(self._now)

    @property
    def round_count(self) -> int:
        """The number of rounds of all incarnations."""
        return sum(len(truth.rounds) for truth in self._all.values())

    @property
    def change_count(self) -> int:
        """The number of changes of all incarnations."""
        return sum(truth.change_count for truth in self._all.values())

    def note(self, name: str) -> None:
        """Note the incarnation of a model that the server has now."""
        incarnation = self._server.look("HGET", keys.model(name), "incarnation")
        if incarnation is None:
            return
        key = ModelKey(name, incarnation.decode())
        if key not in self._all:
            self._all[key] = Truth(self._server, key, *self._clocks, self.asked, self._most_open_bytes)
            self._shadows[key] = ShadowTruth(self._server, self._all[key])
        before, self._now[name] = self._now.get(name), self._all[key]
        if before is not None and before is not self._all[key]:
            self._all[key].losses = max(before.losses, self._all[key].losses) + 1

    def look(self, key: str) -> None:
        """Take what a script has appended to the log of a model, one of whose keys this is; see `Truth.look`."""
        name = _name_in(key)
        if name in self._now and not self._now[name].look():
            self._now[name].losses += 1  # answers on their way may be about what is gone
            self.note(name)
            self._now[name].look()

    def note_blocks(self, blocks: Sequence[tuple[str, bytes]], heads: Sequence[Any]) -> None:
        """Note what a script has done with new blocks of a model, by their keys; see `Truth.note_stored`."""
        truth, counted = self._truth_of_block(blocks[0][0])[0], 0
        if truth is None:
            raise ViolationError(f"blocks {blocks} are stored; their model is gone")
        for (key, record), head in zip(blocks, heads, strict=True):
            if head is None:
                truth.note_stored(key.partition(":p:")[2], record)
            elif head == _REFUSED:
                truth.note_refused(record, counted)
            else:
                counted += len(record) + KEY_BYTES
        truth.check_counters()

    def look_at_blocks(self, block_keys: Sequence[str], statuses: bytes) -> None:
        """Take what a script has changed in blocks of a model, and what it says of feedback for them."""
        for block_key in block_keys:
            truth, block = self._truth_of_block(block_key)
            if truth is not None:
                truth.look_at_block(block)
        if block_keys and truth is not None:
            truth.note_statuses(statuses)
            truth.check_counters()

    def _truth_of_block(self, block_key: str) -> tuple[Truth | None, str]:
        """Return the truth about the incarnation that has a block, if it exists; and the block."""
        model, _, block = block_key.partition(":p:")
        truth = self._all.get(ModelKey(*model.removeprefix("wager:{").split("}:")))
        return (truth if truth is not None and truth.exists else None), block

    def check_snapshot(self, model_key: str) -> None:
        """Check the snapshot of a model; see `Truth.check_snapshot`."""
        truth = self._truth_of(model_key)
        if truth.exists:
            truth.check_snapshot()

    def check_shadows(self, model_key: str) -> None:
        """Check the shadows of a model; see `ShadowTruth.check`."""
        truth = self._truth_of(model_key)
        if truth.exists:
            self._shadows[truth.key].check()

    def _truth_of(self, model_key: str) -> Truth:
        return self._now[_name_in(model_key)]

    def check_gone(self) -> None:
        """Check that nothing but predictions is left of deleted incarnations.

        Raises:
            ViolationError: if something is left.
        """
        for key, truth in self._all.items():
            left = 0 if truth.exists else self._server.look("EXISTS", *keys.lasting(*key)[1:])
            if left:
                raise ViolationError(f"{left} keys of {key} exist after its deletion")

    def lose(self) -> list[Own]:
        """Note that the server has lost its last commands; see `Truth.lose`."""
        gone = list[Own]()
        for name in self.names:
            self.note(name)
            truth = self._now[name]
            lost = truth.lose()
            gone += lost if truth.exists else []
        return gone


def _name_in(key: str) -> str:
    """Return the name of the model that has a key; any other text if none has it."""
    return key.removeprefix("wager:{").partition("}")[0]
