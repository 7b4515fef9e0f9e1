"""The commands of the toolkit. Each is imported only when it is run, because some imports take a second."""

import functools
from collections.abc import Callable

from service.commands.options import fail
from toolkit import ToolError

_EXTRA = {"joblib", "matplotlib", "pyarrow", "distributed"}  # optional dependencies


def command(name: str) -> Callable[..., None]:
    """Return the function of a command. It reports errors for the user in one line on standard error."""
    function = _function(name)

    @functools.wraps(function)
    def run(**options: object) -> None:
        try:
            function(**options)
        except ToolError as error:
            fail(str(error), error.exit_code)
        except ModuleNotFoundError as error:
            if error.name not in _EXTRA:
                raise
            fail(f"{error.name} is not installed: pip install 'wager[tools]'")
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))

    return run


def _function(name: str) -> Callable[..., None]:
    """Import a command, and return its function."""
    match name:
        case "compare":
            from toolkit.compare.command import compare

            return compare
        case "fit":
            from toolkit.fit import fit

            return fit
        case "replay":
            from toolkit.replay import replay

            return replay
        case "export":
            from toolkit.export import export

            return export
        case "evaluate":
            from toolkit.evaluation.command import evaluate

            return evaluate
    return _of_operators(name)


def _of_operators(name: str) -> Callable[..., None]:
    match name:
        case "demo":
            from toolkit.demo import demo

            return demo
        case "load":
            from toolkit.load.command import load

            return load
        case "backup":
            from toolkit.backup import backup

            return backup
        case "memory":
            from toolkit.memory import memory

            return memory
        case "restore":
            from toolkit.restore import restore

            return restore
    from toolkit.repair import repair

    return repair
