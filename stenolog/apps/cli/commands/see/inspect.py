"""Command `inspect`."""

from __future__ import annotations

import gc
import sys
import webbrowser
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import click

from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_conversation
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult
from stenolog.apps.cli.terminal import print_first_line, say
from stenolog.apps.inspect import inspector
from stenolog.apps.servers.sockets import server_socket, socket_path

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from stenolog.adapters.conversation.log import Log

COLLECTED_AFTER = (20_000, 50, 100)
"""Garbage is looked for so often: what the pages keep would else be gone through at every other step."""


@command("inspect", example="stenolog inspect demo --open")
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@click.option("--host", default="127.0.0.1", help="127.0.0.1, or unix:/PATH.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: any that is free.")
@click.option("--allow-fork", is_flag=True, help="Let a page begin forks.")
@takes_conversation
def inspect_command(
    db: Database, target: str, opens: bool, host: str, port: int, allow_fork: bool
) -> CommandResult | None:
    """Show conversations in the browser.

    Each agent's request at any position, with reasons. In a pipe the first line of stdout is JSON: url.
    """
    log = open_log(db)
    name = find_conversation(log, target).name if target else ""
    serve(log, name, host, port, opens=opens, allow_fork=allow_fork)
    return None


def serve(
    log: Log, name: str, host: str = "127.0.0.1", port: int = 0, *, opens: bool, allow_fork: bool = False
) -> None:
    """Serve the pages until told to end; `opens` a conversation's page, "" the list.

    Raises OSError for a taken port, and `MissingExtraError`.
    """
    app, path = inspector(log, allow_fork=allow_fork), f"/read/{quote(name)}" if name else "/"
    run_server(app, host, port, f"{path}?{urlencode({'token': app.state.token})}", opens=opens)


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
