"""The law of plain bodies: whatever msgspec reads, pydantic reads, with the same values."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pydantic
import pytest

from service.contexts.registry import read_contexts
from service.schemas.fast_decoders import DecodedFeedback, plain_reader, read_decoded_feedback
from service.schemas.rounds import (
    FeedbackBatchRequest,
    FeedbackRequest,
    PredictBatchRequest,
    PredictItem,
    PredictRequest,
)
from service.strict_body import Body

_NUMBERS = """0 -0 1 -1 0.5 -0.0 1e2 1E+2 1e-400 1e400 -1e400 1e308 1.7976931348623157e308 1.7976931348623159e308
    5e-324 9007199254740993 18446744073709551616 -18446744073709551617 123456789012345678901234567890 0.1
    1.0000000000000002 4.9406564584124654e-324 2.2250738585072011e-308 NaN Infinity -Infinity nan inf 01 1. .5 +1 1e 0x1
    1_000 true false null "1" "" [] [1] {} {"a":1}"""
NUMBERS = _NUMBERS.split()
BATCHES = (PredictBatchRequest, FeedbackBatchRequest)
HUGE = ["1" + "0" * 308, "1" + "0" * 400, "0." + "0" * 400 + "1", "1" * 5000]
IDS = [
    "m:a", "m:a:0", "m:a:1", "m:a:01", "m:a:999999999999999", "m:a:1000000000000000", "m:a:-1", "m:~a.-_=+/@:7", "m:",
    ":a", "m", "", "m:a:b", "m:a:", "m:a ", " m:a", "m:a\n", "\nm:a", "m:a\nn:b", "m:a:1\n", "m:a\r", "m:é", "é:a",
    "M" * 64 + ":a", "M" * 65 + ":a", "m:" + "b" * 128, "m:" + "b" * 129, "-m:a", "m:a\u2028n:b", "m:a\x00",
    "m:a:\u0661",
]  # fmt: skip
FIELDS: list[tuple[str, list[str]]] = [
    ("correct", ["true", "false", "null", "1", "0", '"true"', "1.0"]),
    ("reward", ["0", "1", "0.5", "-0.0", "1.0000000000000002", "-1e-300", "2", "null", "true", "NaN", "1e400", '"1"']),
    ("true_label", ["null", '"a"', '""', "1"]),
    ("true_labels", ["null", "[]", '["a"]', "1"]),
    ("other", ["null", "1"]),
    ("prediction_id", ["null", "1", '"m:b"', '"m:"']),
]
"""Further members of an item; the last gives a member twice."""
MODELS = [*map(json.dumps, ("m", "M.-_9", "", "m\n", "é", "m" * 64, "m" * 65, "-m")), "null", "1", r'"\u006d"']
MEMBERS = [
    '"items": null', '"top": 1', '"top": null', '"activated": false', '"activated": 1', '"prediction_ids": [null]',
    '"model": 1', '"model": "n"', '"include_distribution": true', '"include_distribution": null', '"other": 1',
]  # fmt: skip
"""Further members of a prediction, or of a batch of them."""


def predictions(contexts: str, model: str = '"m"', rest: str = "") -> str:
    return f'{{"model": {model}, "contexts": {contexts}{rest}}}'


def sparse(indices: str = "[0, 3]", values: str = "[1, -0.5]", rest: str = "") -> str:
    return f'{{"indices": {indices}, "values": {values}{rest}}}'


def one(context: str, model: str = '"m"', rest: str = "") -> str:
    return f'{{"model": {model}, "context": {context}{rest}}}'


def feedback(*items: str) -> str:
    return f'{{"feedback": [{", ".join(items)}]}}'


def bodies() -> Iterator[tuple[type[Body], str]]:
    yield from bodies_of_batches()
    for number in NUMBERS + HUGE:
        yield PredictRequest, one(f"[2, {number}]")
        yield PredictRequest, one(sparse(values=f"[2, {number}]"))
        yield PredictRequest, one(sparse(indices=f"[2, {number}]"))
    contexts = ("[]", "{}", "null", "1", "[null]", "[[1]]", '{"a": 1}', '{"indices": [0]}', '{"values": [0]}')
    for context in (*contexts, sparse("[]", "[]"), sparse("[1]"), sparse(rest=', "a": 1'), sparse("[2147483648, 0]")):
        yield PredictRequest, one(context)
    for context in ("[1]", sparse()):
        for model in MODELS:
            yield PredictRequest, one(context, model)
        for member in (*MEMBERS, '"context": [2]', '"actions": []', '"prediction_id": "m:a"', '"eligible": ["a"]'):
            yield PredictRequest, one(context, rest=f", {member}")
            yield PredictRequest, f"{{{member}, {one(context)[1:]}"
    for text in choices():
        yield PredictRequest, text
    for item in items():
        yield FeedbackRequest, item


def choice(features: str, id_: str = '"a"', context: str = '{"x": 1}', rest: str = "") -> str:
    actions = f'[{{"id": "z", "features": {{"a": 1}}}}, {{"id": {id_}, "features": {features}{rest}}}]'
    return f'{{"model": "m", "context": {context}, "actions": {actions}}}'


def choices() -> Iterator[str]:
    for value in NUMBERS + HUGE:
        yield choice(f'{{"n": {value}}}')
        yield choice(f"[{value}]")
        yield choice('{"b": 2}', context=f'{{"n": {value}}}')
        yield choice(sparse(values=f"[2, {value}]"), context="[1]")
    features = ("{}", "[]", "null", "1", '""', '{"a": {"b": {"c": [1]}}}', '{"a": 1, "a": 2}', '{"a": 1,}', "{'a': 1}")
    for each in (*features, '{"indices": [0]}', '{"indices": [0], "a": 1}', '{"a": "\\ud800"}', '{"a": "\t"}'):
        yield choice(each)
        yield choice('{"b": 2}', context=each)
    for id_ in ('""', '"z"', "null", "1", f'"{"i" * 256}"', f'"{"i" * 257}"', f'"{"é" * 256}"', '"\\ud800"'):
        yield choice('{"b": 2}', id_)
    for rest in (', "source": "x"', ', "id": "c"', ', "features": {"c": 1}', ', "features": 1', ', "other": 1'):
        yield choice('{"b": 2}', rest=rest)
    whole = choice('{"b": 2}')
    for member in (*MEMBERS, '"context": 1', '"actions": null', '"actions": []', '"actions": [1]', '"actions": {}'):
        yield f"{whole[:-1]}, {member}}}"
        yield f"{{{member}, {whole[1:]}"
    yield '{"model": "m", "actions": [{"id": "a", "features": {"a": 1}}]}'
    yield '{"model": "m\\n", "actions": [{"id": "a", "features": {"a": 1}}]}'


def items() -> Iterator[str]:
    for text in IDS:
        yield f'{{"prediction_id": {json.dumps(text)}, "correct": true}}'
    for name, values in FIELDS:
        for value in values:
            yield f'{{"prediction_id": "m:a", "{name}": {value}}}'
            yield f'{{"{name}": {value}, "prediction_id": "m:a", "correct": true}}'
    yield from ("1", "null", "[]", "{}", '"m:a"')


def bodies_of_batches() -> Iterator[tuple[type[Body], str]]:
    for number in NUMBERS + HUGE:
        yield PredictBatchRequest, predictions(f"[[{number}]]")
        yield PredictBatchRequest, predictions(f"[[1.5, 2], [{number}, 3]]")
    for contexts in ("[]", "[[]]", "[[1], []]", "{}", "null", "[1]", "[[1], null]", "[[1], {}]", "[[[1]]]", '["1"]'):
        yield PredictBatchRequest, predictions(contexts)
    for model in MODELS:
        yield PredictBatchRequest, predictions("[[1]]", model)
    for member in (*MEMBERS, '"contexts": 1', '"contexts": [[2]]'):
        yield PredictBatchRequest, predictions("[[1]]", rest=f", {member}")
        yield PredictBatchRequest, f"{{{member}, {predictions('[[1]]')[1:]}"
    for item in items():
        yield FeedbackBatchRequest, feedback(item)
        yield FeedbackBatchRequest, feedback(item, '{"prediction_id": "m:b", "correct": false}', item)
    yield FeedbackBatchRequest, feedback()
    yield FeedbackBatchRequest, '{"feedback": null}'


COMMON: list[tuple[type[Body], str]] = [
    (PredictRequest, one("[1, -2.5e3, 12345678901]", rest=', "include_distribution": true, "activated": false')),
    (PredictRequest, one(sparse())),
    (PredictRequest, choice('{"price": 1.5, "words": ["x", "y"], "new": true}')),
    (PredictRequest, choice(sparse(), context=sparse())),
    (PredictRequest, choice("[1, 2]", context="[0]")),
    (FeedbackRequest, '{"prediction_id": "m:~b:3", "correct": false}'),
    (PredictBatchRequest, predictions("[[1, -2.5e3], [0.25, 12345678901]]")),
    (FeedbackBatchRequest, feedback(*(f'{{"prediction_id": "m:~b:{i}", "correct": true}}' for i in range(3)))),
    (
        FeedbackBatchRequest,
        feedback('{"prediction_id": "m:a", "reward": 0.25}', '{"prediction_id": "n:a", "correct": null}'),
    ),
]
BYTES = [bytes([each]) for each in b'0-.e[]{},:" \n\\\x00\xff'] + [b"", b"\xef\xbb\xbf", b"\xed\xa0\x80"]


def damaged(text: str, seed: int) -> Iterator[bytes]:
    rng, body = np.random.default_rng(seed), text.encode()
    for _ in range(400):
        at, length = int(rng.integers(len(body) + 1)), int(rng.integers(3))
        yield body[:at] + BYTES[int(rng.integers(len(BYTES)))] + body[at + length :]


def values_of(given: Any) -> Any:
    if isinstance(given, PredictBatchRequest):
        contexts = contexts_of(given.contexts or [])
        assert contexts is not None
        return [repr(each) for each in contexts], given.model_copy(update={"contexts": []})
    if isinstance(given, FeedbackBatchRequest):
        items = pydantic.TypeAdapter(list[FeedbackRequest]).validate_python(given.feedback)
        return list(map(values_of, items))
    fields = (
        DecodedFeedback._fields if isinstance(given, FeedbackRequest | DecodedFeedback) else PredictRequest.model_fields
    )
    values = {name: repr(getattr(given, name)) for name in fields}
    if isinstance(getattr(given, "actions", None), list):
        values["actions"] = repr([(each.id, each.features) for each in given.actions])
    return values


READERS: dict[type[Body], Any] = {kind: plain_reader(kind) for kind in (PredictRequest, FeedbackRequest, *BATCHES)}


def read(kind: type[Body], body: bytes) -> Any:
    reader = READERS[kind]
    assert reader is not None
    return reader(body)


def check(kind: type[Body], body: bytes) -> bool:
    plain = read(kind, body)
    if plain is None:
        return False
    values = values_of(kind.model_validate_json(body))
    if isinstance(plain, FeedbackBatchRequest):
        assert values == list(map(values_of, plain.feedback))
        again: Any = read_decoded_feedback(plain.feedback)
        assert again == plain.feedback
    else:
        assert values == values_of(plain)
    return True


def test_what_is_read_as_plain_is_valid_with_the_same_values() -> None:
    found = [check(kind, text.encode()) for kind, text in bodies()]
    assert 20 < sum(found) < len(found) - 100


@pytest.mark.parametrize(("kind", "text"), COMMON)
def test_damaged_bodies_are_never_read_differently(kind: type[Body], text: str) -> None:
    assert check(kind, text.encode())
    assert plain_reader(Body) is None
    for body in damaged(text, seed=7):
        check(kind, body)


def test_values_read_together_are_those_of_pydantic() -> None:
    for kind, text in bodies():
        try:
            given = kind.model_validate_json(text)
        except pydantic.ValidationError:
            continue
        if isinstance(given, FeedbackBatchRequest):
            plain = read_decoded_feedback(given.feedback)
            assert plain is None or list(map(values_of, plain)) == values_of(given)
        elif isinstance(given, PredictBatchRequest) and given.contexts is not None:
            assert repr(read_contexts(given.contexts)) == repr(contexts_of(given.contexts))


def contexts_of(contexts: list[Any]) -> list[Any] | None:
    try:
        return [PredictItem.model_validate({"context": each}).context for each in contexts]
    except pydantic.ValidationError:
        return None


def test_actions_with_many_numbers_are_read_here() -> None:
    """A large body with few members, such as vectors, is read where the features of known actions are cached."""
    numbers = ", ".join(["0.25"] * 20_000)
    read = plain_reader(PredictRequest)
    body = f'{{"model": "m", "actions": [{{"id": "a", "features": {{"look": [{numbers}]}}}}]}}'.encode()
    assert read is not None
    given: Any = read(body)
    assert given.actions[0].features == {"look": [0.25] * 20_000}
    assert given.actions[0].source is not None


def test_many_actions_are_left_to_pydantic() -> None:
    """A large body with actions is read in a thread, because its features may all be new."""
    action = '{"id": "%d", "features": {"a": %d}}'
    for count, is_plain in ((100, True), (1500, False)):
        actions = ", ".join([action % (k, k) for k in range(count)])
        body = f'{{"model": "m", "context": {{"x": 1}}, "actions": [{actions}]}}'
        assert check(PredictRequest, body.encode()) is is_plain


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
@pytest.mark.parametrize("where", ["context", "features", "feedback"])
def test_deep_bodies_are_left_to_pydantic(where: str, opening: str) -> None:
    begin = {
        "context": '{"model": "m", "context": ',
        "features": '{"model": "m", "actions": [{"id": "a", "features": ',
        "feedback": '{"feedback": ',
    }[where]
    for depth in (100, 900, 1000, 3000):
        for kind in READERS:
            assert read(kind, (begin + opening * depth).encode()) is None


@pytest.mark.parametrize("number", ["1e308", "1E-310", "-4.9e-324", "2.2250738585072014e-308"])
def test_numbers_that_msgspec_reads_slowly_are_left_to_pydantic(number: str) -> None:
    for count, is_plain in ((20, True), (5000, False)):
        numbers = ", ".join([number] * count)
        assert check(PredictRequest, one(f"[{numbers}]").encode()) is is_plain
        assert check(PredictBatchRequest, predictions(f"[[{numbers}]]").encode()) is is_plain


@pytest.mark.parametrize("first", [b'"\xff"', b'"\xed\xa0\x80"', b"1" * 5000])
def test_members_that_are_replaced_are_left_to_pydantic(first: bytes) -> None:
    whole = choice('{"b": 2}').encode()
    for member in (b'"context"', b'"actions"'):
        body = b"{" + member + b": " + first + b", " + whole[1:]
        assert read(PredictRequest, body) is None
    body = whole.replace(b'"features": {"b"', b'"features": ' + first + b', "features": {"b"')
    assert read(PredictRequest, body) is None
