"""The closed loop of the benchmarks sends every request once, counts every answer once, and raises on failures."""

import pytest

from benchmarks.traffic import drive, post
from tests.toolkit.load.world_server import Reply, serving
from toolkit.load.client import Target


class Echo:
    """A server that echoes bodies, refuses those in `bad`, and records all of them."""

    def __init__(self, bad: frozenset[bytes] = frozenset()) -> None:
        self.asked: list[bytes] = []
        self._bad = bad

    async def answer(self, _method: str, _path: str, body: bytes) -> Reply:
        """Answer one request."""
        self.asked.append(body)
        return (422 if body in self._bad else 200), {"asked": body.decode()}


def bodies(n: int) -> list[bytes]:
    """Return n different bodies."""
    return [f'"{i}"'.encode() for i in range(n)]


@pytest.mark.parametrize("connections", [1, 3, 200])
async def test_every_request_is_sent_and_answered_once(connections: int) -> None:
    """Drive one connection, several, and more connections than requests."""
    echo = Echo()
    async with serving(echo.answer) as url:
        played = await drive(Target.parse(url).port, iter([post("/x", body) for body in bodies(50)]), connections)
    assert sorted(echo.asked) == sorted(bodies(50))
    assert len(played.latencies) == len(played.answers) == len(set(played.answers)) == 50
    assert 0 < max(played.latencies) <= played.seconds
    assert played.rate == pytest.approx(50 / played.seconds)


async def test_an_answer_that_is_not_200_is_raised() -> None:
    """Raise the answer, and send nothing more on that connection."""
    echo = Echo(frozenset([b'"3"']))
    async with serving(echo.answer) as url:
        with pytest.raises(RuntimeError, match=r"^422: .*asked"):
            await drive(Target.parse(url).port, iter([post("/x", body) for body in bodies(50)]), 1)
    assert echo.asked == bodies(4)


async def test_nothing_to_send_ends_immediately() -> None:
    """Wait for no answer."""
    echo = Echo()
    async with serving(echo.answer) as url:
        played = await drive(Target.parse(url).port, iter([]), 4)
    assert (played.answers, played.latencies, echo.asked) == ([], [], [])
