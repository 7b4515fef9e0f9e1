"""One running service for all tests of the client, and a page that may call it."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.service.wager import Wager, serve

TYPESCRIPT = Path(__file__).parents[2] / "client" / "typescript"
HOST = "tool.example"

_PAGE = b"""<!doctype html>
<link rel="icon" href="data:,">
<script type="importmap">
{"imports": {"wager-client": "/dist/index.js", "openapi-fetch": "/node_modules/openapi-fetch/dist/index.mjs"}}
</script>
"""


class _Site(SimpleHTTPRequestHandler):
    """An empty page at /, and the files of the TypeScript client."""

    def do_GET(self) -> None:
        if self.path != "/":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(_PAGE)
        return None

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="session")
def built() -> None:
    """Skip where the TypeScript client is not built."""
    if not (TYPESCRIPT / "dist" / "index.js").exists():
        pytest.skip("client/typescript is not built: `make test` installs and builds it where npm exists")


@pytest.fixture(scope="session")
def node(built: None) -> str:  # noqa: ARG001
    """Return the path of Node 20 or newer."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node on this machine")
    version = subprocess.check_output([found, "--version"], text=True)
    if int(version[1:].partition(".")[0]) < 20:
        pytest.skip(f"the TypeScript client needs Node 20 or newer, and this is {version}")
    return found


@pytest.fixture(scope="session")
def origin() -> Iterator[str]:
    """Serve a page; return its origin. A browser must take `HOST` for this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Site, directory=str(TYPESCRIPT))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://{HOST}:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory, origin: str) -> Iterator[Wager]:
    with serve(tmp_path_factory.mktemp("service"), WAGER_CORS_ORIGINS=origin) as wager:
        yield wager
