"""A network that is cut, slow, one-way, or stutters."""

import asyncio
import contextlib
import itertools
import random
from enum import StrEnum

from tests.chaos.faults.fault import Fault
from tests.servers import Relay

_FRAGMENTS = 8
_STALL = 0.02  # seconds; a lost packet delays all later bytes of its connection
_LONG_STALL = 0.25  # seconds: the shortest time after which Linux sends a lost packet again


class Weather(StrEnum):
    """The network conditions that a proxy simulates."""

    CLEAR = "clear"
    CUT = "cut"  # closes all connections and refuses new ones
    SLOW = "slow"  # delays all traffic
    HALF_OPEN = "half-open"  # accepts connections but passes nothing
    NO_REPLIES = "no-replies"  # passes requests, and closes the connection at the reply
    STUTTER = "stutter"  # passes fragments with stalls between them, as TCP does if packets are lost or reordered


class FaultyProxy(Relay):
    """A TCP proxy for a store, in the running event loop.

    Args:
        port: port of the store.
        delay: seconds that a slow network adds to each packet.
        seed: seed of the fragments and stalls.
    """

    def __init__(self, port: int, delay: float = 0.1, seed: int = 1) -> None:
        self._port = port
        self._chance = random.Random(seed)
        self._delay = delay
        self._writers: set[asyncio.StreamWriter] = set()
        self._weather = Weather.CLEAR

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.turn(Weather.CUT)
        await asyncio.sleep(0.1)

    def turn(self, weather: Weather) -> None:
        """Set the network condition. `CUT` and `CLEAR` also close current connections."""
        self._weather = weather
        if weather in {Weather.CUT, Weather.CLEAR}:  # a half-open connection would stay half-open
            for writer in list(self._writers):
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._weather is Weather.CUT:
            writer.close()
            return
        try:
            from_store, to_store = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:  # the store is down
            writer.close()
            return
        self._writers |= {writer, to_store}
        await asyncio.gather(self._pass(reader, to_store, False), self._pass(from_store, writer, True))
        self._writers -= {writer, to_store}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(2**16):
                if self._weather is Weather.HALF_OPEN:
                    continue
                if self._weather is Weather.SLOW:
                    await asyncio.sleep(self._delay)
                if self._weather is Weather.CUT or (replies and self._weather is Weather.NO_REPLIES):
                    break
                for part in fragments(data, self._chance) if self._weather is Weather.STUTTER else [data]:
                    writer.write(part)
                    await writer.drain()
                    if part is not data:
                        await asyncio.sleep(stall(self._chance))
        writer.close()

    def faults(self, seconds: float) -> dict[str, Fault]:
        """Return a fault for each condition, by name, that lasts `seconds`."""
        return {each.value: self._turns(each, seconds) for each in Weather if each is not Weather.CLEAR}

    def _turns(self, weather: Weather, seconds: float) -> Fault:
        async def turn() -> None:
            self.turn(weather)
            await asyncio.sleep(seconds)
            self.turn(Weather.CLEAR)

        return turn


def fragments(data: bytes, chance: random.Random) -> list[bytes]:
    """Cut bytes at random places, into single bytes too."""
    cuts = {chance.randrange(len(data)) for _ in range(_FRAGMENTS // 2)}
    cuts |= {cut + 1 for cut in cuts}
    places = [0, *sorted(cut for cut in cuts if 0 < cut < len(data)), len(data)]
    return [data[first:last] for first, last in itertools.pairwise(places)]


def stall(chance: random.Random) -> float:
    """Return how long the next fragment is late: mostly not at all, seldom as long as a retransmission takes."""
    drawn = chance.random()
    return _LONG_STALL if drawn < 0.01 else _STALL * chance.random() if drawn < 0.2 else 0.0
