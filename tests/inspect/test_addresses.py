"""The how-to names every address of the pages, and everything that one takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

import stenolog
from stenolog.apps.cli.commands.see.demo import record_all
from stenolog.apps.inspect.app import PAGES, TEXTS

ROOT = Path(__file__).parents[2]
HOW_TO = (ROOT / "docs" / "how-to" / "inspect.md").read_text("utf-8")
TABLE = HOW_TO.partition("## Addresses")[2]
PATHS = sorted({*(page.path for page in PAGES), *(page.twin_path for page in PAGES if page.twin)})
PATHS += [text.path for text in TEXTS]
TAKEN = [
    *("after", "agent", "api", "at", "before", "budget", "edit", "first", "from"),
    *("mode", "open", "part", "policy", "q", "since", "upto", "with", "without"),
]
WRONG = ("9" * 5_000, "-1", "9-3", "99:x", "\x00", '{"x":' * 5_000, "0001-01-01T00:00:00+14:00")


def test_every_address_is_in_the_how_to(tmp_path: Path) -> None:
    with stenolog.open(tmp_path / "talks.db") as log:
        routes = [route for route in stenolog.inspector(log).routes if isinstance(route, Route)]
    first = {route.path.split("/")[1].removesuffix(".json") for route in routes} - {"index"}
    missing = sorted(name for name in first if f"`/{name}`" not in TABLE and f"`/{name}/" not in TABLE)
    assert missing == []


def test_everything_that_an_address_takes_is_in_the_how_to() -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "stenolog/apps/inspect").rglob("*.py")]
    taken = {name for source in sources for name in re.findall(r"""(?:word|number)\("(\w+)\"""", source)}
    assert taken > {"at", "agent", "q"}
    assert sorted(name for name in taken if f"`{name}`" not in TABLE) == []


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
