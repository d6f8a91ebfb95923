"""Chromium, driven through Playwright, and `stenolog inspect` as a process that it looks at."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request

PROGRAM = shutil.which("chromium") or ""
NEEDED = ("playwright", "starlette", "uvicorn", "jinja2")
Scheme = Literal["light", "dark"]
# Without GPU and shared memory it runs in a container, too; as root it has no sandbox.
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]

FINDINGS = """async () => (await axe.run({ resultTypes: ["violations"] })).violations
    .filter(found => ["serious", "critical"].includes(found.impact))
    .map(found => [found.id, found.impact, found.nodes.length, found.nodes[0].html.slice(0, 200),
                   found.nodes[0].failureSummary.slice(0, 300)])"""
"""The script that returns the findings of axe-core that are serious."""


def missing() -> str:
    """Return the reason for which there is no browser here, "" where there is one."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    return "" if PROGRAM else "there is no chromium here (apt-get install chromium)"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser. No asyncio loop can be run in this thread until it ends."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=OPTIONS)
        yield browser
        browser.close()


@contextmanager
def inspected(db: Path, *arguments: str, before: Sequence[str] = ()) -> Iterator[str]:
    """Run `stenolog inspect` on a database, and yield the address that it prints, with its token.

    `before` are words in front of the command, of a program that runs it.
    """
    command = [*before, sys.executable, "-m", "stenolog", "inspect", *arguments, "--db", str(db)]
    env = {**os.environ, "NO_COLOR": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            first = process.stdout.readline()
            assert first, process.stderr.read().decode()
            yield json.loads(first)["url"]
            assert process.poll() is None, "the server has ended by itself"
        finally:
            process.terminate()
            try:
                _, told = process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert "Traceback" not in told.decode(), told.decode()


@dataclass
class Watch:
    """Everything that a page did and must not do."""

    host: str
    problems: list[str] = field(default_factory=list)

    def attach(self, context: BrowserContext) -> None:
        """Listen to all pages of a context."""
        context.on("page", self._page)
        context.on("request", self._request)
        context.on("console", self._console)
        context.on("dialog", self._dialog)
        context.on("weberror", lambda error: self.problems.append(f"error: {error.error}"))

    def _page(self, page: Page) -> None:
        page.on("popup", lambda popup: self.problems.append(f"popup: {popup.url}"))
        page.on("download", lambda download: self.problems.append(f"download: {download.url}"))
        page.on("crash", lambda _: self.problems.append("the page has crashed"))

    def _request(self, request: Request) -> None:
        asked = urlsplit(request.url)
        if asked.netloc != self.host or asked.scheme != "http":
            self.problems.append(f"asks for {request.url:.200}")

    def _console(self, message: ConsoleMessage) -> None:
        # Of the page itself a test sees that it was not found; of what the page loads it does not.
        is_page = message.page is not None and message.location["url"] == message.page.url
        if message.type in {"error", "warning"} and not (is_page and "status of 40" in message.text):
            self.problems.append(f"console: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def opened(
    browser: Browser, url: str, *, scheme: Scheme = "light", width: int = 1280, javascript: bool = True
) -> Iterator[tuple[Page, Watch]]:
    """Open an address in a new profile, and close it. Raises `AssertionError` for what no page may do."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, java_script_enabled=javascript
    )
    context.set_default_timeout(10_000)
    watch = Watch(urlsplit(url).netloc)
    watch.attach(context)
    try:
        page = context.new_page()
        page.goto(url)
        yield page, watch
    finally:
        context.close()
    assert watch.problems == [], watch.problems


def site(url: str) -> str:
    """Return the beginning of a page's address, with the place that nobody can guess."""
    found = urlsplit(url)
    return f"http://{found.netloc}/{found.path.split('/')[1]}"


def path_of(url: str) -> str:
    """Return the path of a page below that place."""
    return urlsplit(url.removeprefix(site(url))).path
