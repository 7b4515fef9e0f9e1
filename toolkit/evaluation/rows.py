"""Rounds in CSV, NDJSON or dsjson, as `wager replay` reads them."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from service.json_values import JsonMapping, JsonObject
from toolkit.evaluation.columns import Columns, columns_of
from toolkit.files.columns import Chosen
from toolkit.files.lines import FileError
from toolkit.files.readers import model_name_of, open_reader, survey
from toolkit.files.rows import Row, Shape, shape_of


class RowsPart(NamedTuple):
    """A file of logged rounds, which are numbered from 1."""

    path: str
    chosen: Chosen
    shape: Shape

    @property
    def name(self) -> str:
        """The name of the part, for messages."""
        return self.path

    def batches(self, size: int) -> Iterator[Columns]:
        """Yield the rounds in batches of up to `size` rows."""
        chosen = self.chosen._replace(as_logged=True)
        rows, number = open_reader(Path(self.path), None, chosen).rows(self.shape), 1
        while batch := [_logged(row) for row in islice(rows, size)]:
            lines = [_line(found) | {"round": number + i} for i, found in enumerate(batch)]
            yield columns_of({name: [line[name] for line in lines] for name in lines[0]})
            number += len(batch)


def described_rows(path: Path, chosen: Chosen) -> tuple[JsonObject, RowsPart]:
    """Return the definition of a model that fits a file, and the file as the only part of its log."""
    model = {"name": model_name_of(path), "labels": [], **survey(path, open_reader(path, None, chosen))}
    return model, RowsPart(str(path), chosen, shape_of(model))


def _logged(row: Row) -> JsonMapping:
    if "propensity" not in row.round:
        detail = "has no propensity: an evaluation needs the probability of each label that was answered"
        raise FileError(row.path, row.place, f"{detail}; name its column with --propensity-column")
    return row.round


def _line(found: JsonMapping) -> JsonObject:
    """Convert a round to the fields of a line of the log."""
    actions, truth = found.get("actions"), found.get("true_label")
    correct, paid = found.get("correct", found["label"] == truth), found.get("costs") or {}
    paid = {each["id"]: each.get("cost") for each in actions or ()} | paid
    return {
        "label": found["label"],
        "propensity": found["propensity"],
        "reward": found.get("reward", float(correct)),
        "true_label": truth,
        "context": found["context"],
        "eligible": found.get("eligible"),
        "holdout": found.get("holdout", False),
        "action_count": None if actions is None else len(actions),
        "cost": found.get("cost", paid.get(found["label"])),
        "cost_weight": found.get("cost_weight"),
        "costs": found.get("costs"),
    }
