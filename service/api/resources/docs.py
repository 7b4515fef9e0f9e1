"""`/docs`: the API in a browser, all from files of ours, so that it works without any other host."""

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

STATIC = Path(__file__).parent / "static"

# Their types are not left to the system's table, which may call a script something else.
FILES = {
    "docs.js": (STATIC / "docs.js", "text/javascript"),
    "swagger-ui.css": (STATIC / "swagger-ui" / "swagger-ui.css", "text/css"),
    "swagger-ui-bundle.js": (STATIC / "swagger-ui" / "swagger-ui-bundle.js", "text/javascript"),
    "favicon-32x32.png": (STATIC / "swagger-ui" / "favicon-32x32.png", "image/png"),
}
"""What the page loads, by its name under `/docs/`, with its media type."""

# Swagger UI sets styles from its script and draws its icons from data: addresses.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
_FILE_HEADERS = {"Cache-Control": "public, max-age=3600", "X-Content-Type-Options": "nosniff"}


def router() -> APIRouter:
    """The page and its files. To be included at the root only: the page names them, and openapi.json, relatively."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/docs")
    async def docs() -> FileResponse:
        """Shows the API, and tries it."""
        return FileResponse(STATIC / "docs.html", headers=_PAGE_HEADERS, media_type="text/html")

    @routes.get("/docs/{name}")
    async def docs_file(name: str) -> FileResponse:
        """A file that the page loads."""
        if name not in FILES:
            raise HTTPException(404)
        path, media_type = FILES[name]
        return FileResponse(path, headers=_FILE_HEADERS, media_type=media_type)

    return routes
