"""`stenolog inspect`, as a process."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

import stenolog
from stenolog.apps.cli.commands.see.demo import record_all
from stenolog.apps.inspect.app import PAGES, TEXTS
from stenolog.apps.inspect.pages.conversations import FIELDS
from stenolog.apps.inspect.query import CONDITIONS
from tests.forked import python


def test_the_command_prints_an_address_that_opens_the_page_and_follows_the_conversation(
    tmp_path: Path,
) -> None:
    db = tmp_path / "talks.db"
    with stenolog.open(db) as log:
        log["demo"].append(stenolog.UserMessage("Which test fails?"))
        command = python("-m", "stenolog", "inspect", "demo", "--db", str(db))
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            where = urlsplit(url)
            assert where.hostname == "127.0.0.1"
            with httpx.Client(base_url=f"http://{where.netloc}", follow_redirects=True) as web:
                page = web.get(url)
                assert "Which test fails?" in page.text
                tail = page.url.path.replace("/read/", "/tail/")
                with web.stream("GET", tail, params={"after": 2}) as stream:
                    log["demo"].append(stenolog.UserMessage("More."))
                    assert (
                        next(line for line in stream.iter_lines() if line.startswith("data: ")) == "data: 3"
                    )
            process.terminate()
            process.wait(timeout=20)


def test_the_demo_opens_its_page_in_the_browser(tmp_path: Path) -> None:
    told = tmp_path / "told.txt"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}.part && mv {told}.part {told}\n')
    browser.chmod(0o755)
    command = python("-m", "stenolog", "demo", "--open", "--db", str(tmp_path / "talks.db"))
    env = {**os.environ, "BROWSER": str(browser), "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, b"")
            url = json.loads(next(line for line in lines if line.startswith(b'{"url"')))["url"]
            with httpx.Client(follow_redirects=True) as web:
                assert "Thanks! What did we change in all?" in web.get(url).text
            assert told.read_text().strip() == url
        finally:
            process.terminate()
            process.wait(timeout=20)


# The how-to names every address of the pages, and everything that one takes.


ROOT = Path(__file__).parents[2]
HOW_TO = (ROOT / "docs" / "how-to" / "inspect.md").read_text("utf-8")
TABLE = HOW_TO.partition("## Addresses")[2]
PATHS = sorted({*(page.path for page in PAGES), *(page.twin_path for page in PAGES if page.twin)})
PATHS += [text.path for text in TEXTS]
SOURCES = [path.read_text("utf-8") for path in (ROOT / "stenolog" / "apps" / "inspect").rglob("*.py")]
NAMED = {name for source in SOURCES for name in re.findall(r"""(?:word|number)\("(\w+)\"""", source)}
TAKEN = sorted({*NAMED, *CONDITIONS, *FIELDS, "edit"})
WRONG = ("9" * 5_000, "-1", "9-3", "99:x", "\x00", '{"x":' * 5_000, "0001-01-01T00:00:00+14:00")


def test_every_address_is_in_the_how_to(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        routes = [route for route in stenolog.inspector(log).routes if isinstance(route, Route)]
    first = {route.path.split("/")[1].removesuffix(".json") for route in routes} - {"index"}
    missing = sorted(name for name in first if f"`/{name}`" not in TABLE and f"`/{name}/" not in TABLE)
    assert missing == []


def test_everything_that_an_address_takes_is_in_the_how_to() -> None:
    assert {"at", "agent", "q", "turn", "of"} < NAMED
    assert [name for name in TAKEN if f"`{name}`" not in TABLE] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_whatever_a_parameter_says_the_page_is_shown_or_refused(
    web: TestClient, log: stenolog.Log, path: str
) -> None:
    record_all(log)
    for name in TAKEN:
        for written in WRONG:
            answer = web.get(path.replace("{name:path}", "demo"), params={"at": "4", name: written})
            assert answer.status_code in (200, 400, 404), (name, written[:20])
