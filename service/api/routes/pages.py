"""The dashboard at `/` and the page of the API at `/docs`. Their files contain no data and need no other host."""

from collections.abc import Mapping
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

STATIC = Path(__file__).parents[1] / "static"
DASHBOARD = STATIC / "dashboard"

# The media types are explicit, because the system's table may map .js to another one.
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".png": "image/png"}

DASHBOARD_FILES = {path.name: path for path in sorted(DASHBOARD.iterdir()) if path.suffix in _MEDIA_TYPES} | {
    name: DASHBOARD / "uplot" / name for name in ("uPlot.esm.js", "uPlot.min.css")
}
"""Files under `/dashboard/`, by name."""

DOCS_FILES = {"docs.js": STATIC / "docs.js"} | {
    name: STATIC / "swagger-ui" / name for name in ("swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png")
}
"""Files under `/docs/`, by name."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{}; img-src 'self'{}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REVALIDATED = {"Cache-Control": "no-cache"}  # so that no file of the dashboard is older than its page
_DOCS_HEADERS = {"X-Content-Type-Options": "nosniff"}
# Swagger UI needs inline styles, and icons from data: URLs.
_DOCS_POLICY = {"Content-Security-Policy": _POLICY.format(" 'unsafe-inline'", " data:")}


def router() -> APIRouter:
    """Return the routes of the pages and their files. Their links are relative, so they work under /v1 as well."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def dashboard() -> FileResponse:
        """Return the page that shows all models."""
        headers = {"Content-Security-Policy": _POLICY.format("", "")} | _REVALIDATED
        return FileResponse(DASHBOARD / "index.html", headers=headers, media_type="text/html")

    @routes.get("/dashboard/{name}")
    async def dashboard_file(name: str) -> FileResponse:
        """Return a file of the dashboard."""
        return _file(DASHBOARD_FILES, name, _REVALIDATED)

    @routes.get("/docs")
    async def docs() -> FileResponse:
        """Return the page that describes the API."""
        return FileResponse(STATIC / "docs.html", headers=_DOCS_POLICY | _DOCS_HEADERS, media_type="text/html")

    @routes.get("/docs/{name}")
    async def docs_file(name: str) -> FileResponse:
        """Return a file of the API page."""
        return _file(DOCS_FILES, name, {"Cache-Control": "public, max-age=3600"} | _DOCS_HEADERS)

    return routes


def _file(files: Mapping[str, Path], name: str, headers: Mapping[str, str]) -> FileResponse:
    if name not in files:
        raise HTTPException(404)
    return FileResponse(files[name], headers=headers, media_type=_MEDIA_TYPES[files[name].suffix])
