"""Changes of models that the service must refuse."""

import json
import math

from tests.service.refused import LABEL_SET, MODEL, RANKING, Refused


def _patch(case: str, slug: str, field: str | None, model: str = MODEL, status: int = 422, **body: object) -> Refused:
    content = json.dumps(body).encode()
    return Refused(f"change: {case}", "PATCH", f"/models/{model}", content, status, slug, field)


def _labels(case: str, slug: str, field: str, model: str = MODEL, **labels: object) -> Refused:
    return _patch(case, slug, f"labels.{field}" if field else "labels", model, labels=labels)


def _shadow(
    case: str, slug: str, field: str | None, learner: object, model: str = MODEL, name: str = "rival", status: int = 422
) -> Refused:
    content = json.dumps({"learner": learner}).encode()
    return Refused(f"shadow: {case}", "PUT", f"/models/{model}/shadows/{name}", content, status, slug, field)


UNIFORM_HALF = {"fraction": 0.5, "policy": "uniform"}

CHANGES = [
    _shadow("unknown model", "model-not-found", "name", "uniform", "nobody", status=404),
    _shadow("a malformed name", "invalid-name", "shadow", "uniform", name="a%20b"),
    _shadow("no learner", "wrong-type", "learner", None),
    _shadow("a number", "wrong-type", "learner", 7),
    _shadow("unknown learner", "unknown-algorithm", "learner.algorithm", "oracle"),
    _shadow("unknown hyperparameter", "invalid-hyperparameter", "learner.x", {"algorithm": "uniform", "x": 1}),
    _shadow("true labels needed", "learner-cannot-shadow", "learner.algorithm", "perceptron"),
    _shadow("rankings", "learner-cannot-shadow", "learner.algorithm", "fenchel-young-ranking"),
    _shadow("of a model of sets", "learner-cannot-shadow", "learner.algorithm", "uniform", LABEL_SET),
    _patch("unknown model", "model-not-found", "name", "nobody", 404, window_seconds=1.0),
    _patch("unknown field", "unknown-field", "colour", colour="red"),
    _patch("the name", "unknown-field", "name", name="other"),
    _patch("the learner", "unknown-field", "learner", learner="uniform"),
    _patch("window as text", "wrong-type", "window_seconds", window_seconds="1"),
    _patch("window null", "wrong-type", "window_seconds", window_seconds=None),
    _patch("window zero", "out-of-range", "window_seconds", window_seconds=0.0),
    _patch("window NaN", "not-finite", "window_seconds", window_seconds=math.nan),
    _patch("expiry without a window", "missing-field", "window_seconds", on_expiry="incorrect"),
    _patch(
        "expiry and late feedback",
        "closing-policy",
        "on_expiry",
        on_expiry="incorrect",
        window_seconds=9.0,
        late_feedback="accept",
    ),
    _patch("lag too long", "out-of-range", "freshness.max_lag_seconds", freshness={"max_lag_seconds": 60.5}),
    _patch("unknown choice", "unknown-choice", "late_feedback", late_feedback="maybe"),
    _patch("negative retention", "out-of-range", "retain_rounds", retain_rounds=-1),
    _patch("unknown mode", "unknown-choice", "mode", mode="asleep"),
    _patch("mode null", "unknown-choice", "mode", mode=None),
    _patch("logging of rankings", "invalid-request", "mode", RANKING, mode="logging"),
    _patch("holdout of rankings", "invalid-request", "holdout", RANKING, holdout=UNIFORM_HALF),
    _patch("holdout without a policy", "missing-field", "holdout.policy", holdout={"fraction": 0.5}),
    _patch("holdout of everything", "out-of-range", "holdout.fraction", holdout={"fraction": 1.0, "policy": "uniform"}),
    _patch("holdout of nothing", "out-of-range", "holdout.fraction", holdout={"fraction": 0.0, "policy": "uniform"}),
    _patch("holdout by an unknown policy", "unknown-choice", "holdout.policy", holdout=UNIFORM_HALF | {"policy": "x"}),
    _patch(
        "holdout of an unknown label",
        "unknown-label",
        "holdout.policy.label",
        holdout={"fraction": 0.5, "policy": {"label": "purple"}},
    ),
    _patch("labels as list", "wrong-type", "labels", labels=["a"]),
    _labels("unknown part of labels", "unknown-field", "colour", colour=[]),
    _labels("added label as number", "wrong-type", "add.0", add=[1]),
    _labels("empty added label", "out-of-range", "add.0", add=[""]),
    _labels("added label twice", "duplicate-labels", "add", add=["a", "a"]),
    _labels("retired label twice", "duplicate-labels", "retire", retire=["red", "red"]),
    _labels("label that the model has", "duplicate-labels", "add.0", add=["red"]),
    _labels("more labels of sets", "labels-fixed", "", LABEL_SET, add=["purple"]),
    _labels("labels of rankings", "labels-fixed", "", RANKING, retire=["red"]),
    _labels("retired label unknown", "unknown-label", "retire.1", retire=["red", "purple"]),
    _labels("retired label added", "unknown-label", "retire.0", retire=["purple"]),
    _labels("one label left", "too-few-labels", "retire", retire=["red", "green", "blue"]),
    _labels("no label left", "too-few-labels", "retire", retire=["red", "green", "blue", "none"]),
]

_FOLDER = f"/models/{MODEL}"


def _lifecycle(case: str, call: str, slug: str, field: str | None, body: object, status: int = 422) -> Refused:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Refused(f"{call}: {case}", "POST", f"{_FOLDER}/{call}", content, status, slug, field)


def _file(case: str, name: str, content: bytes, status: int, slug: str, field: str | None) -> Refused:
    path = f"/models/{name}/import"
    return Refused(f"import: {case}", "POST", path, content, status, slug, field, "application/octet-stream")


LIFECYCLE = [
    _lifecycle("id as number", "snapshots", "wrong-type", "id", {"id": 1}),
    _lifecycle("id with a blank", "snapshots", "invalid-name", "id", {"id": "a b"}),
    _lifecycle("id too long", "snapshots", "invalid-name", "id", {"id": "a" * 65}),
    _lifecycle("long note", "snapshots", "out-of-range", "note", {"note": "n" * 1001}),
    _lifecycle("half a pair", "snapshots", "invalid-json", None, {"note": "\ud800"}, 400),
    _lifecycle("unknown field", "snapshots", "unknown-field", "colour", {"colour": 1}),
    _lifecycle("no snapshot", "rollback", "missing-field", "snapshot", {}),
    _lifecycle("a path", "rollback", "invalid-name", "snapshot", {"snapshot": "../a"}),
    _lifecycle("no version", "rollback", "precondition-required", "If-Match", {"snapshot": "none"}, 428),
    _lifecycle("an option", "reset", "unknown-field", "hard", {"hard": True}),
    _lifecycle("no version", "reset", "precondition-required", "If-Match", {}, 428),
    _lifecycle("no name", "clone", "missing-field", "name", {}),
    _lifecycle("its own name", "clone", "model-exists", "name", {"name": MODEL}, 409),
    _lifecycle("a name with braces", "clone", "invalid-name", "name", {"name": "{a}"}),
    _lifecycle("JSON", "import", "unsupported-media-type", None, {}, 415),
    _file("an existing name", MODEL, b"", 409, "model-exists", "name"),
    _lifecycle("no shadow", "promote", "missing-field", "shadow", {}),
    _lifecycle("no version", "promote", "precondition-required", "If-Match", {"shadow": "none"}, 428),
    _file("noise", "bad-input-new", b"\xff" * 99, 422, "invalid-model-file", None),
    _file("no bytes", "bad-input-new", b"", 422, "invalid-model-file", None),
    Refused("export: unknown model", "GET", "/models/nobody/export", None, 404, "model-not-found", "name"),
    Refused("clone: unknown model", "POST", "/models/nobody/clone", b'{"name":"a"}', 404, "model-not-found", "name"),
    Refused("snapshot: unknown", "DELETE", f"{_FOLDER}/snapshots/none", None, 404, "snapshot-not-found", "snapshot"),
]
