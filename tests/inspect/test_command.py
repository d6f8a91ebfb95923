"""`stenolog inspect`, as a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
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
from tests.cli.terminal import CTRL_C, Terminal
from tests.forked import python

from .words import words

ROOT = Path(__file__).parents[2]


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


# A folder is imported while its page is used.

PATIENCE_S = 60.0


def said(*words: str) -> str:
    """Return a file of messages, one a line."""
    return "".join(json.dumps({"role": "user", "content": word}) + "\n" for word in words)


class Inspecting:
    """`stenolog inspect ARGUMENTS` as a process, and a browser that has opened its address."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        env = {**os.environ, "HOME": str(folder), "STENOLOG_DB": "", "PYTHONPATH": str(ROOT)}
        env |= dict.fromkeys(("XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"), "")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stenolog", "inspect", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=env,
        )  # fmt: skip

    def __enter__(self) -> Inspecting:
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"]
        self._web = httpx.Client(follow_redirects=True)
        self._site = str(self._web.get(self.url).url).partition("/read/")[0].rstrip("/")
        return self

    def __exit__(self, *_: object) -> None:
        self._web.close()
        self.process.kill()
        self.process.communicate()

    def html(self, path: str) -> str:
        return self._web.get(f"{self._site}{path}").text

    def page(self, path: str) -> str:
        """Return the words of a page."""
        return words(self.html(path))

    def shows(self, path: str, text: str) -> str:
        """Wait until a page has this text, and return it."""
        end = time.monotonic() + PATIENCE_S
        while text not in (found := self.page(path)):
            assert time.monotonic() < end, found
            time.sleep(0.05)
        return found

    def children(self) -> list[int]:
        """Return the processes that it has started."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(each) for each in found]

    def ended(self, *signals: int) -> tuple[int, str]:
        """Send signals, and return the exit code and what it has said on stderr."""
        for each in signals:
            self.process.send_signal(each)
        _, told = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, told.decode()


def await_end(processes: list[int]) -> None:
    """Wait until processes have ended."""
    assert processes
    end = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{each}").exists() for each in processes):
        assert time.monotonic() < end, processes
        time.sleep(0.05)


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """Return a folder with two sessions."""
    made = tmp_path / "sessions"
    made.mkdir()
    (made / "one.jsonl").write_text(said("Which test fails?"))
    (made / "two.jsonl").write_text(said("What is new?"))
    return made


@pytest.mark.parametrize("given", ["sessions", "./sessions/", "~/sessions", "sessions/*.jsonl"])
def test_a_path_is_imported_and_what_is_new_there_later_is_shown(
    tmp_path: Path, sessions: Path, given: str
) -> None:
    with Inspecting(tmp_path, given) as web:
        web.shows("/importing", "2 files, 2 conversations")
        listed = web.page("/")
        assert "Which test fails?" in listed
        assert "What is new?" in listed
        with (sessions / "one.jsonl").open("a") as file:
            file.write(said("And the second one?"))
        (sessions / "three.jsonl").write_text(said("A third?"))
        web.shows("/importing", "3 files, 3 conversations")
        web.shows("/read/one", "And the second one?")


def test_a_file_that_is_not_imported_has_its_reason_on_the_page_as_text(
    tmp_path: Path, sessions: Path
) -> None:
    (sessions / "<img src=x onerror=alert(1)>.json").write_text('{"<script>alert(1)</script>": 1}')
    with Inspecting(tmp_path, "sessions") as web:
        shown = web.shows("/importing", "3 files, 2 conversations in them; 1 not recognised")
        assert "<script>alert(1)</script>" in shown
        assert "<img src=x onerror=alert(1)>.json" in shown
        assert "<script>alert" not in web.html("/importing")


def test_ctrl_c_ends_the_import_between_two_files_and_the_same_command_goes_on(
    tmp_path: Path, sessions: Path
) -> None:
    for number in range(150):
        (sessions / f"{number:03}.jsonl").write_text(said(*(f"{number}: {each}" for each in range(50))))
    with Inspecting(tmp_path, "sessions") as web:
        web.shows("/importing", "of 152 files")
        children = web.children()
        status, told = web.ended(signal.SIGINT)
    assert status == 130
    found = re.search(r"imported (\d+) of 152 files; the same command goes on from there", told)
    assert found, told
    await_end(children)
    db = tmp_path / ".local" / "share" / "stenolog" / "talks.db"
    with stenolog.open(db) as log:
        # Its settings, and the 50 messages.
        sizes = {log[name].position for name in log.names() if name.isdecimal()}
        assert sizes <= {51}
        assert log.count() < 152
    with Inspecting(tmp_path, "sessions") as web:
        web.shows("/importing", "152 files, 152 conversations")


def test_the_import_ends_with_a_server_that_was_killed(tmp_path: Path, sessions: Path) -> None:
    with Inspecting(tmp_path, "sessions") as web:
        web.shows("/importing", "2 files, 2 conversations")
        children = web.children()
        web.ended(signal.SIGKILL)
    await_end(children)


def test_a_conversations_name_comes_before_a_path_and_a_path_before_the_beginning_of_a_name(
    tmp_path: Path, sessions: Path
) -> None:
    db = tmp_path / "talks.db"
    with stenolog.open(db) as log:
        log["sessions"].append(stenolog.UserMessage("Which test fails?"))
    with Inspecting(tmp_path, "sessions", "--db", str(db)) as web:
        assert urlsplit(web.url).path == "/read/sessions"
    with Inspecting(tmp_path, "./sessions", "--db", str(db)) as web:
        assert urlsplit(web.url).path == "/"
        web.shows("/importing", "2 files, 2 conversations")
    with Inspecting(tmp_path, "sess", "--db", str(db)) as web:
        assert urlsplit(web.url).path == "/read/sessions"
    (tmp_path / "sess").mkdir()
    with Inspecting(tmp_path, "sess", "--db", str(db)) as web:
        assert urlsplit(web.url).path == "/"


def test_without_a_conversation_the_sessions_on_this_machine_are_offered_and_nothing_is_imported(
    tmp_path: Path,
) -> None:
    place = tmp_path / ".claude" / "projects" / "-srv-bakery"
    place.mkdir(parents=True)
    for name in ("one", "two"):
        (place / f"{name}.jsonl").write_text(said("Hi"))
    line = "stenolog inspect ~/.claude/projects"
    with Inspecting(tmp_path) as web:
        shown = web.page("/")
        _, told = web.ended(signal.SIGTERM)
    assert f"{line} 2 sessions of claude-code" in shown
    assert f"  {line}  (2 sessions of claude-code)\n" in told


def test_at_a_terminal_they_are_imported_after_a_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / ".codex" / "sessions"
    place.mkdir(parents=True)
    (place / "one.jsonl").write_text(said("Which test fails?"))
    stenolog.open(tmp_path / "talks.db").close()
    monkeypatch.setenv("HOME", str(tmp_path))
    with Terminal("inspect", cwd=tmp_path, columns=120) as terminal:
        terminal.expect("~/.codex/sessions  (1 session of codex)")
        terminal.says("y\n", "Open http://127.0.0.1:")
        with stenolog.open(tmp_path / "talks.db") as log:
            end = time.monotonic() + PATIENCE_S
            while "one" not in log:
                assert time.monotonic() < end
                time.sleep(0.05)
        terminal.type(CTRL_C)
        assert terminal.ended() == 130


# The reference names every address of the pages, and everything that one takes.


ADDRESSES = (ROOT / "docs" / "reference" / "addresses.md").read_text("utf-8")
TABLE = ADDRESSES.partition("## Pages of the inspector")[2]
PATHS = sorted({*(page.path for page in PAGES), *(page.twin_path for page in PAGES if page.twin)})
PATHS += [text.path for text in TEXTS]
SOURCES = [path.read_text("utf-8") for path in (ROOT / "stenolog" / "apps" / "inspect").rglob("*.py")]
NAMED = {name for source in SOURCES for name in re.findall(r"""(?:word|number)\("(\w+)\"""", source)}
TAKEN = sorted({*NAMED, *CONDITIONS, *FIELDS, "edit"})
WRONG = ("9" * 5_000, "-1", "9-3", "99:x", "\x00", '{"x":' * 5_000, "0001-01-01T00:00:00+14:00")


def test_every_address_is_in_the_reference(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        routes = [route for route in stenolog.inspector(log).routes if isinstance(route, Route)]
    first = {route.path.split("/")[1].removesuffix(".json") for route in routes} - {"index"}
    missing = sorted(name for name in first if f"`/{name}`" not in TABLE and f"`/{name}/" not in TABLE)
    assert missing == []


def test_everything_that_an_address_takes_is_in_the_reference() -> None:
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
