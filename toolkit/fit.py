"""The command `wager fit`: fits a frozen model to labelled rows, with a bound on its excess risk."""

import json
import math
from pathlib import Path
from typing import Annotated

import numpy as np
import pydantic
import typer

from learners.algorithms.fenchel_young.fenchel_young import FenchelYoung
from learners.algorithms.improper.folklore import Folklore
from learners.base import Contexts, IntArray, State
from learners.codec import encode_state
from learners.estimators.inputs import take
from learners.evaluation.online_to_batch import average_weights, online_to_batch, state_of
from learners.evaluation.simulation import simulate
from service import __version__
from service.contexts.registry import context_kind
from service.error_messages.json_schemas import root_of
from service.error_messages.validation import explain
from service.errors import WagerError
from service.json_values import JsonObject
from service.lifecycle.model_file import ExportedModel, file_of
from service.models.model import Limits, Model, new_model
from service.replicas.statistics import SLOTS, RoundStatistics
from service.schemas.models import ModelDefinition
from service.settings import Settings
from toolkit import ToolError
from toolkit.backup_folder import write_file
from toolkit.files.columns import Chosen
from toolkit.files.lines import FileError
from toolkit.files.options import FeatureColumns, FeaturePrefix, LabelColumn, TextColumns, learner_in, names_in
from toolkit.files.readers import Reader, open_reader, survey
from toolkit.files.rows import shape_of
from toolkit.remote import DEFAULT_URL, AsJson, Key, Url, call, connect, path_of

_APPLY = (
    "online-to-batch conversion applies here to fenchel-young (Sakaue, Bao, Tsuchiya and Oki 2024, Theorem 4.6) with a "
    "fixed step up to its theorem's, and to folklore (Agarwal, Kale and Zimmert 2022)"
)
_LIMITS = Limits(
    *(Settings.model_fields[each].default for each in ("max_state_bytes", "max_step_cost", "max_evidence_bytes"))
)  # the defaults; the service checks its own limits when it imports the model
_NORM = 10.0  # the default bound on the norm of the comparators


def fit(
    file: Annotated[Path, typer.Argument(help="Labelled rows: CSV, NDJSON, Parquet, or a folder of Parquet parts.")],
    model: Annotated[str, typer.Option(help="Name of the new model.")],
    url: Url = DEFAULT_URL,
    api_key: Key = None,
    format_: Annotated[str | None, typer.Option("--format", help="csv, parquet or ndjson.")] = None,
    learner: Annotated[str, typer.Option(help="fenchel-young or folklore, or JSON with settings.")] = "fenchel-young",
    comparator_norm: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="fenchel-young: the bound is for weights up to this norm. Default: 10, or the radius if smaller.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the order of the rows and the draws.")] = 0,
    size: Annotated[int | None, typer.Option(min=1, help="Indices that named features are hashed to.")] = None,
    label_column: LabelColumn = None,
    feature_columns: FeatureColumns = None,
    feature_prefix: FeaturePrefix = None,
    text_columns: TextColumns = None,
    output: Annotated[Path | None, typer.Option(help="Write the file of the model, and send nothing.")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a frozen model in one pass over labelled rows in random order, with a bound on its excess risk."""
    path = path_of(model)
    chosen = Chosen(label_column, None, None, names_in(feature_columns), feature_prefix, names_in(text_columns))
    reader = open_reader(file, format_, chosen)
    new = _new_model(model, survey(file, reader), learner, size)
    if not isinstance(player := new.learner, FenchelYoung | Folklore):
        raise ToolError(f"learner: got {player.algorithm}; {_APPLY}")
    contexts, truths = _sample(reader, new)
    bound = bound_of(player, contexts.n, comparator_norm)
    state, error = fit_rows(player, contexts, truths, seed)
    content = _file(new, state)
    if output is not None:
        if output.is_file() or not output.exists():
            write_file(output.resolve(), [content])
        else:  # such as a pipe
            output.write_bytes(content)
    else:
        with connect(url, api_key) as client:
            call(
                client, "POST", f"{path}/import", content=content, headers={"Content-Type": "application/octet-stream"}
            )
    result = {"model": model, "rows": contexts.n, "progressive_error": error, **bound}
    typer.echo(json.dumps(result) if as_json else _sentences(result))


def _new_model(name: str, found: JsonObject, learner: str, size: int | None) -> Model:
    if "actions" in found:
        raise ToolError(f"the rows have actions instead of labels; {_APPLY}")
    if (kind := found["features"]["kind"]) == "none":
        raise ToolError("the rows have no features")
    if size is not None:
        if kind != "named":
            raise ToolError(f"--size: is for named features; the rows have {kind} ones")
        found["features"] = {**found["features"], "size": size}
    try:
        choice = learner_in(learner)
        body = {"name": name, **found, "learner": choice, "mode": "frozen"}
        return new_model(ModelDefinition.model_validate_json(json.dumps(body)), "", _LIMITS)
    except WagerError as error:
        raise ToolError(f"{error.field}: {error.detail}" if error.field else error.detail) from error
    except pydantic.ValidationError as error:
        raise ToolError(explain(error.errors(include_url=False)[0], root_of(ModelDefinition)).sentence("")) from error
    except ValueError as error:
        raise ToolError(f"--learner: is not JSON: {error}") from error


def _sample(reader: Reader, model: Model) -> tuple[Contexts, IntArray]:
    """Return the contexts, as the learner gets them, and the true labels (n,)."""
    kind, shape = context_kind(model.definition.features), shape_of(model.definition.model_dump(mode="json"))
    contexts, truths = [], []
    for row in reader.rows(shape):
        if "true_label" not in row.round:
            raise FileError(row.path, row.place, "has no true label, which fit needs of every row")
        if "eligible" in row.round:
            raise FileError(row.path, row.place, "eligible: the bound needs rows for which every label was eligible")
        try:
            contexts.append(kind.check(row.round["context"]))
        except WagerError as error:
            raise FileError(row.path, row.place, f"{error.field}: {error.detail}") from error
        truths.append(shape.labels[row.round["true_label"]])
    return model.choice.prepared(kind.to_batch(contexts)), np.array(truths, np.int64)


def bound_of(learner: FenchelYoung | Folklore, rows: int, comparator_norm: float | None) -> JsonObject:
    """Return the bound on the expected excess risk after a pass over T = `rows` independent rows, and its conditions.

    Raises `ToolError` for settings and comparators to which no theorem applies.
    """
    if isinstance(learner, Folklore):
        if comparator_norm is not None:
            raise ToolError("--comparator-norm: is for fenchel-young; set the comparator_bound of folklore instead")
        return {
            "excess_risk": learner.regret_bound(rows) / rows,
            "holds": "in expectation over independent rows and the random step",
            "loss": "the logistic loss in nats",
            "comparators": f"that of any weights whose rows have a norm of at most {learner.comparator_bound:g}",
            "source": "Agarwal, Kale and Zimmert 2022, R(T)/T",
        }
    if learner.proved_step is None:
        raise ToolError(f"learning_rate: got {learner.learning_rate}; {_APPLY}")
    most = math.inf if learner.radius is None else float(learner.radius)
    norm = min(_NORM, most) if comparator_norm is None else comparator_norm
    if not (norm <= most and math.isfinite(norm)):
        raise ToolError(f"--comparator-norm: got {norm:g}; must be finite, and at most the radius, if there is one")
    return {
        "excess_risk": norm**2 / (2.0 * learner.proved_step) / rows,
        "holds": "in expectation over independent rows",
        "loss": "the probability of a mistake",
        "comparators": f"the base-2 logistic loss of any weights with a Frobenius norm of at most {norm:g}",
        "source": "Sakaue, Bao, Tsuchiya and Oki 2024, Theorem 4.6",
    }


def fit_rows(learner: FenchelYoung | Folklore, contexts: Contexts, truths: IntArray, seed: int) -> tuple[State, float]:
    """Play prepared contexts once, in an order and with draws that the seed determines.

    Return the state from online-to-batch conversion, and the share of wrong answers in the pass.
    """
    order, step, draws = (np.random.default_rng((seed, stream)) for stream in range(3))
    places = order.permutation(contexts.n)
    contexts, truths = take(contexts, places), truths[places]
    mistakes = simulate(learner, contexts, truths, draws.random(contexts.n)).mistakes
    if isinstance(learner, Folklore):
        return online_to_batch(learner, contexts, truths, int(step.integers(1, contexts.n + 1))), float(mistakes.mean())
    return state_of(learner, average_weights(learner, contexts, truths)), float(mistakes.mean())


def _file(model: Model, state: State) -> bytes:
    """Return the file of a model without rounds; equal models and states have equal files."""
    definition = json.loads(model.definition.model_dump_json(exclude={"actions"}))
    exported = ExportedModel(name=model.name, definition=definition, changes=[], rounds=0, created_at=0.0)
    slot = model.definition.window_seconds / SLOTS
    statistics = RoundStatistics(labels=len(model.definition.labels), slot_seconds=slot).encode()
    return b"".join(file_of(exported, statistics, encode_state(model.learner, state), __version__))


def _sentences(result: JsonObject) -> str:
    return (
        f"{result['model']}: frozen, from {result['rows']:,} rows. Before each row was learned, the answer to it "
        f"was drawn: {result['progressive_error']:.2%} were wrong.\n"
        f"On a new row, {result['loss']} exceeds {result['comparators']} by at most {result['excess_risk']:.6g}, "
        f"{result['holds']}, without a confidence level ({result['source']})."
    )
