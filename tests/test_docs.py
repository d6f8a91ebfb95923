"""The documentation says what the code does, and its links lead somewhere."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import click
import pytest

from stenolog import Entry, Request
from stenolog.adapters.conversation.search.lookup import Hit
from stenolog.adapters.store.claims import OpenClaim
from stenolog.apps.cli.app import MODULES, command_in
from stenolog.projections.views.timeline import TimelineItem

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = runpy.run_path(str(DOCS / "generate.py"))["PAGES"]
NAV = list(runpy.run_path(str(DOCS / "generate_site.py"))["nav"]())
INDEX = (DOCS / "index.md").read_text()
MOST = 25
"""Links that a visitor is asked to choose from."""
NAMED = {"entry": Entry, "request": Request, "item": TimelineItem, "claim": OpenClaim, "hit": Hit}
"""The names that the pages give to values, whose attributes are then looked at."""
OF_OTHERS = {("item", "get")}
"""In pages on other libraries."""
FILES = ("py", "md", "svg", "json", "sha256")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    assert GENERATED[name]() == (DOCS / name).read_text(), "stale: run `python docs/generate.py`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_page_leads_to_one(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_attribute_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    named = re.findall(rf"(?<![\w./])({'|'.join(NAMED)})\.([a-z]\w*)", text)

    assert {(name, it) for name, it in named if it not in FILES and not _has(NAMED[name], it)} <= OF_OTHERS


def _has(kind: type, attribute: str) -> bool:
    return hasattr(kind, attribute) or attribute in getattr(kind, "__dataclass_fields__", ())


def test_the_navigation_has_every_page_once() -> None:
    pages = [page for _, _, page in NAV]

    assert sorted(pages) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_the_index_has_few_links() -> None:
    assert len(re.findall(r"\]\(", INDEX)) <= MOST


def test_every_command_is_described() -> None:
    described = re.findall(
        r"^### stenolog ([\w-]+)(?: (\w+))?$", (DOCS / "reference" / "cli.md").read_text(), re.MULTILINE
    )

    assert [name for name, within in described if not within] == list(MODULES)
    groups = {name for name, module in MODULES.items() if isinstance(command_in(module, name), click.Group)}
    assert {name for name, within in described if within} == groups


def test_the_readme_gets_a_newcomer_going_with_two_commands() -> None:
    """The two that .ci/run runs, word for word."""
    section = (ROOT / "README.md").read_text().partition("\n## Try it\n")[2].partition("\n## ")[0]
    block = re.findall(r"```console\n(.*?)```", section, re.DOTALL)[0]

    assert len(re.findall(r"^\$ ", block, re.MULTILINE)) == 2
    assert "stenolog demo" in block
    assert "pytest" in block


def test_the_changelog_has_an_entry_for_this_version() -> None:
    import stenolog

    assert f"## {stenolog.__version__} " in (ROOT / "CHANGELOG.md").read_text()
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
