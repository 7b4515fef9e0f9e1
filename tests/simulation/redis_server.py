"""A Redis server in this process: it runs the real scripts, one command at a time, on a virtual clock.

The commands are those of fakeredis, the interpreter is Lua 5.1, as in Redis. fakeredis lacks `struct` and `sha1hex`,
compiles a script for each call, and knows no memory limit: this module adds them.
"""

import copy
import hashlib
import pickle  # only in memory
import queue
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import redis
from fakeredis import FakeServer, _helpers
from fakeredis._helpers import SimpleError
from fakeredis._socket import FakeSocket, _base
from fakeredis.commands_mixins import server_mixin

from tests.simulation import lua_structs

_BAD_DISK = "MISCONF Errors writing to the AOF file: No space left on device"
_OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'."

_GROWING = frozenset(
    b"SET SETRANGE HSET HSETNX HINCRBY HINCRBYFLOAT XADD ZADD RENAME COPY INCR INCRBY APPEND SADD LPUSH RPUSH".split()
)
"""Commands that Redis refuses above its memory limit, as far as the scripts use them."""

_WRITING = _GROWING | frozenset(b"DEL UNLINK HDEL EXPIRE PEXPIRE PERSIST ZREM ZREMRANGEBYSCORE XDEL XTRIM".split())
"""After one of these, Redis lets a script finish above the memory limit."""

_KEPT_COMMANDS = 256
"""Commands between two copies of the data. A restart may lose up to this number of commands."""

_BEYOND = b"#!lua flags=allow-oom\n"
"""How a script begins that runs above the memory limit. Lua itself does not know the line. A server that cannot write
to its disk refuses such a script before it begins, because its flags do not say that it only reads."""

_PRELUDE = """
function(raw_call, sha1hex, pack, unpack)
    redis.call = function(...)
        local reply = raw_call(...)
        if type(reply) == 'table' and reply.err then error(reply, 0) end
        return reply
    end
    redis.pcall = raw_call
    redis.sha1hex = sha1hex
    struct = {pack = pack, unpack = unpack}
end
"""

_RUN = """
function(script, sha)
    local done, result = pcall(script)
    if done then return result end
    local place = ' script: ' .. sha .. ', on @user_script:1.'
    if type(result) == 'table' and result.err then return {err = result.err .. place} end
    return {err = 'ERR ' .. tostring(result) .. place}
end
"""


class _Done(NamedTuple):
    """A command, and what its effect depended on."""

    moment: float
    is_full: bool
    has_bad_disk: bool
    command: tuple[Any, ...]


class _Copy(NamedTuple):
    """The data at some moment, and the commands since."""

    items: dict[bytes, Any]
    commands: list[_Done]
    begin: int  # commands before


class _Socket(FakeSocket):
    """Runs commands and scripts."""

    is_full = has_bad_disk = False
    _has_written = False  # or may write above the limit

    def _get_server_runtime(self, server: Any) -> Any:
        if hasattr(server, "_lua_runtime"):
            return server._lua_runtime
        runtime = super()._get_server_runtime(server)
        runtime.eval(_PRELUDE)(self._call, _sha1hex, lua_structs.pack, lua_structs.unpack)
        server.compiled, server.run = {}, runtime.eval(_RUN)
        server._lua_expected_globals.add(b"struct")
        return runtime

    def eval(self, script: bytes, numkeys: int, *keys_and_args: bytes) -> Any:
        """Run a script; compile it once."""
        if self.has_bad_disk and script.startswith(_BEYOND):
            raise SimpleError(_BAD_DISK)
        server: Any = self._server
        runtime, sha = self._get_server_runtime(server), _sha1hex(script)
        server.script_cache[sha] = script
        if sha not in server.compiled:
            server.compiled[sha] = runtime.compile(script.removeprefix(_BEYOND), name=b"@user_script")
        server._lua_set_keys_argv(
            runtime.table_from(keys_and_args[:numkeys]), runtime.table_from(keys_and_args[numkeys:])
        )
        self._script_resp, self._has_written = 2, script.startswith(_BEYOND)
        try:
            result = server.run(server.compiled[sha], sha)
        finally:
            self._script_resp = None
        return self._convert_lua_result(result, nested=False)

    def _call(self, name: bytes, *args: Any) -> Any:
        """Run a command of a script; return an error as a table, like Redis."""
        runtime: Any = self._server._lua_runtime  # type: ignore[attr-defined]
        word = bytes(name).upper()
        try:
            if self.is_full and not self._has_written and word in _GROWING:
                raise SimpleError(_OUT_OF_MEMORY)
            if self.has_bad_disk and not self._has_written and word in _WRITING:
                raise SimpleError(_BAD_DISK)
            self._has_written |= word in _WRITING
            function, signature = self._name_to_func(word.decode().lower())
            reply = self._run_command(function, signature, [_argument(arg) for arg in args], True)
            return self._convert_redis_result(runtime, reply)
        except SimpleError as error:
            return runtime.table_from({b"err": error.value.encode()})

    def run(self, command: tuple[Any, ...]) -> Any:
        """Run a command of a client."""
        words = [_argument(word) for word in command]
        if self.is_full and words[0].upper() in _GROWING:
            return redis.exceptions.OutOfMemoryError(_OUT_OF_MEMORY.removeprefix("OOM "))
        if self.has_bad_disk and words[0].upper() in _WRITING:
            return redis.exceptions.ResponseError(_BAD_DISK)
        self._process_command(words)
        assert isinstance(self.responses, queue.Queue)
        return self.responses.get_nowait()


class RedisServer:
    """A server whose data can lose the effects of its last commands.

    Args:
        now: returns seconds since the epoch.

    Attributes:
        offset: seconds by which its clock is wrong.
        has_replica: whether a replica is connected.
        moment: the number of commands that were ever run, with those that are lost.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._moment: float | None = None  # while commands are repeated
        self._server = FakeServer(version=(7,))
        for module in (_base, server_mixin, _helpers):
            module.time = SimpleNamespace(time=self._time)  # type: ignore[attr-defined]
        self._socket = _Socket(self._server, 0, client_class=redis.Redis)
        self._copies = [_Copy({}, [], 0)]
        self._scripts: dict[bytes, bytes] = {}  # all that ever ran
        self.has_replica = True
        self.offset = 0.0
        self._confirmed = 0  # commands that the replica has
        self.moment = 0

    def _time(self) -> float:
        return self._now() + self.offset if self._moment is None else self._moment

    def call(self, *command: Any) -> Any:
        """Run one command; return its reply, or its error."""
        if len(self._copies[-1].commands) >= _KEPT_COMMANDS:
            self._copies = [self._copies[-1], _Copy(copy.deepcopy(self._items), [], self.done)]
        self.moment += 1
        reply = self._socket.run(command)
        if not isinstance(reply, redis.exceptions.NoScriptError):
            self._copies[-1].commands.append(_Done(self._time(), self.is_full, self.has_bad_disk, command))
        return reply

    def look(self, *command: Any) -> Any:
        """Run a command that only reads, outside of the simulation."""
        limits = self._limits
        self._limits = (False, False)
        try:
            return self._socket.run(command)
        finally:
            self._limits = limits

    @property
    def _limits(self) -> tuple[bool, bool]:
        return self.is_full, self.has_bad_disk

    @_limits.setter
    def _limits(self, limits: tuple[bool, bool]) -> None:
        self.is_full, self.has_bad_disk = limits

    @property
    def is_full(self) -> bool:
        """Whether the memory limit is reached."""
        return self._socket.is_full

    @is_full.setter
    def is_full(self, is_full: bool) -> None:
        self._socket.is_full = is_full

    @property
    def has_bad_disk(self) -> bool:
        """Whether the server cannot write to its disk, and therefore refuses writes."""
        return self._socket.has_bad_disk

    @has_bad_disk.setter
    def has_bad_disk(self, has_bad_disk: bool) -> None:
        self._socket.has_bad_disk = has_bad_disk

    def confirm(self) -> int:
        """Let the replica confirm all commands; return the number of replicas that have them."""
        if not self.has_replica:
            return 0
        self._confirmed = self.done
        return 1

    def keep(self) -> None:
        """Make what is stored now safe from every loss."""
        self._copies = [_Copy(copy.deepcopy(self._items), [], self.done)]

    def digest(self) -> str:
        """Return a digest of all data."""
        return hashlib.sha1(pickle.dumps(self._items), usedforsecurity=False).hexdigest()

    def restore(self) -> None:
        """Return to the data of the last `keep`, and know all scripts."""
        self._copies[-1].commands.clear()
        self._restore(self._copies[-1].items)

    def lose(self, n: int) -> int:
        """Undo the last commands, as a restart after a power loss may; return how many were undone, at most n."""
        n = min(n, self.done - max(self._confirmed, self._copies[0].begin))
        end = self.done - n
        while self._copies[-1].begin > end:
            self._copies.pop()
        copied = self._copies[-1]
        kept = copied.commands[: end - copied.begin]
        self._restore(copied.items)
        limits = self._limits
        for self._moment, self.is_full, self.has_bad_disk, command in kept:
            self._socket.run(command)
        self._moment, self._limits = None, limits
        self._copies[-1] = copied._replace(commands=kept)
        self.forget_scripts()
        return n

    def _restore(self, items: dict[bytes, Any]) -> None:
        self.forget_scripts()
        self._server.script_cache.update(self._scripts)
        data = self._server.dbs[0]
        data._dict.clear()
        data._expiry_heap.clear()
        for key, item in copy.deepcopy(items).items():
            data[key] = item

    def forget_scripts(self) -> None:
        """Empty the cache of scripts, as a restart does."""
        self._scripts.update(self._server.script_cache)
        self._server.script_cache.clear()

    @property
    def done(self) -> int:
        """The number of commands that were run, and are not lost."""
        return self._copies[-1].begin + len(self._copies[-1].commands)

    @property
    def _items(self) -> dict[bytes, Any]:
        return self._server.dbs[0]._dict


def _sha1hex(data: Any) -> bytes:
    return hashlib.sha1(_argument(data), usedforsecurity=False).hexdigest().encode()


def _argument(value: Any) -> bytes:
    """Return an argument as bytes, like hiredis, and like Lua for numbers."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, float):
        return (f"{value:.17g}" if value != int(value) else f"{value:.0f}").encode()
    return str(value).encode()
