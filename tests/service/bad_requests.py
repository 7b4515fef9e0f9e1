"""Requests that the service must refuse, and the expected problems: the table of `test_bad_input.py`."""

import math
from urllib.parse import quote

from tests.service.bad_changes import CHANGES, LIFECYCLE
from tests.service.bad_creations import CREATIONS, INVALID_NAMES
from tests.service.refused import (
    FULL_INFORMATION,
    LABEL_SET,
    LONG,
    MODEL,
    MOST_BYTES,
    RANKING,
    Refused,
    X,
    _get,
    _judge,
    _number,
    _post,
    _predict,
    _raw,
    _several,
)

PREDICTIONS = [
    _predict("unknown model", "model-not-found", "model", status=404, model="nobody"),
    _predict("context too short", "wrong-context-length", "context", context=[0.6, 0.8]),
    _predict("context too long", "wrong-context-length", "context", context=[0.1] * 4),
    _predict("empty context", "out-of-range", "context", context=[]),
    _predict("norm over the bound", "norm-exceeded", "context", context=[0.6, 0.8, 1e-3]),
    _predict("norm that overflows", "norm-exceeded", "context", context=[1e308, 1e308, 1e308]),
    _number("NaN", "NaN", "not-finite"),
    _number("Infinity", "Infinity", "not-finite"),
    _number("-Infinity", "-Infinity", "not-finite"),
    _number("1e999", "1e999", "not-finite"),
    _number("-1e999", "-1e999", "not-finite"),
    _number("400 digits", LONG, "out-of-range"),
    _number("400 negative digits", f"-{LONG}", "out-of-range"),
    _number("400 digits and a point", f"{LONG}.0", "not-finite"),
    _number("true", "true", "wrong-type"),
    _number("text", '"1"', "wrong-type"),
    _number("null", "null", "wrong-type"),
    _number("list", "[1]", "wrong-type"),
    _number("object", "{}", "wrong-type"),
    _predict("nested list", "wrong-type", "context.0", context=[X]),
    _predict("context as another object", "wrong-context-length", "context", context={"a": 1.0}),
    _predict("context sparse", "wrong-context-length", "context", context={"indices": [0], "values": [1.0]}),
    _predict("negative index", "out-of-range", "context.indices.0", context={"indices": [-1], "values": [1.0]}),
    _predict("NaN by index", "not-finite", "context.values.0", context={"indices": [0], "values": [math.nan]}),
    _predict("context as text", "wrong-type", "context", context="0.6,0.8,0"),
    _predict("context null", "wrong-type", "context", context=None),
    _predict("model as number", "wrong-type", "model", model=1),
    _predict("model null", "wrong-type", "model", model=None),
    _predict("unknown field", "unknown-field", "colour", colour="red"),
    _predict("flag as number", "wrong-type", "include_distribution", include_distribution=1),
    _predict("flag as text", "wrong-type", "include_distribution", include_distribution="true"),
    _predict("id as number", "wrong-type", "prediction_id", prediction_id=1),
    _predict("id empty", "invalid-name", "prediction_id", prediction_id=""),
    _predict("id with a blank", "invalid-name", "prediction_id", prediction_id="a b"),
    _predict("id with braces", "invalid-name", "prediction_id", prediction_id="{a}"),
    _predict("id with a newline", "invalid-name", "prediction_id", prediction_id="a\n"),
    _predict("id too long", "invalid-name", "prediction_id", prediction_id="a" * 129),
    _predict("id of another model", "invalid-identifier", "prediction_id", prediction_id="other:a"),
    _predict("id with two colons", "invalid-name", "prediction_id", prediction_id=f"{MODEL}:a:b"),
    _predict(
        "id used before", "prediction-conflict", "prediction_id", status=409, prediction_id="open", context=[0.5] * 3
    ),
    _predict(
        "distribution of rankings", "no-distribution", "include_distribution", model=RANKING, include_distribution=True
    ),
    _predict("no eligible label", "out-of-range", "eligible", eligible=[]),
    _predict("eligible label unknown", "unknown-label", "eligible.1", eligible=["red", "purple"]),
    _predict("eligible label twice", "duplicate-labels", "eligible", eligible=["red", "red"]),
    _predict("eligible label with half a pair", "invalid-json", None, status=400, eligible=["\ud800"]),
    _predict("eligible label as number", "wrong-type", "eligible.0", eligible=[1]),
    _predict("eligible as text", "wrong-type", "eligible", eligible="red"),
    _predict("eligible labels of rankings", "eligible-unsupported", "eligible", model=RANKING, eligible=["red"]),
    _predict("baseline of rankings", "eligible-unsupported", "baseline", model=RANKING, baseline="red"),
    _predict("no slots", "out-of-range", "top", top=0),
    _predict("too many slots", "out-of-range", "top", top=101),
    _predict("slots as text", "wrong-type", "top", top="2"),
    _predict("slots as flag", "wrong-type", "top", top=True),
    _predict("more slots than labels", "too-few-choices", "top", top=5),
    _predict("more slots than eligible labels", "too-few-choices", "top", top=2, eligible=["red"]),
    _predict("slots of rankings", "top-unsupported", "top", model=RANKING, top=2),
    _predict("slots of sets", "top-unsupported", "top", model=LABEL_SET, top=2),
    _predict("slots: distribution", "no-distribution", "include_distribution", top=2, include_distribution=True),
    _predict("baseline unknown", "unknown-label", "baseline", baseline="purple"),
    _predict("baseline not eligible", "invalid-request", "baseline", baseline="red", eligible=["blue"]),
    _predict("baseline as number", "wrong-type", "baseline", baseline=1),
    _predict("policy of an online model", "wrong-mode", "policy", policy={"red": 1.0}),
    _predict("policy with zero", "out-of-range", "policy.red", policy={"red": 0.0, "blue": 1.0}),
    _predict("policy with an empty label", "out-of-range", "policy", policy={"": 1.0}),
    _predict("policy with a long label", "out-of-range", "policy", policy={"x" * 257: 1.0}),
    _predict("policy with half a surrogate pair", "invalid-json", None, status=400, policy={"\ud800": 1.0}),
    _predict("policy of 400 digits", "out-of-range", "policy.red", policy={"red": int(LONG)}),
    _predict("policy with text", "wrong-type", "policy.red", policy={"red": "1"}),
    _post(
        "batch: contexts and items",
        "/predict/batch",
        {"model": MODEL, "contexts": [X], "items": [{}]},
        422,
        "invalid-request",
        "items",
    ),
    _post(
        "batch: ids beside items",
        "/predict/batch",
        {"model": MODEL, "prediction_ids": ["a"], "items": [{}]},
        422,
        "invalid-request",
        "prediction_ids",
    ),
    _post("batch: no contexts", "/predict/batch", {"model": MODEL}, 422, "missing-field", "contexts"),
    _post("batch: no items", "/predict/batch", {"model": MODEL, "items": []}, 422, "out-of-range", "items"),
    _post("predict: no model", "/predict", {"context": X}, 422, "missing-field", "model"),
    _post("predict: no context", "/predict", {"model": MODEL}, 422, "missing-field", "context"),
    *(_predict(f"model {case}", "invalid-name", "model", model=name) for case, name in INVALID_NAMES.items()),
]


EXPLANATIONS = [
    _post("explain: unknown model", "/models/nobody/explain", {"context": X}, 404, "model-not-found", "name"),
    _post("explain: no context", f"/models/{MODEL}/explain", {}, 422, "missing-field", "context"),
    _post("explain: short", f"/models/{MODEL}/explain", {"context": [1.0]}, 422, "wrong-context-length", "context"),
    _post("explain: too long", f"/models/{MODEL}/explain", {"context": [1.0] * 3}, 422, "norm-exceeded", "context"),
    _post("explain: id", f"/models/{MODEL}/explain", {"prediction_id": "a"}, 422, "unknown-field", "prediction_id"),
]


FEEDBACK = [
    _judge("unknown model", "model-not-found", "prediction_id", status=404, prediction_id="nobody:a", correct=True),
    _judge(
        "unknown prediction",
        "prediction-not-found",
        "prediction_id",
        status=404,
        prediction_id=f"{MODEL}:no",
        correct=True,
    ),
    _judge(
        "expired", "prediction-expired", "prediction_id", status=404, prediction_id=f"{MODEL}:expired", correct=True
    ),
    _judge("contradiction", "feedback-conflict", "correct", status=409, prediction_id=f"{MODEL}:closed", correct=False),
    _judge("neither correct nor true_label", "invalid-request", "correct"),
    _judge("nulls", "invalid-request", "correct", correct=None, true_label=None),
    _judge("unknown label", "unknown-label", "true_label", true_label="purple"),
    _judge("empty label", "out-of-range", "true_label", true_label=""),
    _judge("label as number", "wrong-type", "true_label", true_label=1),
    _judge("correct as number", "wrong-type", "correct", correct=1),
    _judge("correct as text", "wrong-type", "correct", correct="true"),
    _judge("correct as list", "wrong-type", "correct", correct=[True]),
    _judge("unknown field", "unknown-field", "colour", correct=True, colour="red"),
    _judge("reward for a learner of bits", "reward-not-accepted", "reward", reward=0.5),
    _judge("reward of 1 for a learner of bits", "reward-not-accepted", "reward", reward=1.0),
    _judge("reward with correct", "reward-not-alone", "reward", correct=True, reward=1.0),
    _judge("reward with a label", "reward-not-alone", "reward", true_label="red", reward=1.0),
    _judge("reward with labels", "reward-not-alone", "reward", true_labels=["red"], reward=1.0),
    _judge("reward below 0", "out-of-range", "reward", reward=-0.1),
    _judge("reward above 1", "out-of-range", "reward", reward=1.1),
    _judge("reward of 400 digits", "out-of-range", "reward", reward=int(LONG)),
    _judge("reward as text", "wrong-type", "reward", reward="0.5"),
    _judge("reward as flag", "wrong-type", "reward", reward=True),
    _judge("not activated", "not-activated", "prediction_id", status=409, prediction_id=f"{MODEL}:off", correct=True),
    _judge("id as number", "wrong-type", "prediction_id", correct=True, prediction_id=7),
    _judge("id null", "wrong-type", "prediction_id", correct=True, prediction_id=None),
    _judge("id without a model", "invalid-name", "prediction_id", correct=True, prediction_id="open"),
    _judge("id without an id", "invalid-name", "prediction_id", correct=True, prediction_id=f"{MODEL}:"),
    _judge("label needed", "label-needed", "true_label", prediction_id=f"{FULL_INFORMATION}:open", correct=False),
    _judge("several labels", "wrong-truth", "true_labels", true_labels=["red"]),
    _judge("no labels", "wrong-truth", "true_labels", true_labels=[]),
    _judge("labels as text", "wrong-type", "true_labels", true_labels="red"),
    _judge("labels as object", "wrong-type", "true_labels", true_labels={"red": 1}),
    _judge("label among labels as number", "wrong-type", "true_labels.1", true_labels=["red", 1]),
    _judge("empty label among labels", "out-of-range", "true_labels.0", true_labels=[""]),
    _several("one label", "wrong-truth", "true_label", true_label="red"),
    _several("both", "wrong-truth", "true_label", true_label="red", true_labels=["red"]),
    _several("unknown label", "unknown-label", "true_labels.1", true_labels=["red", "purple"]),
    _several("label twice", "wrong-truth", "true_labels.2", true_labels=["red", "blue", "red"]),
    _several("label needed", "label-needed", "true_labels", correct=False),
    _several("contradiction", "inconsistent-feedback", "correct", true_labels=["red"], correct=True),
    _several("one label", "wrong-truth", "true_label", RANKING, true_label="red"),
    _several("unknown label", "unknown-label", "true_labels.0", RANKING, true_labels=["purple"]),
    _several("label twice", "wrong-truth", "true_labels.3", RANKING, true_labels=["red", "blue", "none", "red"]),
    _several("incomplete", "wrong-truth", "true_labels", RANKING, true_labels=["red", "blue", "none"]),
    _several("empty", "wrong-truth", "true_labels", RANKING, true_labels=[]),
    _several("label needed", "label-needed", "true_labels", RANKING, correct=False),
    _post("feedback: no id", "/feedback", {"correct": True}, 422, "missing-field", "prediction_id"),
    *(
        _judge(f"model {case}", "invalid-name", "prediction_id", correct=True, prediction_id=f"{name}:a")
        for case, name in INVALID_NAMES.items()
        if case != "colon"
    ),
]


ACTIVATIONS = [
    _post("activate: no id", "/activate", {}, 422, "missing-field", "prediction_id"),
    _post("activate: id null", "/activate", {"prediction_id": None}, 422, "wrong-type", "prediction_id"),
    _post("activate: id without a model", "/activate", {"prediction_id": "a"}, 422, "invalid-name", "prediction_id"),
    _post("activate: unknown field", "/activate", {"prediction_id": f"{MODEL}:a", "on": 1}, 422, "unknown-field", "on"),
    _post(
        "activate: unknown", "/activate", {"prediction_id": f"{MODEL}:no"}, 404, "prediction-not-found", "prediction_id"
    ),
    _post(
        "activate: unknown model", "/activate", {"prediction_id": "nobody:a"}, 404, "model-not-found", "prediction_id"
    ),
    _post(
        "activate: late",
        "/activate",
        {"prediction_id": f"{MODEL}:off-expired"},
        404,
        "prediction-expired",
        "prediction_id",
    ),
    _predict("activation as number", "wrong-type", "activated", activated=1),
    _predict("activation null", "wrong-type", "activated", activated=None),
]


READS = [
    _get("unknown model", "/models/nobody", 404, "model-not-found", "name"),
    _get("rounds of an unknown model", "/models/nobody/rounds", 404, "model-not-found", "name"),
    Refused("delete an unknown model", "DELETE", "/models/nobody", None, 404, "model-not-found", "name"),
    _get("name with a slash", "/models/a%2Fb", 404, "no-such-path"),
    _get("dots as a name", "/models/%2e%2e", 422, "invalid-name", "name"),
    *(
        _get(f"read name {case}", f"/models/{quote(name, safe='')}", 422, "invalid-name", "name")
        for case, name in INVALID_NAMES.items()
        if case not in {"empty", "dots"}
    ),
    *(
        Refused(f"delete name {case}", "DELETE", f"/models/{quote(name, safe='')}", None, 422, "invalid-name", "name")
        for case, name in INVALID_NAMES.items()
        if case not in {"empty", "dots"}
    ),
    _get("malformed cursor", "/models?cursor=%7Ba%7D", 422, "invalid-name", "cursor"),
    _get("no models a page", "/models?limit=0", 422, "out-of-range", "limit"),
    _get("too many models a page", "/models?limit=1001", 422, "out-of-range", "limit"),
    _get("limit as text", "/models?limit=ten", 422, "wrong-type", "limit"),
    _get("rounds after a negative number", f"/models/{MODEL}/rounds?after=-1", 422, "out-of-range", "after"),
    _get("rounds after 400 digits", f"/models/{MODEL}/rounds?after={LONG}", 422, "out-of-range", "after"),
    _get("changes of an unknown model", "/models/nobody/changes", 404, "model-not-found", "name"),
    _get("changes after a negative number", f"/models/{MODEL}/changes?after=-1", 422, "out-of-range", "after"),
    _get("changes after 400 digits", f"/models/{MODEL}/changes?after={LONG}", 422, "out-of-range", "after"),
    _get("no changes a page", f"/models/{MODEL}/changes?limit=0", 422, "out-of-range", "limit"),
    _get("too many changes a page", f"/models/{MODEL}/changes?limit=1001", 422, "out-of-range", "limit"),
    _get("no rounds a page", f"/models/{MODEL}/rounds?limit=0", 422, "out-of-range", "limit"),
]


BODIES = [
    *_raw("empty body", b"", 422, "missing-field"),
    *_raw("null", b"null", 422, "wrong-type"),
    *_raw("list", b"[]", 422, "wrong-type"),
    *_raw("text", b'"text"', 422, "wrong-type"),
    *_raw("broken JSON", b'{"model":', 400, "invalid-json"),
    *_raw("two values", b"{} {}", 400, "invalid-json"),
    *_raw("not JSON", b"model=a&context=1", 400, "invalid-json"),
    *_raw("not UTF-8", b'{"model":"\xff"}', 400, "invalid-json"),
    *_raw("deep nesting", b'{"model":' + b"[" * 9000 + b"]" * 9000 + b"}", 400, "invalid-json"),
    *_raw("deep objects", b'{"a":' * 3000 + b"1" + b"}" * 3000, 400, "invalid-json"),
    *_raw("too many digits", b'{"model":' + b"9" * 9000 + b"}", 400, "invalid-json"),
    *_raw("too large", b" " * (MOST_BYTES + 1), 413, "body-too-large"),
    *(
        each._replace(in_chunks=True)
        for each in _raw("too large in chunks", b" " * (MOST_BYTES + 1), 413, "body-too-large")
    ),
    *(each._replace(content_type="text/plain") for each in _raw("as text", b"{}", 415, "unsupported-media-type")),
    *(each._replace(content_type="application/xml") for each in _raw("as XML", b"<a/>", 415, "unsupported-media-type")),
]


REFUSED = [*PREDICTIONS, *EXPLANATIONS, *FEEDBACK, *ACTIVATIONS, *CREATIONS, *CHANGES, *LIFECYCLE, *READS, *BODIES]
