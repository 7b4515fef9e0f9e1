"""The laws of the TypeScript client: its own tests pass on a running service, and it works in a browser."""

import os
import shutil
import subprocess
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Page, sync_playwright

from tests.client.conftest import HOST, TYPESCRIPT
from tests.servers import wait_until
from tests.service.wager import Wager

_ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP {HOST} 127.0.0.1"]
_PREDICT = """
async ([baseUrl, model]) => {
  const { FeedbackQueue, Wager } = await import("wager-client");
  const wager = new Wager({ baseUrl, timeout: 60_000 });
  await wager.createModel({ name: model, labels: ["a", "b"], features: { kind: "named" } });
  const prediction = await wager.predict(model, { hour: 9 });
  window.predictions = await wager.predictBatch(model, Array(500).fill({ context: {} }));
  window.queue = new FeedbackQueue(wager);
  return (await wager.feedback(prediction, { correct: true })).status;
}
"""
_PUT_AND_LEAVE = """
() => {
  for (const prediction of predictions) queue.put(prediction, { correct: true });
  location.href = "about:blank";
}
"""


def test_the_package_passes_its_tests(running: Wager) -> None:
    """The types fit openapi.json, the sources compile, and all tests of the package run."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("no node or npm on this machine")
    if int(subprocess.check_output([node, "--version"], text=True)[1:].partition(".")[0]) < 20:
        pytest.skip("the client needs Node 20 or newer")
    if not (TYPESCRIPT / "node_modules").exists():
        pytest.skip("client/typescript has no node_modules: `make test` installs them where npm is installed")
    environment = os.environ | {"WAGER_BASE_URL": running.url, "npm_config_update_notifier": "false"}
    done = subprocess.run(
        [npm, "test"], cwd=TYPESCRIPT, env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n# skipped 0\n" in done.stdout


@pytest.fixture
def page(origin: str) -> Iterator[Page]:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the PATH")
    if not (TYPESCRIPT / "dist" / "index.js").exists():
        pytest.skip("client/typescript is not built: `make test` does it where npm is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        page = browser.new_page()
        page.goto(origin)
        yield page
        browser.close()


def test_a_page_predicts_and_loses_no_feedback_when_it_is_left(page: Page, running: Wager) -> None:
    """A page without HTTPS calls the service from another origin. What waits when it is left is recorded."""
    model = "typescript-page"
    assert page.evaluate(_PREDICT, [running.url, model]) == "recorded"
    page.evaluate(_PUT_AND_LEAVE)
    with httpx2.Client(base_url=running.url, timeout=60.0, verify=False) as client:
        wait_until(lambda: client.get(f"/models/{model}").json()["rounds_seen"] == 501, 20.0)
