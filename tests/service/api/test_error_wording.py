"""The law of error texts: a refusal says what was given and what is allowed."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.refused import MODEL
from tests.service.sample_models import definition
from tests.service.workers import Running, running

SPARSE, BY_NAME = "wording-sparse", "wording-named"
NUMBERS, INDICES = (
    "send a list of 3 numbers, such as [0.5, -1, 0.25]",
    'send an object with "indices", integers from 0 to 6',
)
OF_ANOTHER_KIND: list[tuple[str, Any, str]] = [
    (MODEL, {"age": 31}, f'context: got an object with "age"; the model has dense features: {NUMBERS}'),
    (MODEL, [0.5, 0.5], f"context: got a list of 2 numbers; the model has dense features: {NUMBERS}"),
    (MODEL, {"indices": [0], "values": [1.0]},
        f'context: got an object with "indices" and "values"; the model has dense features: {NUMBERS}'),
    (SPARSE, [0.5, 0.5], f"context: got [0.5, 0.5]; the model has sparse features: {INDICES}"),
    (BY_NAME, [1, 2.5, -3], "context: got [1, 2.5, -3]; the model has named features: send an object of names"),
    (BY_NAME, [1e300], "context: got [1e+300]; the model has named features: send an object of names and values"),
    (BY_NAME, None, "context: got null; must be a list of numbers for dense features, an object with "),
    (SPARSE, {"age": 31}, f'context: got an object with "age"; the model has sparse features: {INDICES}'),
    (SPARSE, {"indices": [9], "values": [1.0]},
        "context.indices: got index 9; the model's indices are integers from 0 to 6"),
    (SPARSE, {"indices": [1, 2, 1], "values": [1.0] * 3},
        "context.indices: got index 1 twice; indices must be unique"),
    (SPARSE, {"indices": [1, 2], "values": [1.0]}, "context.indices: got 2 indices and 1 value;"),
]  # fmt: skip
KINDS = '"dense", "named", "none" or "sparse"'
CREATIONS: list[tuple[dict[str, Any], str]] = [
    ({"features": {"size": 3}}, f"features.kind: missing; must be {KINDS}"),
    ({"features": {"kind": "dens", "size": 3}}, f'features.kind: got "dens"; must be {KINDS}'),
    ({"learner": "squarcb"},
        'learner.algorithm: got "squarcb"; did you mean "squarecb"? Known algorithms: adaboost-olm, '),
    ({"learner": {"algorithm": "squarcb"}}, 'learner.algorithm: got "squarcb"; did you mean "squarecb"? '),
    ({"learner": 3}, 'learner: got 3; must be an algorithm\'s name or an object with "algorithm"'),
    ({"learner": {}}, "learner.algorithm: missing; must be a string"),
    ({"learner": {"algorithm": "squarecb", "gap_scal": 8.0}},
        'learner.gap_scal: squarecb does not have this hyperparameter; did you mean "gap_scale"? Its '),
    ({"learner": {"algorithm": "squarecb", "gap_scale": -1}},
        "learner.gap_scale: got -1; must be a number between 0.001 and 1000000"),
    ({"learner": {"algorithm": "fastcb", "half_life_rounds": 5}}, "learner.half_life_rounds: got 5; must be "),
    ({"learner": {"algorithm": "gaptron", "horizon": 5}}, "learner.horizon: "),
    ({"windows_seconds": 3}, 'windows_seconds: unknown field; did you mean "window_seconds"? '),
]  # fmt: skip
BROKEN: list[tuple[bytes, str]] = [
    (b"", 'the body: missing; must be an object with "model"'),
    (b"{a:1}", "the body is not JSON: expected a member's name in double quotes at character 1"),
    (b'{"a" 1}', "the body is not JSON: expected a colon after the member's name at character 5"),
    (b"[1 2]", "the body is not JSON: expected a comma or the end of the list or object at character 3"),
    (b'{"a', "the body is not JSON: the string has no closing quote; it begins at character 1"),
    (b'{"a\n":1}', "the body is not JSON: a string contains an unescaped control character at character 3"),
    (b'{"a":"\\x"}', "the body is not JSON: a string contains an unknown escape at character 6"),
    (b'{"a":"\xff"}', "the body is not JSON: it is not UTF-8: byte 0xff at position 6"),
    (b"\x1f\x8b\x08\x00....", "the body is not JSON: it is compressed with gzip; send it uncompressed"),
    (b"[" * 9000, "the body is not JSON: its lists and objects are nested too deeply"),
]  # fmt: skip
QUERIES = [
    (
        "/models?limt=5",
        'limt: unknown query parameter; did you mean "limit"? Known parameters: search, sort, cursor, limit',
    ),
    ("/learners?a=1", "a: unknown query parameter; this operation has none"),
    ("/models?limit=1&limit=2", "limit: given 2 times; give it once"),
]
ALL: list[tuple[str, str, Any, str]] = [
    *[("POST", "/predict", {"model": model, "context": context}, detail) for model, context, detail in OF_ANOTHER_KIND],
    *[("POST", "/models", definition("wording-new") | changes, detail) for changes, detail in CREATIONS],
    *[("POST", "/predict", content, detail) for content, detail in BROKEN],
    *[("GET", path, b"", detail) for path, detail in QUERIES],
    ("GET", "/nothing", b"", 'there is nothing at the path "/nothing"'),
    ("PUT", "/predict", b"", 'got "PUT"; the path allows POST'),
]


@pytest.fixture(scope="module")
def stage(store_url: str) -> Iterator[Running]:
    kinds: dict[str, Any] = {MODEL: {}, SPARSE: {"features": {"kind": "sparse", "size": 7}}}
    with running(store_url) as one:
        for name, fields in {**kinds, BY_NAME: {"features": {"kind": "named"}}}.items():
            one.send("DELETE", f"/models/{name}")
            assert one.post("/models", definition(name, **fields)).status_code == 201
        yield one
        one.send("DELETE", f"/models/{MODEL}")


@pytest.mark.parametrize(("method", "path", "body", "detail"), ALL)
def test_a_refusal_says_what_is_allowed(stage: Running, method: str, path: str, body: Any, detail: str) -> None:
    response = stage.post(path, body) if method == "POST" else stage.send(method, path)
    assert response.status_code >= 400
    assert response.json()["detail"].startswith(detail)
    if isinstance(body, dict) and path == "/predict":
        item = stage.post("/predict/batch", {"model": body["model"], "contexts": [body["context"]]})
        assert item.json()["predictions"][0]["detail"].startswith(detail)
