"""The editor in which files of calls are opened: of an option, the environment, or the terminal."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.conversation.queries.overviews import folder_of
from stenolog.apps.cli.arguments.options import OneOf
from stenolog.projections.views.editors import EDITORS, editor_link

VARIABLE = "STENOLOG_EDITOR"
NAMES = [*EDITORS, "none"]
TERMINALS = {
    "CURSOR_TRACE_ID": "cursor",  # before the next: its terminal says that it is vscode, too
    "TERM_PROGRAM=vscode": "vscode",
    "ZED_TERM": "zed",
    "TERMINAL_EMULATOR=JetBrains-JediTerm": "idea",
}
"""The editors by what they set in their terminals."""
takes_editor = click.option(
    "--editor", type=OneOf(NAMES), help="Opens files of calls. Default: the one whose terminal this is."
)


def editor(named: str | None = None) -> str:
    """Return the named editor, or that of the environment or the terminal; "" for none.

    Raises `UsageError` for an unknown one in the environment.
    """
    named = named or os.environ.get(VARIABLE)
    if named and named not in NAMES:
        raise click.UsageError(f"{VARIABLE}: expected one of {', '.join(NAMES)}, found {named!r:.60}")
    return named.removesuffix("none") if named else next(filter(None, map(_set_by, TERMINALS)), "")


def _set_by(sign: str) -> str:
    name, _, value = sign.partition("=")
    found = os.environ.get(name)
    return TERMINALS[sign] if found and found == (value or found) else ""


def file_links(conversation: Conversation) -> Callable[[str], str]:
    """Return a function from a call's arguments to the end of a style, which links its file."""
    chosen = editor()
    folder = folder_of(conversation) if chosen else ""

    def link(arguments: str) -> str:
        address = editor_link(chosen, arguments, folder)
        return f" link {address}" if address else ""

    return link
