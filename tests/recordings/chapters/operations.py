"""What is about no model, or about all: lists, descriptions, health, pages, keys, origins and limits of requests."""

import hashlib
import itertools
from typing import Any

from service.access.key_admin import KeyAdmin
from service.api.routes import pages
from service.store.access_tables import ApiKeyTable
from tests.recordings.chapters.teaching import DENSE, LABELS, contexts, teach
from tests.recordings.playing import Chapter, Play
from tests.service.keyed import bearer


async def _lists(play: Play) -> None:
    for path in ("/models", "/statistics"):
        await play.get(path)
    for number in range(5):
        name = await play.create(str(number), labels=LABELS, features=DENSE)
        await teach(play, name, contexts(number, 5 * number + 1))
        await play.publish(name)
    await play.create("set", labels=LABELS, features=DENSE, learner="fenchel-young-multilabel")
    await play.create("acts", actions={"features": DENSE})
    for path in ("/models", "/statistics"):
        whole = await play.send("GET", path)
        if "etag" in whole.headers:
            await play.send("GET", path, if_none_match=whole.headers["etag"])
        cursor: str | None = ""
        while cursor is not None:
            page = await play.get(f"{path}?limit=3" + (f"&cursor={cursor}" if cursor else ""))
            cursor = page["next_cursor"]
        await _queries(play, path)
    name = play.name("1")
    for query in ("limit=2", "limit=0", "cursor=x", "limit=2&cursor=%2A", "after=1"):
        await play.send("GET", f"/models/{name}/predictions?{query}")
    await play.send("GET", f"/models/{play.name('4')}/rounds?after=2&limit=3")
    for path in (f"/models/{name}", f"/models/{name}", f"/models/{name}/rounds"):
        await play.send("DELETE", path)
    await play.create("1", labels=LABELS)
    await play.get(f"/models/{name}")
    await play.send("GET", "/metrics")


async def _queries(play: Play, path: str) -> None:
    for query in ("limit=0", "limit=1001", "limit=x", "cursor=%7B", "limt=3", "limit=2&limit=3", "cursor=zzz"):
        await play.send("GET", f"{path}?{query}")
    for sort in ("reward", "trouble", "colour"):  # traffic is counted each second
        first = await play.send("GET", f"{path}?sort={sort}&limit=4")
        if first.status_code == 200:
            await play.send("GET", f"{path}?sort={sort}&cursor={first.json()['next_cursor']}")
    for query in ("search=AC", "search=nothing", f"search={'a' * 65}", "sort=reward&cursor=a", "cursor=reward:1:a"):
        await play.send("GET", f"{path}?{query}")


_OPEN = ["/livez", "/readyz", "/learners", "/metrics", "/openapi.json", "/", "/docs", "/favicon.ico", "/nothing"]


async def _pages(play: Play) -> None:
    files = [f"/docs/{each}" for each in (*pages.DOCS_FILES, "none.js")]
    files += [f"/dashboard/{each}" for each in (*pages.DASHBOARD_FILES, "none.js")]
    for path in (*_OPEN, *files, *(f"/v1{each}" for each in _OPEN)):
        await play.send("GET", path)
    for path in ("/", "/models", "/predict", "/livez", "/models/nobody", "/learners"):
        for method in ("HEAD", "OPTIONS", "PUT", "TRACE"):
            await play.send(method, path)
    for path in ("/v1/models/nobody", "/V1/models", "/models/", "//models", "/models/a/b", "/learners?x=1", "/v1"):
        await play.send("GET", path)


async def _versioned(play: Play) -> None:
    await play.post("/v1/models", {"name": play.name("m"), "labels": LABELS, "features": DENSE})
    path = f"/v1/models/{play.name('m')}"
    await play.post("/v1/predict", {"model": play.name("m"), "context": contexts(1, 1)[0], "prediction_id": "p"})
    await play.post("/v1/predict/batch", {"model": play.name("m"), "contexts": contexts(2, 3)})
    await play.post("/v1/feedback", {"prediction_id": f"{play.name('m')}:p", "correct": True})
    await play.post("/v1/feedback/batch", {"feedback": [{"prediction_id": f"{play.name('m')}:p", "correct": True}]})
    await play.post("/v1/activate", {"prediction_id": f"{play.name('m')}:p"})
    await play.send("PATCH", path, {"window_seconds": 9.0}, if_match="*")
    for end in ("", "/changes", "/snapshots", "/rounds", "/imports", "/shadows", "/predictions", "/evaluation"):
        await play.send("GET", path + end)
    await play.post(f"{path}/explain", {"context": contexts(1, 1)[0]})
    await play.send("DELETE", path)


def _key_admin(play: Play) -> KeyAdmin:
    numbers = itertools.count()

    def noise(size: int) -> bytes:
        return hashlib.blake2b(f"{play.name('')}{next(numbers)}".encode(), digest_size=size).digest()

    return KeyAdmin(ApiKeyTable(play.store.command), play.clock, noise)


async def _keys(play: Play) -> None:
    keys, pattern = _key_admin(play), play.name("own*")
    admin, asks = await keys.create("admin", ["admin"]), await keys.create("asks", ["predict"], pattern)
    reads, tells = await keys.create("reads", ["read"], pattern), await keys.create("tells", ["feedback"], pattern)
    short = await keys.create("short", ["read"], expires_in=60.0)
    own, other = play.name("own"), play.name("other")
    body = {"labels": LABELS, "features": DENSE}
    for name in (own, other):
        await play.send("POST", "/models", {"name": name, **body}, headers=bearer(admin))
    requests: list[tuple[str, str, Any]] = [
        ("GET", "/key", None), ("GET", "/models", None), ("GET", "/statistics", None), ("GET", f"/models/{own}", None),
        ("GET", f"/models/{other}", None), ("GET", "/models/nobody", None), ("GET", "/metrics", None),
        ("POST", "/models", {"name": play.name("owned"), **body}),
        ("POST", "/models", {"name": play.name("more"), **body}),
        ("POST", "/predict", {"model": own, "context": contexts(1, 1)[0], "prediction_id": "p"}),
        ("POST", "/predict", {"model": other, "context": contexts(1, 1)[0], "prediction_id": "p"}),
        ("POST", "/feedback", {"prediction_id": f"{own}:p", "correct": True}),
        ("POST", "/feedback/batch", {"feedback": [{"prediction_id": f"{other}:p", "correct": True}]}),
        ("POST", f"/models/{own}/explain", {"context": contexts(1, 1)[0]}),
        ("POST", f"/models/{own}/snapshots", {"id": "kept"}), ("DELETE", f"/models/{other}/snapshots/kept", None),
    ]  # fmt: skip
    for key in (asks, reads, tells, admin):
        for request in requests:
            await play.send(*request, headers=bearer(key))
    await play.send("PATCH", f"/models/{own}", {"window_seconds": 9.0}, if_match="*", headers=bearer(admin))
    await play.send("GET", f"/models/{own}/changes", headers=bearer(reads))
    full = await keys.create("full", ["predict"], own, budgets={"open_bytes": 1})
    prediction = {"model": own, "context": contexts(1, 1)[0], "prediction_id": "unjudged"}
    await play.send("POST", "/predict", prediction, headers=bearer(admin))
    await play.send("POST", "/predict", prediction | {"prediction_id": "refused"}, headers=bearer(full))
    wide = await keys.create("wide", ["admin"], budgets={"models": 1})
    await play.send("POST", "/models", {"name": play.name("refused"), **body}, headers=bearer(wide))
    await _bad_keys(play, keys, short.text, asks.text)


async def _bad_keys(play: Play, keys: KeyAdmin, short: str, asks: str) -> None:
    for path in ("/models", "/livez", "/", "/openapi.json", "/nothing"):
        await play.send("GET", path)
    path = "/models/nobody"
    await play.send("GET", "/learners", headers=bearer(asks))
    await play.send("GET", path, headers=bearer(short))
    await play.send("GET", path, x_api_key=short)
    await play.send("GET", path, x_api_key=short, headers=bearer(asks))
    await play.send("GET", path, authorization=short)
    await play.wait(120.0)
    await play.send("GET", path, headers=bearer(short))
    limited = await keys.create("limited", ["read"], budgets={"requests": "2/day"})
    for _ in range(4):
        await play.send("GET", path, headers=bearer(limited))
    for number in range(22):
        await play.send("GET", path, headers=bearer(f"wk_wrong{number}"))


async def _origins(play: Play) -> None:
    for origin in ("https://shop.example", "https://evil.example", "http://localhost", "null"):
        await play.send("GET", "/models/nobody", origin=origin)
        await play.send("POST", "/predict", {}, origin=origin)
        asked = {"origin": origin, "access_control_request_method": "POST"}
        asked |= {"access_control_request_headers": "content-type,x-api-key"}
        await play.send("OPTIONS", "/predict", headers=asked)
    for host in ("shop.example", "127.0.0.1:8000", "wager.example:9", "bad host", "[::1]"):
        await play.send("GET", "/livez", host=host)
        await play.send("POST", "/predict", {}, host=host)


async def _request_ids(play: Play) -> None:
    for given in ("a-1", "x" * 128, "x" * 129, "a b", ""):
        await play.send("GET", "/livez", x_request_id=given)
        await play.send("GET", "/models/nobody", x_request_id=given)
        await play.send("POST", "/predict", {}, x_request_id=given)


CHAPTERS = [
    Chapter("lists", _lists),
    Chapter("pages", _pages),
    Chapter("versioned", _versioned),
    Chapter("keys", _keys, {"auth": "required", "key_cache_seconds": 0.0}),
    Chapter("origins", _origins, {"cors_origins": "https://shop.example", "allowed_hosts": "wager.example"}),
    Chapter("request-ids", _request_ids),
]
