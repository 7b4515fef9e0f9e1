"""The file of a feedback queue keeps what it can: damage, other files, other processes and forks."""

import json
import os
from pathlib import Path

import httpx2
import pytest

from tests.client.doubles import Memory, Scripted, async_client_of, client_of
from wager_client import AsyncFeedbackQueue, FeedbackQueue, SpoolInUseError, WagerError

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
    """Return the lines of entries."""
    return [json.dumps({"number": n, "prediction_id": f"m:{n}", "correct": True}).encode() for n in numbers]


def write(path: Path, lines: list[bytes]) -> Path:
    """Write a file of lines."""
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def test_damaged_lines_are_set_aside_and_the_others_are_sent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are counted, logged, and kept as they are beside the file, after those of earlier damage."""
    path = tmp_path / "feedback.jsonl"
    for times in (1, 2):
        memory = Memory()
        write(path, [*lines_of(range(1, 3)), *DAMAGED, *lines_of(range(3, 5))])
        with FeedbackQueue(client_of(memory), spool=path) as queue:
            assert queue.flush(30.0)
            found = queue.report()
        assert (found.recorded, found.damaged, found.lost) == (4, len(DAMAGED), 0)
        assert list(memory.rounds) == ["m:1", "m:2", "m:3", "m:4"]
        assert (tmp_path / "feedback.jsonl.damaged").read_bytes() == b"".join(line + b"\n" for line in DAMAGED) * times
        assert f"{len(DAMAGED)} damaged lines are in {path}.damaged now" in caplog.text
        assert not path.exists()


async def test_the_asynchronous_queue_sets_damaged_lines_aside(tmp_path: Path) -> None:
    """As above."""
    path, memory = write(tmp_path / "feedback.jsonl", [*DAMAGED, *lines_of(range(2))]), Memory()
    async with AsyncFeedbackQueue(async_client_of(memory), spool=path) as queue:
        assert await queue.flush(30.0)
        assert queue.report().damaged == len(DAMAGED)
    assert len(memory.rounds) == 2


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    """If no line is of a queue, nothing is sent, and the file stays as it is; it can be used by another queue."""
    path = write(tmp_path / "notes.txt", [b"milk", b"eggs"])
    for _ in range(2):
        with pytest.raises(ValueError, match=r"notes.txt, line 1: no entry of a feedback queue: b'milk'"):
            FeedbackQueue(client_of(Memory()), spool=path)
    assert path.read_bytes() == b"milk\neggs\n"
    assert not (tmp_path / "notes.txt.damaged").exists()


async def test_a_second_queue_on_a_file_is_refused_by_name(tmp_path: Path) -> None:
    """The error is one of the client; wrong arguments do not leave the file locked."""
    path = tmp_path / "feedback.jsonl"
    with pytest.raises(ValueError, match="size: got 0"):
        FeedbackQueue(client_of(Memory()), spool=path, size=0)
    with FeedbackQueue(client_of(Memory()), spool=str(path)):
        with pytest.raises(WagerError, match=r"feedback.jsonl.lock: another queue uses this file"):
            FeedbackQueue(client_of(Memory()), spool=path)
        with pytest.raises(SpoolInUseError, match=r"feedback.jsonl"):
            AsyncFeedbackQueue(async_client_of(Memory()), spool=path)


def in_child(path: Path, queue: FeedbackQueue, asynchronous: AsyncFeedbackQueue) -> list[str]:
    """Use queues in a fork; return what happens there."""
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
    """There, `put` and `flush` raise, and `close` touches neither the file nor the lock of the queue."""
    path = tmp_path / "feedback.jsonl"
    away = Scripted(httpx2.ConnectError("refused"))
    queue = FeedbackQueue(client_of(away), spool=path)
    asynchronous = AsyncFeedbackQueue(async_client_of(away))
    with queue._changed:  # as if the thread held the lock at that moment
        found = in_child(tmp_path / "found", queue, asynchronous)
    assert ["made before a fork" in each for each in found] == [True, True, True, False]
    assert found[3] == "0"
    assert path.exists()
    assert queue.put("m:1", correct=True)
    assert queue.close(0.0).pending == 1
    assert (await asynchronous.close(0.0)).pending == 0
    with FeedbackQueue(client_of(Memory()), spool=path) as again:
        assert again.flush(30.0)
        assert again.report().recorded == 1
