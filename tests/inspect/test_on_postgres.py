"""The pages of a log in PostgreSQL are those of the same log in a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from starlette.testclient import TestClient

import stenolog
from stenolog.apps.cli.commands.see.demo import FORK, record_all
from stenolog.apps.cli.demo_events import BEGUN, FORKED_AFTER, STEP
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
