"""Fixtures of the tests in a browser. They are slow, and skipped where there is no browser."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import npm

from . import browsing
from .browsing import Scheme

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HERE = Path(__file__).parent
Open = Callable[..., "Page"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as slow, and skip them without a browser."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("slow")
            if reason := browsing.missing():
                item.add_marker(pytest.mark.skip(reason=reason))


# Playwright's loop runs as long as its browser, and no other loop can run in that thread: so it ends with
# each module, not with the session.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing.chromium() as started:
        yield started


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Open]:
    """Open pages of the module's server: `visit("/c/demo", scheme="dark", width=700)`."""
    yield from visits(browser, url)


def visits(browser: Browser, url: str) -> Iterator[Open]:
    """Yield a function that opens pages of a server, which are closed afterwards."""
    with ExitStack() as stack:

        def visited(
            path: str = "/", *, scheme: Scheme = "light", width: int = 1280, javascript: bool = True
        ) -> Page:
            page, _ = stack.enter_context(
                browsing.opened(browser, url, scheme=scheme, width=width, javascript=javascript)
            )
            if path != "/":
                page.goto(browsing.site(page.url) + path)
            return page

        yield visited


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the script of axe-core. Skips where npm cannot install it."""
    try:
        folder = npm.installed(HERE, "axe-core")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm cannot install axe-core: {error.stderr.decode()[-200:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
