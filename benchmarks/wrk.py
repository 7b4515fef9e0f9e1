"""The load generator wrk, where it is installed: it takes less of the machine than a driver in Python."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

SCRIPT = """
local requests, next = {}, 0
function init(arguments)
  for body in io.lines(arguments[2]) do
    requests[#requests + 1] = wrk.format("POST", arguments[1], {["content-type"] = "application/json"}, body)
  end
end
function request()
  next = next % #requests + 1
  return requests[next]
end
"""


def is_installed() -> bool:
    """Check whether wrk is installed."""
    return shutil.which("wrk") is not None


def requests_answered(port: int, path: str, bodies: Iterable[bytes], connections: int, seconds: int) -> int:
    """Send bodies in turn to 127.0.0.1 over the connections, each as soon as the last one is answered.

    Returns:
        The number of answers.

    Raises:
        RuntimeError: if an answer has another status than 200, or a connection failed; the message is wrk's report.
    """
    with tempfile.TemporaryDirectory() as folder:
        script, lines = Path(folder, "requests.lua"), Path(folder, "bodies")
        script.write_text(SCRIPT)
        lines.write_bytes(b"\n".join(bodies) + b"\n")
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(script), f"http://127.0.0.1:{port}"]
        report = subprocess.run([*command, "--", path, str(lines)], capture_output=True, check=True, text=True).stdout
    answered = re.search(r"(\d+) requests in", report)
    if answered is None or "Non-2xx" in report or "Socket errors" in report:
        raise RuntimeError(report)
    return int(answered[1])
