"""The file of a feedback queue keeps what it can: damage, other files, other processes and forks."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client.doubles import EACH_QUEUE, Memory, Scripted, async_client_of, client_of, done, outbox, problem
from wager_client import AsyncFeedbackQueue, FeedbackItem, FeedbackQueue, SpoolInUseError, WagerError
from wager_client import spool as spools
from wager_client.errors import ProblemError, problem_of
from wager_client.outbox import Entry
from wager_client.spool import Lines, Spool

DAMAGED = [
    b"[" * 100_000,
    b'{"number": 1, "a": ' + b"[" * 100_000,
    b'{"answer": 42}',
    b'{"number": 3, "prediction_id": null}',
    b'{"number": 3, "prediction_id": 3}',
    b'{"number": 1e999, "prediction_id": "m:9"}',
    b'{"number": 3, "prediction_id": "m:9", "reward": NaN}',
    b'{"number": "x", "prediction_id": "m:9"}',
    b'{"prediction_id": "m:9"}',
    b'{"done": 1}',
    b'{"done": [[1]]}',
    b'"done"',
    b"null",
    b"\xff\x00",
    b"",
    b'{"number": 3, "predic',
]


def lines_of(numbers: range) -> list[bytes]:
    return [json.dumps({"number": n, "prediction_id": f"m:{n}", "correct": True}).encode() for n in numbers]


def write(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


@EACH_QUEUE
async def test_damaged_lines_are_set_aside_and_the_others_are_sent(
    make: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "feedback.jsonl"
    for times in (1, 2):
        memory = Memory()
        queue = make(memory, spool=write(path, [*lines_of(range(1, 3)), *DAMAGED, *lines_of(range(3, 5))]))
        assert await done(queue.flush(30.0))
        found = await done(queue.close())
        assert (found.recorded, found.damaged, found.lost) == (4, len(DAMAGED), 0)
        assert list(memory.rounds) == ["m:1", "m:2", "m:3", "m:4"]
        assert (tmp_path / "feedback.jsonl.damaged").read_bytes() == b"".join(line + b"\n" for line in DAMAGED) * times
        assert f"{len(DAMAGED)} damaged lines are in {path}.damaged now" in caplog.text
        assert not path.exists()


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "notes.txt", [b"milk", b"eggs"])
    for _ in range(2):
        with pytest.raises(ValueError, match=r"notes.txt is not a feedback queue's file: line 1 is b'milk', and"):
            FeedbackQueue(client_of(Memory()), spool=path)
    assert path.read_bytes() == b"milk\neggs\n"
    assert not (tmp_path / "notes.txt.damaged").exists()


async def test_a_second_queue_on_a_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "feedback.jsonl"
    with pytest.raises(ValueError, match="size: got 0"):
        FeedbackQueue(client_of(Memory()), spool=path, size=0)
    with FeedbackQueue(client_of(Memory()), spool=str(path)):
        with pytest.raises(WagerError, match=r"feedback.jsonl.lock: another queue uses this file"):
            FeedbackQueue(client_of(Memory()), spool=path)
        with pytest.raises(SpoolInUseError, match=r"feedback.jsonl"):
            AsyncFeedbackQueue(async_client_of(Memory()), spool=path)


def test_a_file_system_without_locks_is_no_other_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(OSError, match="No locks available") as raised:
        FeedbackQueue(client_of(Memory()), spool=tmp_path / "feedback.jsonl")
    assert not isinstance(raised.value, SpoolInUseError)


def in_child(path: Path, queue: FeedbackQueue, asynchronous: AsyncFeedbackQueue) -> list[str]:
    child = os.fork()
    if child == 0:
        found = []
        for call in (queue.put, asynchronous.put, lambda _: queue.flush(1.0), lambda _: queue.close().pending):
            try:
                found.append(str(call("m:2")))
            except RuntimeError as error:
                found.append(str(error))
        path.write_text(json.dumps(found))
        os._exit(0)
    os.waitpid(child, 0)
    listed: list[str] = json.loads(path.read_text())
    return listed


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_fork_cannot_lose_feedback(tmp_path: Path) -> None:
    path = tmp_path / "feedback.jsonl"
    away = Scripted(httpx2.ConnectError("refused"))
    queue = FeedbackQueue(client_of(away), spool=path)
    asynchronous = AsyncFeedbackQueue(async_client_of(away))
    with queue._changed:  # as if the thread held the lock at that moment
        found = in_child(tmp_path / "found", queue, asynchronous)
    assert ["created before a fork" in each for each in found] == [True, True, True, False]
    assert found[3] == "0"
    assert path.exists()
    assert queue.put("m:1", correct=True)
    assert queue.close(0.0).pending == 1
    assert (await asynchronous.close(0.0)).pending == 0
    with FeedbackQueue(client_of(Memory()), spool=path) as again:
        assert again.flush(30.0)
        assert again.report().recorded == 1


FULL_DISK = """
import logging, resource, sys
from pathlib import Path
from wager_client import FeedbackItem
from wager_client.outbox import Entry
from wager_client.spool import Spool

path, limit = Path(sys.argv[1]), int(sys.argv[2])
spool = Spool(path, now=float)
for n in range(1, 4):
    spool.add(Entry(n, FeedbackItem(f"m:{n}", correct=True)))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
for n in range(4, 7):
    spool.add(Entry(n, FeedbackItem(f"m:{n}", correct=True)))
print(path.read_bytes()[-1:] == b"\\n", flush=True)
if sys.argv[3] == "freed":
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    spool.remove([1])
    spool.add(Entry(7, FeedbackItem("m:7", correct=True)))
"""


@pytest.mark.parametrize("space", range(1, 54, 24))
def test_a_full_disk_costs_no_entry_that_fits(tmp_path: Path, space: int) -> None:
    path = write(tmp_path / "feedback.jsonl", [])
    limit = sum(len(line) + 1 for line in lines_of(range(1, 4))) + space
    for then, expected in (("full", [1, 2, 3]), ("freed", [2, 3, 4, 5, 6, 7])):
        path.unlink()
        command = [sys.executable, "-c", FULL_DISK, str(path), str(limit), then]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout == "False\n"
        assert done.stderr.count("File too large; a restart of this process may lose feedback") == 3
        again = Spool(path, now=float)
        assert ([entry.number for entry in again.restore()], again.damaged) == (expected, 0)
        again.close()


class Torn(io.FileIO):
    most = 0

    def write(self, data: Any) -> int:
        room = self.most - os.fstat(self.fileno()).st_size
        if room <= 0:
            raise OSError(28, "No space left on device")
        return super().write(data[:room])


def test_no_line_is_glued_to_a_part_of_another(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    lines = Lines(path, fsync=True)
    lines.append(b"one\n")
    lines._file.close()
    torn = lines._file = Torn(path, "ab")
    torn.most = 9
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            lines.append(b"two and three\n")
        assert path.read_bytes() == b"one\ntwo a"
    torn.most = 100
    lines.append(b"four\n")
    assert path.read_bytes() == b"one\nfour\n"
    torn.most = 12
    with pytest.raises(OSError, match="No space"):
        lines.append(b"five\n")
    lines.close()
    other = Lines(path, fsync=False)
    other.append(b"six\n")
    assert path.read_bytes() == b"one\nfour\nfiv\nsix\n"
    other.close()


def refusing(request: httpx2.Request) -> httpx2.Response:
    found = problem(404, "prediction-not-found").json(), problem(500, "store-corrupt").json()
    sent = [each["prediction_id"] for each in json.loads(request.content)["feedback"]]
    results = {"m:1": {"prediction_id": "m:1", "status": "recorded"}, "m:2": found[0], "bad:3": found[1]}
    return httpx2.Response(200, json={"results": [results[each] for each in sent]})


@EACH_QUEUE
async def test_refused_feedback_is_kept_and_not_read_again(make: Any, tmp_path: Path) -> None:
    path, aside = tmp_path / "feedback.jsonl", tmp_path / "feedback.jsonl.rejected"
    queue = make(refusing, spool=path)
    for each in ("m:1", "m:2", "bad:3"):
        assert queue.put(each, reward=0.5)
    found = await done(queue.close(60.0))
    assert (found.recorded, found.expired, found.pending) == (1, 1, 1)
    (line,) = map(json.loads, aside.read_text().splitlines())
    assert line["time"].endswith("+00:00")
    assert line["problem"] == {"status": 404, "slug": "prediction-not-found", "detail": "d", "field": "f"}
    assert line["feedback"] == {"prediction_id": "m:2", "reward": 0.5}
    memory = Memory()
    with FeedbackQueue(client_of(memory), spool=path) as again:
        assert again.flush(60.0)
    assert list(memory.rounds) == ["bad:3"]
    client_of(memory).feedback_batch([json.loads(each)["feedback"] for each in aside.read_text().splitlines()])
    assert memory.rounds["m:2"] == line["feedback"]


def reject(spool: Spool, number: int) -> None:
    refused: ProblemError = problem_of(409, {"type": "urn:wager:problem:feedback-conflict", "detail": "d" * 50})
    spool.reject([(Entry(number, FeedbackItem(f"m:{number}", correct=True)), refused)])


def test_the_file_of_refused_feedback_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "MOST_REJECTED", 2000)
    path = tmp_path / "feedback.jsonl"
    for first in (0, 100):
        spool = Spool(path, now=float)
        for n in range(first, first + 100):
            reject(spool, n)
        spool.close()
    files = [tmp_path / f"feedback.jsonl.rejected{suffix}" for suffix in (".old", "")]
    assert all(file.stat().st_size < 2500 for file in files)
    kept = [json.loads(line)["feedback"]["prediction_id"] for file in files for line in file.read_text().splitlines()]
    assert kept == [f"m:{n}" for n in range(200 - len(kept), 200)]
    assert len(kept) > 10


def test_what_is_refused_is_kept_before_it_is_forgotten(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "feedback.jsonl", now=float)
    spool.add(Entry(1, FeedbackItem("m:1", correct=True)))
    order: list[str] = []
    box = outbox(10, 10, record=Recording(spool, order))
    box.add(FeedbackItem("m:2", correct=True))
    box.take()
    box.settle([problem_of(409, {"type": "urn:wager:problem:feedback-conflict"})])
    assert order == ["add", "reject", "remove"]
    spool.close()


class Recording:
    def __init__(self, spool: Spool, order: list[str]) -> None:
        self._spool, self._order = spool, order

    def __getattr__(self, name: str) -> Any:
        self._order.append(name)
        return getattr(self._spool, name)


def test_a_full_disk_for_refused_feedback_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "feedback.jsonl.rejected").mkdir()  # as if it could not be written
    with FeedbackQueue(client_of(Memory()), spool=tmp_path / "feedback.jsonl") as queue:
        queue.put("m:1", correct=True)
        queue.put("m:1", correct=False)
        assert queue.flush(60.0)
        assert (queue.report().recorded, queue.report().conflicts) == (1, 1)
    assert "1 refused items are not kept" in caplog.text
