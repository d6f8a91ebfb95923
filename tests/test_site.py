"""The site builds without a warning, loads nothing from other hosts, and shows what the API takes."""

from __future__ import annotations

import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from inspect import signature
from pathlib import Path

import pytest

from stenolog import AssistantMessage, Conversation, LlmError, ModeSwitch, ToolResult, UserMessage

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SITE = runpy.run_path(str(DOCS / "generate_site.py"))


def test_llms_txt_describes_every_page_but_the_decisions() -> None:
    bare = [line for line in SITE["llms"]().splitlines() if line.startswith("- [") and "): " not in line]

    assert [line for line in bare if "/decisions/" not in line and "/index.md" not in line] == []


def test_the_glossary_has_each_term_once_in_alphabetical_order_in_few_words() -> None:
    text = (DOCS / "reference" / "glossary.md").read_text().partition("\n## ")[0]
    rows = re.findall(r"^- \*\*([^*]+)\*\*(?: \([^)]+\))?: (.+)$", text, re.MULTILINE)
    terms = [term for term, _ in rows]

    assert len(rows) == len(re.findall(r"^- ", text, re.MULTILINE))
    assert terms == sorted(set(terms), key=str.lower)
    assert {"agent card", "lane", "position", "receipt", "cut", "window", "turn"} <= set(terms)
    assert [term for term, meaning in rows if not 0 < len(meaning.split()) <= 30] == []


def test_the_site_loads_nothing_from_another_host_by_its_configuration() -> None:
    project = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]

    assert project["theme"]["font"] is False
    assert project.keys() & {"extra_javascript", "extra_css", "repo_url"} == set()
    # Pictures are SVG files: the script that draws Mermaid would come from a host.
    assert [page for page in DOCS.rglob("*.md") if "```mermaid" in page.read_text()] == []


class Hosts(HTMLParser):
    """Collects the addresses that a page loads by itself, without a click."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        loads = {"script": "src", "img": "src", "iframe": "src"}.get(tag)
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next", "alternate"):
            loads = "href"
        address = given.get(loads) if loads else None
        if address and re.match("(https?:)?//", address):
            self.found.append(address)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="needs the extra docs")
def test_the_site_builds_without_a_warning_and_shows_what_the_api_takes(tmp_path: Path) -> None:
    for name in ("docs", "stenolog"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=tmp_path, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {page: page.read_text() for page in sorted((tmp_path / "site").rglob("*.html"))}

    hosts = Hosts()
    for text in pages.values():
        hosts.feed(text)
    assert hosts.found == []
    assert (tmp_path / "site" / "llms.txt").read_text() == (ROOT / "llms.txt").read_text()
    assert [page for page in pages if ".py" in page.name] == []

    api = pages[tmp_path / "site/reference/api/stenolog/index.html"]
    assert _parameters(api, "fork") == set(signature(Conversation.fork).parameters) - {"self"}
    for cls in (AssistantMessage, LlmError, ModeSwitch, ToolResult, UserMessage):
        assert _parameters(api, cls.__name__) == set(signature(cls).parameters)
    assert "The addresses that it is for" in api  # `UserMessage.to`
    assert {'id="stenolog.open"', 'id="stenolog.AsyncConversation.append"'} <= set(
        re.findall(r'id="[^"]+"', api)
    )


def _parameters(page: str, name: str) -> set[str]:
    """Return the parameters in the first signature of a name."""
    text = re.sub(r"<[^>]+>", "", page)
    found = re.search(rf"\b{name}\(\n(.*?)\n\)", text, re.DOTALL)
    return set(re.findall(r"^\s+(\w+)(?::| =)", found[1], re.MULTILINE)) if found else set()
