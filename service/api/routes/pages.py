"""The dashboard at `/` and the page of the API at `/docs`. Their files contain no data and need no other host."""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

STATIC = Path(__file__).parents[1] / "static"
DASHBOARD = STATIC / "dashboard"

# The media types are explicit, because the system's table may map .js to another one.
_MEDIA_TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}

DASHBOARD_FILES = {
    path.relative_to(DASHBOARD).as_posix(): path for path in sorted(DASHBOARD.rglob("*")) if path.suffix in _MEDIA_TYPES
}
"""Files under `/dashboard/`, by path."""

DOCS_FILES = {"docs.js": STATIC / "docs.js"} | {
    name: STATIC / "swagger-ui" / name for name in ("swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png")
}
"""Files under `/docs/`, by name."""

_POLICY = (
    "default-src 'none'; script-src 'self'{}; style-src 'self'{}; img-src 'self'{}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REVALIDATED = {"Cache-Control": "no-cache"}  # so that no file of the dashboard is older than its page
_DOCS_HEADERS = {"X-Content-Type-Options": "nosniff"}
# Swagger UI needs inline styles, and icons from data: URLs.
_DOCS_POLICY = {"Content-Security-Policy": _POLICY.format("", " 'unsafe-inline'", " data:")}


def router() -> APIRouter:
    """Return the routes of the pages and their files. Their links are relative, so they work under /v1 as well."""
    routes = APIRouter(include_in_schema=False)
    page = (DASHBOARD / "index.html").read_text()
    policy = {"Content-Security-Policy": _POLICY.format(f" '{_import_map_digest(page)}'", "", "")}

    @routes.get("/")
    async def dashboard() -> Response:
        """Return the page that shows and changes models."""
        return Response(page, headers=policy | _REVALIDATED, media_type="text/html")

    @routes.get("/dashboard/{path:path}")
    async def dashboard_file(path: str) -> FileResponse:
        """Return a file of the dashboard."""
        return _file(DASHBOARD_FILES, path, _REVALIDATED)

    @routes.get("/docs")
    async def docs() -> FileResponse:
        """Return the page that describes the API."""
        return FileResponse(STATIC / "docs.html", headers=_DOCS_POLICY | _DOCS_HEADERS, media_type="text/html")

    @routes.get("/docs/{name}")
    async def docs_file(name: str) -> FileResponse:
        """Return a file of the API page."""
        return _file(DOCS_FILES, name, {"Cache-Control": "public, max-age=3600"} | _DOCS_HEADERS)

    return routes


def _import_map_digest(page: str) -> str:
    """Return the digest that allows the import map, which browsers accept only inline."""
    text = page.partition('<script type="importmap">')[2].partition("</script>")[0]
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _file(files: Mapping[str, Path], name: str, headers: Mapping[str, str]) -> FileResponse:
    if name not in files:
        raise HTTPException(404)
    return FileResponse(files[name], headers=headers, media_type=_MEDIA_TYPES[files[name].suffix])
