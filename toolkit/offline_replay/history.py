"""The model after each of its changes, read on demand."""

import json
from collections.abc import Callable

from service.errors import WagerError
from service.json_values import JsonMapping
from service.models.changes import Change, FromSnapshot, NewState, StoredLabels
from service.models.learner_choice import build_learner
from service.models.model import Model
from service.schemas.models import ChangeNote, ModelDefinition
from service.store.stored_models import ModelKey

ReadChanges = Callable[[int], JsonMapping]
"""Returns the answer of `GET /models/{name}/changes` for the changes after a number. Its errors are not caught."""


class UnknownHistoryError(Exception):
    """The model after one of its changes cannot be built. The message contains the reason."""


class History:
    """The changes of a model, and the model after each of them."""

    def __init__(self, read: ReadChanges) -> None:
        self._read = read
        self._notes: list[ChangeNote] = []
        self._label_counts: list[int] = []  # entry i: after i changes, so there is one more entry than in `_notes`
        self._definition: JsonMapping = {}
        self._models: dict[int, Model] = {}

    def note(self, number: int) -> ChangeNote:
        """Return the note of a change. The first change has number 1. Raises as `model` does."""
        self._know(number)
        return self._notes[number - 1]

    def label_count(self, changes: int) -> int:
        """Return the number of labels after `changes` changes, retired ones included. Raises as `model` does."""
        self._know(changes)
        return self._label_counts[changes]

    def model(self, changes: int) -> Model:
        """Return the model after `changes` changes, which must not have been forgotten.

        Raises `UnknownHistoryError` if it cannot be built.
        """
        self._know(changes)
        if not self._models:
            self._models[0] = self._first()
        if changes not in self._models:
            latest = max(self._models)
            for number in range(latest + 1, changes + 1):
                self._models[number] = self._changed(self._models[number - 1], number)
        return self._models[changes]

    def forget(self, before: int) -> None:
        """Forget the models after fewer than `before` changes, except the latest known one."""
        last = max(self._models, default=0)
        for number in [each for each in self._models if each < min(before, last)]:
            del self._models[number]

    def _first(self) -> Model:
        known = {name: self._definition.get(name) for name in ModelDefinition.model_fields}
        written = json.dumps({name: value for name, value in known.items() if value not in (None, [])})
        try:
            definition = ModelDefinition.model_validate_json(written)
            return Model(ModelKey(definition.name, "replayed"), definition, build_learner(definition))
        except (WagerError, ValueError) as error:
            raise UnknownHistoryError(f"this version cannot build the model: {error}") from error

    def _changed(self, model: Model, number: int) -> Model:
        try:
            return model.changed(_change_of(self._notes[number - 1]))
        except (WagerError, ValueError) as error:
            raise UnknownHistoryError(f"this version cannot make change {number:,} of the model: {error}") from error

    def _know(self, changes: int) -> None:
        """Read the changes up to number `changes` that are not known yet."""
        while len(self._label_counts) <= changes:
            page = self._read(len(self._notes))
            if not self._label_counts:
                self._definition = page["definition"]
                self._label_counts.append(len(self._definition.get("labels") or ()))
            elif not page["changes"]:
                raise UnknownHistoryError(f"the service does not list change {changes:,} of the model")
            for each in page["changes"]:
                self._take(each)

    def _take(self, given: JsonMapping) -> None:
        try:
            note = ChangeNote.model_validate(given)
        except ValueError as error:
            number = len(self._notes) + 1
            raise UnknownHistoryError(f"this version cannot read change {number:,} of the model: {error}") from error
        self._notes.append(note)
        self._label_counts.append(self._label_counts[-1] + len(note.added))


def _change_of(note: ChangeNote) -> Change:
    """Convert a note to a change, with only the fields that affect the fold."""
    labels = StoredLabels(add=tuple(note.added), retire=tuple(note.retired)) if note.added or note.retired else None
    state: NewState | None = None
    if note.kind == "reset":
        state = "initial"
    elif note.snapshot is not None:
        state = FromSnapshot(snapshot=note.snapshot, then_folds=note.kind == "promote")
    return Change(labels=labels, policies=note.policies, state=state, learner=note.learner, at=note.at.timestamp())
