"""Command `serve`."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from stenolog.adapters.store.contract.appends import now
from stenolog.apps.cli.arguments.agent import known_agent, takes_agent_else
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult
from stenolog.apps.cli.terminal import print_first_line, say
from stenolog.apps.servers.sockets import UNIX, server_socket, socket_path
from stenolog.domain.errors import MissingExtraError

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Log
    from stenolog.apps.serve.own_history import OwnHistory

TOKEN = "STENOLOG_TOKEN"
"""The environment variable that has the token; an argument would be seen in the list of processes."""


@command("serve", example="stenolog serve --port 8787")
@click.option("--stdio", is_flag=True, help="JSON-RPC on stdin and stdout.")
@click.option("--mcp", is_flag=True, help="MCP on stdin and stdout: an agent asks its own history.")
@click.option("--conversation", metavar="NAME", help="With --mcp: which. Default: this folder's.")
@takes_agent_else("with --mcp: who asks; required if several")
@click.option("--host", default="127.0.0.1", help="127.0.0.1, or unix:/PATH.")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, help="0: any free one.  [default: 8787]")
@takes_db
def serve_command(
    db: Database,
    stdio: bool,
    mcp: bool,
    conversation: str | None,
    agent: str | None,
    host: str,
    port: int,
) -> CommandResult | None:
    """Serve the log to programs in other languages.

    Whoever has the token may read and write everything: $STENOLOG_TOKEN, or a new one. The first line of
    stdout is JSON: url, and the new token. With --mcp an agent reads what it may see, and no more.
    """
    if mcp and stdio:
        raise click.UsageError("--mcp and --stdio are different protocols: choose one")
    if (conversation or agent) and not mcp:
        raise click.UsageError("--conversation and --agent are for --mcp")
    out = sys.stdout
    # What a plugin prints must not stand between the lines that a program reads.
    with redirect_stdout(sys.stderr):
        log = open_log(db, create=not mcp)
        if stdio:
            from stenolog.apps.serve.service import Service
            from stenolog.apps.serve.stdio import serve
            from stenolog.apps.workers.submitting import waking

            serve(Service(log, wake=waking), sys.stdin.buffer, out.buffer)
        elif not mcp:
            _serve_http(log, host, port, out)
        history = _history(log, conversation, agent) if mcp else None
    if history is not None:
        from stenolog.apps.serve.mcp import serve as serve_mcp

        serve_mcp(history)
    return None


def _history(log: Log, name: str | None, agent: str | None) -> OwnHistory:
    """Return an agent's history; without a name, the first question finds the folder's conversation."""
    from stenolog.apps.serve.own_history import OwnHistory, running_in

    if name is not None:
        found = find_conversation(log, name)
        if agent:
            known_agent(found, agent)
        return OwnHistory(lambda: found, agent or "")
    folder, since = Path(os.path.realpath(os.getcwd())), now()
    return OwnHistory(cache(lambda: running_in(log, folder, since)), agent or "")


def _serve_http(log: Log, host: str, port: int, out: TextIO) -> None:
    """Serve until told to end. Raises `MissingExtraError`, and OSError for a taken port."""
    try:
        from stenolog.apps.serve.http import application
        from stenolog.apps.servers.web import web_server
        from stenolog.apps.workers.submitting import waking
    except ModuleNotFoundError as error:
        raise MissingExtraError("serve", "starlette or uvicorn") from error
    given = os.environ.get(TOKEN, "")
    token = given or secrets.token_urlsafe(32)
    with server_socket(host, port) as (bound, url):
        # A token of the environment is known to who set it, and stands in no output.
        first = {"url": url, **socket_path(host)} | ({} if given else {"token": token})
        print_first_line(first, out)
        where = host if host.startswith(UNIX) else url
        say(f"serving {log.path} at {where}; Ctrl-C ends it", mark="·", style="cyan")
        web_server(application(log, token, wake=waking)).run(sockets=[bound])
