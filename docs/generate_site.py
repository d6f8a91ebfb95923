"""Pages for the site: one per face of the Python API, and llms.txt, the list of all pages."""

from __future__ import annotations

import importlib
import re
import runpy
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
listed: Callable[..., str] = runpy.run_path(str(ROOT / "docs" / "api_list.py"))["listed"]
MADE = "<!-- Made by `python docs/generate.py`; change the code, not this page. -->"
MARKDOWN = "https://raw.githubusercontent.com/stenolog/stenolog/main/docs/"

WHOLE = ("stenolog", "stenolog.contrib.langgraph")
"""Modules whose classes are shown with every method; of others the site, `help` and the code show them."""
ELSEWHERE = {
    "errors": "The [errors](../errors.md) that stenolog raises, as a tree.",
    "events": "The [events](../events.md), with every field.",
    "parts": "The [parts](../events.md#what-they-are-made-of) of events, with every field.",
}
"""Faces whose names another page describes, in words for the reader."""
OPEN = """
::: stenolog.open
    options:
      show_root_heading: true
      show_root_toc_entry: true
      heading_level: 2
"""
"""`open` is no name of `import *`, and so is not among the members of the package."""


def faces() -> tuple[str, ...]:
    """Return the modules that users import: the package itself, then its faces."""
    found = (*(ROOT / "stenolog").glob("[a-z]*.py"), *(ROOT / "stenolog").glob("testing/__init__.py"))
    return "stenolog", *sorted({path.stem if path.stem != "__init__" else path.parent.name for path in found})


def nav() -> Iterator[tuple[str, str, str]]:
    """Yield section, title and page of all that the site's navigation names, in its order."""
    for section in tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]:
        for name, pages in section.items():
            yield from ((name, title, page) for title, page in _pages(name, pages))


def _pages(title: str, found: Any) -> Iterator[tuple[str, str]]:
    if isinstance(found, str):
        yield title, found
        return
    for each in found:
        for name, pages in each.items():
            yield from _pages(name, pages)


def said_first(page: str) -> str:
    """Return the first sentence of a page, without its marks; "" for a decision, whose title says it."""
    text = re.sub(r"```.*?```", "", (ROOT / "docs" / page).read_text("utf-8"), flags=re.DOTALL)
    blocks = (each.strip() for each in text.split("\n\n"))
    words = next((each for each in blocks if each and each[0] not in "#<!|-"), "")
    plain = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", " ".join(words.split())).replace("**", "")
    sentence = re.match(r".*?[.:](?= [A-Z`]|$)", plain)
    return "" if "/decisions/" in page else (sentence[0] if sentence else plain).rstrip(".:")


def llms() -> str:
    """Return the list of all pages for programs that read: see llmstxt.org."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    last = ""
    for section, title, page in nav():
        if section != last:
            lines += ["", f"## {section}", ""]
        last = section
        says = said_first(page)
        lines.append(f"- [{title}]({MARKDOWN}{page})" + (f": {says}" if says else ""))
    return "\n".join(lines) + "\n"


def api_page(face: str) -> str:
    """Return the page of one face: a list of its names, and the mark that the site replaces by all of it."""
    name = face if face == "stenolog" else f"stenolog.{face}"
    module = importlib.import_module(name)
    names = sorted([*module.__all__, *(["open"] if face == "stenolog" else [])])
    root = importlib.import_module("stenolog")
    again = [each for each in names if module is not root and each in root.__all__]
    beside = OPEN if face == "stenolog" else ""
    if face in ELSEWHERE:
        return f"# {name}\n\n{MADE}\n\n{ELSEWHERE[face]}\n\n::: {name}\n"
    values = ((each, getattr(module, each)) for each in names if each not in again)
    also = f"Also, as in [stenolog](stenolog.md): `{'`, `'.join(again)}`.\n\n" if again else ""
    return _page(name, values, f"{also}::: {name}\n{beside}")


def langgraph_page() -> str:
    """Return the page of LangGraph's saver, the class in `contrib` that users call by itself."""
    name = "stenolog.contrib.langgraph"
    saver = importlib.import_module(name).LangGraphSaver
    return _page(name, [("LangGraphSaver", saver)], f"::: {name}.saver.LangGraphSaver\n")


def _page(name: str, values: Iterable[tuple[str, Any]], details: str) -> str:
    says = " ".join((importlib.import_module(name).__doc__ or "").partition("\n\n")[0].split())
    names = listed(values, with_methods=name in WHOLE)
    return f"# {name}\n\n{MADE}\n\n{says}\n\n{names}\n\n{details}"


PAGES: dict[str, Callable[[], str]] = {
    **{f"reference/api/{face}.md": partial(api_page, face) for face in faces()},
    "reference/api/langgraph.md": langgraph_page,
    "llms.txt": llms,
    "../llms.txt": llms,
}
