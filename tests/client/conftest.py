"""One running service for all tests of the client, and a page that may call it."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

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

    extensions_map: ClassVar = SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def do_GET(self) -> None:  # noqa: N802
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
