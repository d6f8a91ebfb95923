"""Command `inspect`."""

from __future__ import annotations

import gc
import os
import sys
import webbrowser
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import click

from stenolog.adapters.programs.claude_code import SESSIONS
from stenolog.adapters.store.contract.address import home_database
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.editor import editor as chosen_editor
from stenolog.apps.cli.arguments.editor import takes_editor
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import takes_conversation_or_paths, typed
from stenolog.apps.cli.arguments.words import are_paths, name_or_paths
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, counted
from stenolog.apps.cli.terminal import print_first_line, say
from stenolog.apps.inspect import inspector
from stenolog.apps.inspect.importing import Importing, offers
from stenolog.apps.servers.sockets import server_socket, socket_path

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from stenolog.adapters.conversation.log import Log

COLLECTED_AFTER = (20_000, 50, 100)
"""Garbage is looked for so often: what the pages keep would else be gone through at every other step."""


@command("inspect", example=f"stenolog inspect {SESSIONS}")
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the page in the browser. Default: with a PATH, at a terminal.",
)
@click.option("--host", default="127.0.0.1", help="127.0.0.1, or unix:/PATH.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: any that is free.")
@click.option("--allow-fork", is_flag=True, help="Let a page begin forks.")
@click.option("--allow-import", is_flag=True, help="Let a page import files dropped on it.")
@takes_editor
@takes_conversation_or_paths
def inspect_command(
    db: Database,
    words: tuple[str, ...],
    opens: bool | None,
    host: str,
    port: int,
    allow_fork: bool,
    allow_import: bool,
    editor: str | None,
) -> CommandResult | None:
    """Show conversations in the browser.

    A PATH (a file, a folder or a pattern) is imported and watched meanwhile; one file is opened. A word is
    looked for among the names of conversations, then as a path, then as the beginning of a name; ./WORD is a
    path. In a pipe the first line of stdout is JSON: url.
    """
    log = open_log(db, create=are_paths(db, words) if words else db == home_database())
    name, paths = name_or_paths(log, words)
    command = typed(db, "inspect")
    if not words and not log.count():
        paths = _offered(command)
    if log.recorder.is_private and (paths or allow_import):
        raise click.UsageError("expected a database in a file or on a server, since another process imports")
    imports = Importing(log, paths, command, allows_drops=allow_import)
    opened = chosen_editor(editor)
    serve(log, name, host, port, opens=opens, allow_fork=allow_fork, imports=imports, editor=opened)
    return None


def _offered(command: str) -> list[Path]:
    found = offers(command)
    if not found:
        return []
    say("no conversation is here yet; sessions on this machine:", mark="·", style="cyan")
    for each in found:
        say(f"  {each.line}  ({each.sessions} of {each.program})")
    is_asked = sys.stdin.isatty() and sys.stderr.isatty()
    wants = is_asked and click.confirm("Import them now, and what is new there later?", True, err=True)
    return [each.folder for each in found] if wants else []


def serve(
    log: Log,
    name: str,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    opens: bool | None,
    allow_fork: bool = False,
    imports: Importing | None = None,
    editor: str = "",
) -> None:
    """Serve the pages until told to end, and import meanwhile.

    `opens` the page of a conversation, "" the list; None: if something is imported, and there is a browser.
    Raises OSError for a taken port, and `MissingExtraError`.
    """
    app, path = (
        inspector(log, allow_fork=allow_fork, imports=imports, editor=editor),
        f"/read/{quote(name)}" if name else "/",
    )
    if opens is None:
        opens = imports is not None and bool(imports.paths) and sys.stdout.isatty() and has_browser()
    asked = {"open": 1} if imports is not None and imports.is_one_file else {}
    try:
        with imports or nullcontext():
            run_server(
                app, host, port, f"{path}?{urlencode({**asked, 'token': app.state.token})}", opens=opens
            )
    finally:
        if imports is not None and (progress := imports.progress()) and progress.is_running:
            files = f"{progress.done:,} of {counted(progress.found, 'file')}"
            say(f"imported {files}; the same command goes on from there", mark="!", style="yellow")


def has_browser() -> bool:
    """Return whether this machine has a screen and a graphical browser."""
    has_screen = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if os.environ.get("SSH_CONNECTION") or not (has_screen or sys.platform in ("darwin", "win32")):
        return False
    with suppress(webbrowser.Error):
        # One in the terminal itself, such as w3m, would wait for a page that waits for it to end.
        return type(webbrowser.get()) is not webbrowser.GenericBrowser
    return False


def run_server(app: Starlette, host: str, port: int, path: str, *, opens: bool) -> None:
    """Serve an application until told to end; print its URL, which ends with `path`."""
    from stenolog.apps.servers.web import web_server

    with server_socket(host, port) as (bound, origin):
        url = origin + path
        at_terminal = sys.stdout.isatty()
        if at_terminal and not socket_path(host):
            print(f"Open {url}  (Ctrl-C ends it)", flush=True)
        else:
            print_first_line({"url": url} | socket_path(host))
        if not at_terminal:
            say("Ctrl-C ends it", mark="·", style="cyan")
        if opens:
            webbrowser.open(url)
        gc.set_threshold(*COLLECTED_AFTER)
        web_server(app).run(sockets=[bound])
