"""`/docs`: the API in a browser. All its files are served from here, so no other host is needed."""

import asyncio
import json
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException

from service.compute import Compute

STATIC = Path(__file__).parents[1] / "static"

# Explicit media types: the system's table may map .js to another one.
FILES = {
    "docs.js": (STATIC / "docs.js", "text/javascript"),
    "swagger-ui.css": (STATIC / "swagger-ui" / "swagger-ui.css", "text/css"),
    "swagger-ui-bundle.js": (STATIC / "swagger-ui" / "swagger-ui-bundle.js", "text/javascript"),
    "favicon-32x32.png": (STATIC / "swagger-ui" / "favicon-32x32.png", "image/png"),
}
"""The files of the page: by name under `/docs/`, with media types."""

# Swagger UI needs inline styles, and icons from data: URLs.
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
_FILE_HEADERS = {"Cache-Control": "public, max-age=3600", "X-Content-Type-Options": "nosniff"}


def router() -> APIRouter:
    """Return the routes of the page and its files. Include them at the root only: the page has relative links."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/docs")
    async def docs() -> FileResponse:
        """Show the API."""
        return FileResponse(STATIC / "docs.html", headers=_PAGE_HEADERS, media_type="text/html")

    @routes.get("/docs/{name}")
    async def docs_file(name: str) -> FileResponse:
        """Return a file of the page."""
        if name not in FILES:
            raise HTTPException(404)
        path, media_type = FILES[name]
        return FileResponse(path, headers=_FILE_HEADERS, media_type=media_type)

    return routes


def describe(app: FastAPI, compute: Compute) -> None:
    """Serve `openapi.json`. A thread builds it, at the first request: it takes 0.4 s of processor time."""
    turn, built = asyncio.Lock(), list[bytes]()

    async def openapi(_request: Request) -> Response:
        async with turn:
            if not built:
                built.append(await compute.run("", _encoded, app))
        return Response(built[0], media_type="application/json")

    app.add_route("/openapi.json", openapi, include_in_schema=False)


def _encoded(app: FastAPI) -> bytes:
    return json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
