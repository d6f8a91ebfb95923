"""The pages of a log in PostgreSQL are those of the same log in a file."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from starlette.testclient import TestClient

import stenolog
from stenolog.apps.cli.commands.see.demo import FORK, record_all
from stenolog.apps.cli.demo_events import BEGUN, FORKED_AFTER, STEP
from stenolog.apps.inspect.importing import Importing
from tests.postgres.server import Server

PAGES = 30
LINK = re.compile(r'href="(/[^"#]*)')


def pages(address: str) -> dict[str, str]:
    """Return the text of pages of the demo by their addresses, as links lead from one to the next."""
    at, id = BEGUN + STEP * FORKED_AFTER, f"{FORK}-{FORKED_AFTER + 1}"
    found: dict[str, str] = {}
    with stenolog.open(address, entropy=bytes, clock=lambda: at, ids=lambda: id) as log:
        record_all(log)
        with TestClient(stenolog.inspector(log, token=""), base_url="http://127.0.0.1") as client:
            waiting = ["/"]
            while waiting and len(found) < PAGES:
                link = waiting.pop(0).replace("&amp;", "&")
                # A check takes its own time, which its page tells.
                if link in found or link.startswith(("/proof", "/static")):
                    continue
                answer = client.get(link)
                while 'http-equiv="refresh"' in answer.text:
                    answer = client.get(link)
                found[link] = f"{answer.status_code} {answer.text.replace(log.path, 'LOG')}"
                waiting += LINK.findall(answer.text)
    return found


def test_the_pages_are_the_same(tmp_path: Path, postgres: Callable[[str], Server]) -> None:
    in_a_file = pages(str(tmp_path / "talks.db"))
    with postgres("postgres 15").schema() as address:
        on_a_server = pages(address)

    assert len(in_a_file) == PAGES
    assert [*on_a_server] == [*in_a_file]
    assert [link for link, text in in_a_file.items() if on_a_server[link] != text] == []


def test_a_folder_is_imported_into_it_beside_the_pages(
    tmp_path: Path, postgres: Callable[[str], Server]
) -> None:
    (tmp_path / "one.jsonl").write_text('{"role": "user", "content": "Which test fails?"}\n')
    with (
        postgres("postgres 15").schema() as address,
        stenolog.open(address) as log,
        Importing(log, [tmp_path], "stenolog inspect") as imports,
        TestClient(stenolog.inspector(log, token="", imports=imports)) as client,
    ):
        end = time.monotonic() + 60
        while "1 file, 1 conversation" not in client.get("/importing").text:
            assert time.monotonic() < end, client.get("/importing").text
            time.sleep(0.05)
        assert "Which test fails?" in client.get("/read/one").text
