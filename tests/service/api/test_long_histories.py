"""The laws of long histories: bounded wherever a model gets one, and cheap to read."""

import json
from itertools import pairwise
from typing import Any

import pytest

from service.lifecycle import copying
from service.registry import changing
from tests.service.api.http_api import Api, body_of, problem_of

FILE = {"Content-Type": "application/octet-stream"}

LIMITS = [
    ("MOST_CHANGES", 3, "4 changes"),
    ("MOST_HISTORY_BYTES", 200, "bytes of changes"),
    ("MOST_HISTORY_WEIGHT", 15, "labels, added up over its changes"),
]


async def grow(api: Api, number: int) -> Any:
    """Add a label to the test's model."""
    return await api.change("*", labels={"add": [f"another label {number}"]})


@pytest.mark.parametrize(("limit", "most", "words"), LIMITS, ids=[limit for limit, *_ in LIMITS])
async def test_no_change_makes_a_history_too_long(
    api: Api, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, words: str
) -> None:
    """The first change beyond a limit is refused, by a patch and by a reset, and changes nothing."""
    await api.create()
    monkeypatch.setattr(changing, limit, most)
    answers = [await grow(api, number) for number in range(5)]
    made = sum(answer.is_success for answer in answers)
    assert 2 <= made < 5
    for refused in answers[made:]:
        assert words in problem_of(refused, 422, "too-many-changes")["detail"]
    assert (await api.model())["changes"]["count"] == made
    if limit == "MOST_CHANGES":
        reset = await api.request("POST", f"/models/{api.name}/reset", json={}, headers={"If-Match": "*"})
        problem_of(reset, 422, "too-many-changes")


@pytest.mark.parametrize(("limit", "most"), [each[:2] for each in LIMITS], ids=[limit for limit, *_ in LIMITS])
async def test_a_model_at_a_limit_can_be_copied(
    api: Api, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    """It can be cloned, restored from its file, and so can its copies, as often as copies are allowed; none changes."""
    await api.create()
    monkeypatch.setattr(changing, limit, most)
    monkeypatch.setattr(copying, "MOST_COPIES", 3)
    while (await grow(api, len((await api.model())["labels"]))).is_success:
        pass
    names = [f"{api.name}-{i}" for i in range(3)]
    body_of(await api.post(f"/models/{api.name}/clone", name=names[0]), 201)
    for source, name in pairwise(names):
        file = (await api.get(f"/models/{source}/export")).content
        body_of(await api.request("POST", f"/models/{name}/import", content=file, headers=FILE), 201)
        problem_of(
            await api.patch(f"/models/{name}", labels={"add": [f"one more label in the {name}"]}),
            422,
            "too-many-changes",
        )
    if limit == "MOST_CHANGES":
        problem_of(await api.post(f"/models/{names[-1]}/clone", name=f"{api.name}-9"), 422, "too-many-changes")


@pytest.mark.parametrize(("limit", "most"), [each[:2] for each in LIMITS], ids=[limit for limit, *_ in LIMITS])
async def test_no_file_has_too_long_a_history(api: Api, monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    """A file with a longer history than a model may have is refused."""
    await api.create()
    for number in range(5):
        body_of(await grow(api, number), 200)
    file = (await api.get(f"/models/{api.name}/export")).content
    assert (await api.delete(f"/models/{api.name}")).status_code == 204
    with monkeypatch.context() as patched:
        patched.setattr(changing, limit, most)
        patched.setattr(copying, "MOST_COPIES", 0)
        refused = await api.request("POST", f"/models/{api.name}/import", content=file, headers=FILE)
        problem_of(refused, 422, "too-many-changes")
    body_of(await api.request("POST", f"/models/{api.name}/import", content=file, headers=FILE), 201)


async def test_every_policy_in_the_history_of_a_file_is_checked(api: Api) -> None:
    """A value that a later change replaces is checked as well: the list of changes shows it."""
    await api.create()
    body_of(await api.change("*", window_seconds=5.0), 200)
    file = (await api.get(f"/models/{api.name}/export")).content
    assert file.count(b"5.0") == 1
    header = json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")])
    model = json.loads(header["__metadata__"]["model"])
    model["changes"] = [{"policies": {"window_seconds": -1.0}, "at": 1.0}, *model["changes"]]
    header["__metadata__"]["model"] = json.dumps(model)
    text = json.dumps(header).encode()
    changed = len(text).to_bytes(8, "little") + text + file[8 + int.from_bytes(file[:8], "little") :]
    refused = await api.request("POST", f"/models/{api.name}-2/import", content=changed, headers=FILE)
    problem_of(refused, 422, "invalid-model-file")


@pytest.mark.parametrize(
    ("header", "words"),
    [(b" " * (2**25 + 1), "bytes; it may have"), (b"[" + b"{}," * 1_000_000 + b"{}]", "objects, lists and members")],
    ids=["bytes", "objects"],
)
async def test_the_header_of_a_file_is_read_in_bounded_time(api: Api, header: bytes, words: str) -> None:
    """A header with too many bytes or objects is refused before it is read."""
    file = len(header).to_bytes(8, "little") + header
    refused = await api.request("POST", f"/models/{api.name}/import", content=file, headers=FILE)
    assert words in problem_of(refused, 422, "invalid-model-file")["detail"]
