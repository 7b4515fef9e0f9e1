"""The laws of every kind of context; and only a kind's own file depends on it."""

import ast
import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from pydantic import TypeAdapter

import service
from learners.mathematics.preparation import Preparation
from service.choice.choice import check_norm
from service.contexts.kind import ContextKind
from service.contexts.registry import KINDS, NAMES, Features, GivenContext, ShownContext, context_kind
from service.errors import ContextLengthError, NormExceededError
from service.schemas.rounds import PredictRequest

ROOM = Path(service.__file__).parent
READ_FEATURES: TypeAdapter[Any] = TypeAdapter(Features)
READ_CONTEXT: TypeAdapter[Any] = TypeAdapter(GivenContext)
READ_SHOWN: TypeAdapter[Any] = TypeAdapter(ShownContext)


class Sample(NamedTuple):
    """Requests of one kind, as JSON values."""

    features: dict[str, Any]
    contexts: list[Any]  # all different
    largest: tuple[int | str, str, float] | None  # largest number of the first: its feature, its field, its value
    wanted: str


SAMPLES = {
    "dense": Sample({"size": 3}, [[1.0, 9.0, -2.5], [1.0, 9.0, 0.0]], (1, "context.1", 9.0), "a list of 3 numbers"),
    "sparse": Sample(
        {"size": 7},
        [
            {"indices": [5, 2], "values": [1 / 3, 9.0]},
            {"indices": [2, 5], "values": [1 / 3, 9.0]},
            {"indices": [0], "values": [1.0]},
        ],
        (2, "context.values.1", 9.0),
        'an object with "indices", integers from 0 to 6, and "values", numbers',
    ),
    "named": Sample(
        {"size": 8},
        [{"n": 9.0, "user": {"a": ["x"]}}, {"n": 9.0, "user": {"a": ["y"]}}, {"m": 9.0}],
        (6, "context", 9.0),
        "an object of names and values",
    ),
    "none": Sample({}, [{}], None, "no context, or an empty object"),
}


def kind_of(name: str) -> ContextKind[Any]:
    """Return the kind of a model with the sample's features."""
    return context_kind(READ_FEATURES.validate_python({"kind": name} | SAMPLES[name].features))


def contexts_of(name: str) -> list[Any]:
    """Return the sample's contexts, parsed as in a request."""
    return [READ_CONTEXT.validate_json(json.dumps(each)) for each in SAMPLES[name].contexts]


every_kind = pytest.mark.parametrize("name", sorted(NAMES))


def test_every_kind_has_a_sample() -> None:
    """Every registered kind has a sample, so the laws cover it."""
    assert SAMPLES.keys() == NAMES


@every_kind
def test_a_kind_is_found_by_its_name(name: str) -> None:
    """Features that name a kind are parsed as that kind's features, and lead to that kind."""
    features = READ_FEATURES.validate_python({"kind": name} | SAMPLES[name].features)
    (kind,) = [each for each in KINDS if each.name == name]
    assert type(features) is kind.features
    assert type(context_kind(features)) is kind
    assert list(features.model_dump())[:5] == ["kind", "size", "norm", "norm_bound", "intercept"]


@every_kind
def test_a_context_is_parsed_as_one_kind(name: str) -> None:
    """A context is claimed by its kind, both as JSON and parsed, and by no kind that is tried earlier."""
    for given, context in zip(SAMPLES[name].contexts, contexts_of(name), strict=True):
        assert type(context) is kind_of(name).type
        for value in (given, context):
            assert kind_of(name).claims(value)
            assert PredictRequest(model="m", context=value).context == context


@every_kind
def test_a_checked_context_is_gathered_and_shown(name: str) -> None:
    """The log shows exactly the context that the client sent, also after encoding as JSON."""
    kind, contexts = kind_of(name), contexts_of(name)
    checked = list(map(kind.check, contexts))
    gathered = kind.gather(checked)
    assert gathered.values.tolist() == [number for context in checked for number in kind.numbers(context)]
    assert list(map(kind.size, checked)) == [len(kind.numbers(context)) for context in checked]
    for i, (given, context) in enumerate(zip(SAMPLES[name].contexts, contexts, strict=True)):
        shown = kind.show(gathered, i, kind.sent(checked[i]))
        assert shown == context
        assert json.loads(READ_SHOWN.dump_json(READ_SHOWN.validate_python(shown))) == given


@every_kind
def test_stored_contexts_are_restored(name: str) -> None:
    """The codec keeps every bit, and `fixed_bytes` is the length of each context if it is set."""
    kind = kind_of(name)
    gathered = kind.gather(list(map(kind.check, contexts_of(name))))
    parts = kind.codec.encode(gathered)
    again = kind.codec.decode(b"".join(parts), np.cumsum([0, *map(len, parts)]))
    assert [each.tolist() for each in again[:3]] == [each.tolist() for each in gathered[:3]]
    assert again.shared == gathered.shared
    lengths = set(map(len, parts))
    assert kind.codec.fixed_bytes is None or lengths == {kind.codec.fixed_bytes}


@every_kind
def test_different_contexts_have_different_fingerprints(name: str) -> None:
    """Contexts with the same numbers at different indices have different fingerprints."""
    kind = kind_of(name)
    prints = [kind.fingerprinted(kind.check(context)) for context in contexts_of(name)]
    assert len(set(prints)) == len(prints)
    assert prints == [kind.fingerprinted(kind.check(context)) for context in contexts_of(name)]


EMPTY_IS_BOTH = ("named", "none")


@pytest.mark.parametrize(("name", "other"), sorted({*permutations(NAMES, 2)} - {EMPTY_IS_BOTH}))
def test_another_kind_is_refused(name: str, other: str) -> None:
    """A context of another kind is refused with a message that names the expected kind."""
    with pytest.raises(ContextLengthError) as refused:
        kind_of(name).check(contexts_of(other)[0])
    assert refused.value.field == "context"
    named = {"none": "no"}.get(name, name)
    assert f"; the model has {named} features: send {SAMPLES[name].wanted}, such as " in refused.value.detail


@every_kind
def test_a_number_beyond_the_bound_is_named(name: str) -> None:
    """The problem names the feature and the request's field, whatever the kind."""
    kind, largest = kind_of(name), SAMPLES[name].largest
    if largest is None:
        pytest.skip("its contexts have no numbers")
    feature, field, number = largest
    context, bound = kind.check(contexts_of(name)[0]), number / 2
    with pytest.raises(
        NormExceededError, match=f"^got {number} for feature {feature}; must be between -{bound:g} and {bound:g}$"
    ) as found:
        check_norm(kind, Preparation("reject", bound, False, 0), "maximum", context)
    assert found.value.field == field


# --- isolation of kinds

FILES = {kind.name: Path(*kind.__module__.split(".")[1:]).with_suffix(".py") for kind in KINDS}
OWN = {
    node.name: path
    for path in FILES.values()
    for node in ast.parse((ROOM / path).read_text()).body
    if isinstance(node, ast.ClassDef)
}
REGISTRY = Path("contexts/registry.py")


def mentions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names that a file uses, and its switches: boolean arguments and fields."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                yield name, node.lineno
            case (
                ast.arg(arg=name, annotation=ast.Name(id="bool"))
                | ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="bool"))
            ):
                yield f"{name}: bool", node.lineno


def test_only_its_own_file_depends_on_a_kind() -> None:
    """No other file mentions a kind's classes or has a boolean named after a kind; only the registry lists them."""
    switches = {f"{name}: bool" for name in NAMES}
    found = []
    for path in sorted(ROOM.rglob("*.py")):
        relative = path.relative_to(ROOM)
        if relative.parts[0] == "load":  # a client that uses the service by HTTP only
            continue
        if relative.parts[0] == "actions":  # it joins the features of two contexts of one kind
            continue
        foreign = switches | {name for name, own in OWN.items() if own != relative}
        if relative == REGISTRY:
            foreign -= {kind.__name__ for kind in KINDS}
        names = mentions(ast.parse(path.read_text()))
        found += [f"{relative}:{line} has {name}" for name, line in names if name in foreign]
    assert found == []
