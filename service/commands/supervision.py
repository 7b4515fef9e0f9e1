"""The supervisor of several workers: uvicorn's, which also sees a death during a health check."""

import logging

from uvicorn.supervisors.multiprocess import Multiprocess

_log = logging.getLogger(__name__)


class Supervisor(Multiprocess):
    """Replaces workers that died.

    Uvicorn's supervisor waits for the answer to a health check as long as a hung worker may take. It keeps its copy of
    the worker's end of the pipe open, so it would not see that the worker died, or that another one did, until then.
    """

    def init_processes(self) -> None:
        """See `Multiprocess`."""
        super().init_processes()
        self._close_ends_of_workers()

    def keep_subprocess_alive(self) -> None:
        """See `Multiprocess`."""
        try:
            super().keep_subprocess_alive()
        except OSError as error:  # such as too many processes, or no working directory; the next pass tries again
            _log.error("cannot start a worker: %s", error)
        self._close_ends_of_workers()

    def _close_ends_of_workers(self) -> None:
        """Close what only workers use, so that the pipe of a dead worker has an end."""
        for process in self.processes:
            process.child_conn.close()
