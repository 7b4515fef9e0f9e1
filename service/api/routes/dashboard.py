"""`/`: the dashboard. All its files are served from here, so no other host is needed, and none of them has data."""

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

FOLDER = Path(__file__).parents[1] / "static" / "dashboard"

_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_VENDORED = {"uPlot.esm.js": FOLDER / "uplot" / "uPlot.esm.js", "uPlot.min.css": FOLDER / "uplot" / "uPlot.min.css"}
FILES = {path.name: path for path in sorted(FOLDER.iterdir()) if path.suffix in _MEDIA_TYPES} | _VENDORED
"""The files of the page: by name under `/dashboard/`."""

_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}
_FILE_HEADERS = {"Cache-Control": "no-cache"}  # the files belong together, so none may be older than the page


def router() -> APIRouter:
    """Return the routes of the page and its files. Include them at the root only: the page has relative links."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def dashboard() -> FileResponse:
        """Show all models."""
        return FileResponse(FOLDER / "index.html", headers=_PAGE_HEADERS, media_type="text/html")

    @routes.get("/dashboard/{name}")
    async def dashboard_file(name: str) -> FileResponse:
        """Return a file of the page."""
        if name not in FILES:
            raise HTTPException(404)
        path = FILES[name]
        return FileResponse(path, headers=_FILE_HEADERS, media_type=_MEDIA_TYPES[path.suffix])

    return routes
