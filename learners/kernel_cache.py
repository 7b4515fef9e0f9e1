"""The on-disk cache of compiled kernels: where it is, and which kernels it has for this machine.

A process that compiles kernels in advance holds a lock, so that others know whether to wait for it.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

_HERE = Path(__file__).parent
_DEPENDENT = ("evaluation", "estimators")
"""Folders whose kernels no kernel elsewhere calls. An edit there must not recompile all algorithms."""
_WITHOUT_KERNELS = ("__main__.py", "compilation.py", "field_docstrings.py", "kernel_cache.py")
"""Files whose edits must not recompile anything."""


def _places() -> Iterator[Path]:
    """Yield the folders that may have the cache, the preferred one first."""
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(given)
    yield _HERE / "__pycache__"
    with contextlib.suppress(RuntimeError):  # no home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wager"
    temporary = Path(tempfile.gettempdir()) / f"wager-{os.getuid()}"
    with contextlib.suppress(OSError):
        temporary.mkdir(0o700, exist_ok=True)
        if temporary.lstat().st_uid == os.getuid():  # the machine code in another user's folder could be anything
            yield temporary


def _is_writable(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(place, os.W_OK)


ROOT = next(filter(_is_writable, _places()), None)
"""The folder with the caches of all versions of the sources; None if none can be written."""


def _folder_of(sources: Iterable[Path]) -> Path:
    """Return a cache folder for these contents: numba does not notice changes of the kernels that a kernel calls."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.read_bytes())
    return (ROOT or _HERE / "__pycache__") / f"kernels-{digest.hexdigest()[:16]}"


def is_dependent(folder: str) -> bool:
    """Check whether no kernel outside this folder of `learners` calls the kernels in it."""
    return folder in _DEPENDENT


ALL = "all"
"""The part that is compiled last: all others are compiled."""

_SOURCES = [path for path in _HERE.rglob("*.py") if path.name not in _WITHOUT_KERNELS]
FOLDER = _folder_of(path for path in _SOURCES if not is_dependent(path.relative_to(_HERE).parts[0]))
DEPENDENT_FOLDER = _folder_of(_SOURCES)


def _compiled() -> Path:
    """Return the folder with a file for each part that is compiled for this machine."""
    return DEPENDENT_FOLDER / f"compiled-{_machine()}"


@cache
def _machine() -> str:
    """Return a digest of all that machine code depends on, except the sources: processor, Python, and compiler."""
    target = [os.environ[name] for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES") if name in os.environ]
    facts = [sys.version, version("numba"), version("llvmlite"), platform.machine(), target or _processor()]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _processor() -> list[str]:
    """Return the name and the features of the first processor."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:  # not Linux
        return [platform.processor()]
    return [line for line in first.splitlines() if line.startswith(("model name", "flags", "CPU", "Features"))]


def is_compiled(part: str) -> bool:
    """Check whether a part, such as a learner, is compiled for this machine."""
    return (_compiled() / part).exists()


def note_compiled(part: str) -> None:
    """Record that a part is compiled."""
    with contextlib.suppress(OSError):  # without a writable cache, every process compiles for itself
        _compiled().mkdir(parents=True, exist_ok=True)
        (_compiled() / part).touch()


def ask_for(part: str) -> None:
    """Ask the process that compiles to compile this part next."""
    note_compiled(f"{part}.asked")


def asked_for(parts: Iterable[str]) -> list[str]:
    """Return the requested parts."""
    return [part for part in parts if is_compiled(f"{part}.asked")]


def lock() -> int | None:
    """Return the descriptor of a locked file; None if another process has locked it, or the cache is not writable.

    The lock lasts until every process that inherits the descriptor has closed it, or has ended.
    """
    try:
        DEPENDENT_FOLDER.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(DEPENDENT_FOLDER / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked() -> bool:
    """Check whether a process is compiling kernels in advance."""
    try:
        descriptor = os.open(DEPENDENT_FOLDER / "lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
