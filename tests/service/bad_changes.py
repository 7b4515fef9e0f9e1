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
