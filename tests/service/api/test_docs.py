"""The laws of `/docs`: the page needs no other host."""

import asyncio
import hashlib
import re
import threading
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from service.api.responses import problems
from service.api.routes import pages
from service.app import create_app
from service.settings import Settings

_VENDORED = pages.STATIC / "swagger-ui"
_LOADED = re.compile(r'(?:src|href)="([^"]*)"')


@pytest.fixture(scope="module")
def app() -> FastAPI:
    """Return the application, with an unreachable store."""
    return create_app(Settings(store_url="unix:///nowhere/valkey.sock"))


def get(app: FastAPI, path: str) -> httpx2.Response:
    """Request a path of the application."""

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as client:
            return await client.get(path)

    return asyncio.run(ask())


def test_the_page_names_no_foreign_host(app: FastAPI) -> None:
    """Neither the page nor its script has a host's address, and the content security policy allows no other host."""
    page = get(app, "/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "//" not in page.text
    assert "://" not in get(app, "/docs/docs.js").text
    sources = set(
        re.findall(r"(?:default|script|style|img|connect)-src ([^;]*)", page.headers["content-security-policy"])
    )
    assert {word for source in sources for word in source.split()} == {"'none'", "'self'", "'unsafe-inline'", "data:"}


def test_everything_the_page_loads_is_served(app: FastAPI) -> None:
    """Every address in the page, and the description its script names, has an answer of the right type."""
    loaded = _LOADED.findall(get(app, "/docs").text)
    assert {address.removeprefix("docs/") for address in loaded} == {*pages.DOCS_FILES, "openapi.json"}
    types = {address: get(app, f"/{address}").headers["content-type"].partition(";")[0] for address in loaded}
    assert types == {
        "docs/swagger-ui.css": "text/css",
        "docs/favicon-32x32.png": "image/png",
        "openapi.json": "application/json",
        "docs/swagger-ui-bundle.js": "text/javascript",
        "docs/docs.js": "text/javascript",
    }
    assert 'url: "openapi.json"' in get(app, "/docs/docs.js").text


@pytest.mark.parametrize("name", ["docs.html", "LICENSE", "SHA256SUMS", "..%2fdocs.py", "%2e%2e/docs.py"])
def test_other_files_are_not_served(app: FastAPI, name: str) -> None:
    """Any file that the page does not load is answered with a 404 problem."""
    answer = get(app, f"/docs/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == problems.MEDIA_TYPE


def test_swagger_ui_is_the_published_version() -> None:
    """Every vendored file, including the licences, has the checksum noted when it was downloaded."""
    lines = (_VENDORED / "SHA256SUMS").read_text().splitlines()
    noted = {name: digest for digest, name in (line.split("  ") for line in lines if not line.startswith("#"))}
    files = [path for path in _VENDORED.iterdir() if path.name != "SHA256SUMS"]
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files} == noted
    assert {"LICENSE", "NOTICE", "swagger-ui-bundle.js.LICENSE.txt"} < set(noted)


def test_a_thread_builds_the_description() -> None:
    """`openapi.json` is built once, and not by the event loop, which it would block."""
    app, threads = create_app(Settings(store_url="unix:///nowhere/valkey.sock")), list[int]()
    plain = app.openapi

    def noted() -> dict[str, Any]:
        threads.append(threading.get_ident())
        return plain()

    app.openapi = noted  # type: ignore[method-assign]
    assert get(app, "/openapi.json").json() == get(app, "/openapi.json").json() == plain()
    assert len(threads) == 1
    assert threads != [threading.get_ident()]
