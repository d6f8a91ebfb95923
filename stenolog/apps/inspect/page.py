"""Pages: an address, a template, and the functions that answer a query."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from stenolog.apps.views.envelope import Answer

from .query import Query

LONGEST = 120
"""The most characters of a file's name, beside its ending."""


class File(NamedTuple):
    """A text: shown plainly, or as a file if it has a name."""

    content: bytes
    name: str = ""
    type: str = "text/plain; charset=utf-8"

    @property
    def headers(self) -> dict[str, str]:
        """The headers by which a browser saves a file under its name."""
        return {"Content-Disposition": attachment(self.name)} if self.name else {}


class TextPage(NamedTuple):
    """A text of a conversation at `/NAME/CONVERSATION`."""

    name: str
    file: Callable[[Query], File]

    @property
    def path(self) -> str:
        """The address, with the name of a conversation as a parameter."""
        return address_of(self.name)


class Page(NamedTuple):
    """A page: the first part of its address, the view that its template shows, and its twin.

    A page of a conversation is at `/NAME/CONVERSATION`, its twin at `/NAME.json/CONVERSATION`; the first page
    has no name. `template` is NAME.html by default. `twin` returns the data of the command that shows the
    same; a fragment has none. `streams`: it is sent piece by piece. `link` is its title in the links between
    the pages of a conversation, in the order of `rank`, those with `is_more` folded; one without is not among
    them, nor is one that does not apply to a conversation.
    """

    name: str
    view: Callable[[Query], dict[str, Any]]
    twin: Callable[[Query], Answer] | None = None
    of_conversation: bool = True
    template: str = ""
    streams: bool = False
    link: str = ""
    rank: int = 0
    is_more: bool = False
    applies: Callable[[Query], bool] = lambda query: True

    @property
    def path(self) -> str:
        """The address, with the name of a conversation as a parameter."""
        return address_of(self.name) if self.of_conversation else f"/{self.name}"

    @property
    def twin_path(self) -> str:
        """The address of the twin."""
        name = f"{self.name or 'index'}.json"
        return address_of(name) if self.of_conversation else f"/{name}"


def has_request(query: Query) -> bool:
    """Return whether any agent of the conversation has a request."""
    return bool(query.index.agents)


def address_of(name: str) -> str:
    """Return the address of the page of a conversation, whose name is a parameter."""
    return f"/{name}/{{name:path}}"


def attachment(name: str) -> str:
    """Return the `Content-Disposition` by which a browser saves a file under a name.

    The name comes twice: in ASCII for every browser, and in full.
    """
    stem, _, ending = name.rpartition(".")
    plain, full = f"{_ascii_name(stem)}.{ending}", f"{_utf8_name(stem)}.{ending}"
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{full}"


def _ascii_name(stem: str) -> str:
    return re.sub(r"[^A-Za-z0-9~-]+", "-", stem)[:LONGEST].strip("-") or "conversation"


def _utf8_name(stem: str) -> str:
    return quote(re.sub(r"[\x00-\x1f\x7f/\\:]+", "-", stem)[:LONGEST].lstrip("."), safe="") or "conversation"
