"""Command `tap`."""

from __future__ import annotations

import os
import secrets
import shutil
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stenolog.adapters.programs.claude_code import COMMAND
from stenolog.adapters.store.contract.address import default_database, make_home
from stenolog.apps.cli.arguments.database import Database, ServerDatabase
from stenolog.apps.cli.arguments.options import takes_db, typed
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, counted
from stenolog.apps.cli.terminal import print_first_line, say
from stenolog.apps.servers.sockets import UNIX, server_socket, socket_path
from stenolog.domain.errors import InvalidEventError, MissingExtraError, StenologError

if TYPE_CHECKING:
    from stenolog.apps.tap.recording.summary import Recorded
    from stenolog.apps.tap.supervisor import Tap

SHOWN = 10
"""Conversations, and places of a kind of secret, that the summary names."""
TOKEN = "STENOLOG_TOKEN"
"""The environment variable with the token of base URLs that other programs have in their configuration."""


@command("tap", example=f"stenolog tap -- {COMMAND}")
@click.option("--listen", metavar="HOST:PORT", default="", help="For other programs; or unix:/PATH.")
@click.option(
    "--upstream", "urls", metavar="[NAME=]URL", multiple=True, help="A server to forward to; repeatable."
)
@click.option("--async", "unproven", is_flag=True, help="Forward without waiting for the disk.")
@click.option("--redact", "redacts", is_flag=True, help="Keep secrets in messages out of the log.")
@takes_db
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
def tap_command(
    db: Database,
    listen: str,
    urls: tuple[str, ...],
    unproven: bool,
    redacts: bool,
    words: tuple[str, ...],
) -> CommandResult | None:
    """Record what any agent sends and receives.

    The command's base URLs lead through this proxy. Each request is on disk before it is forwarded. With
    --listen, the first line of stdout is JSON: base_urls.
    """
    if os.name != "posix":
        raise InvalidEventError(f"expected Linux or macOS, whose processes share a socket, found {os.name}")
    try:
        from stenolog.apps.tap import supervisor
        from stenolog.apps.tap.upstreams import upstreams
    except ModuleNotFoundError as error:
        if error.name != "h11":
            raise
        raise MissingExtraError("tap", "h11") from error
    if bool(words) == bool(listen):
        raise InvalidEventError(
            f"expected either a command, as in `stenolog tap -- {COMMAND}`, or --listen HOST:PORT"
        )
    if words and not shutil.which(words[0]):
        raise FileNotFoundError(None, "no such command", words[0])
    token = os.environ.get(TOKEN, "") if listen else ""
    tap = supervisor.Tap(
        database=db.address if isinstance(db, ServerDatabase) else str(db.absolute()),
        folder=supervisor.journal_folder(_beside(db)),
        upstreams=upstreams(urls, os.environ),
        token=token or secrets.token_urlsafe(24),
        waits=not unproven,
        redacts=redacts,
    )
    began = datetime.now(UTC)
    make_home(db if isinstance(db, Path) else str(db))
    with server_socket(*_address(listen)) as (bound, _):
        if listen:
            base = tap.base(bound)
            first = {"base_urls": {name: f"{base}/{name}" for name in tap.upstreams}}
            print_first_line({**first, **socket_path(listen)})
            say(f"recording to {db}; Ctrl-C ends it", mark="·", style="cyan")
        ended = supervisor.run(tap, bound, list(words) or None)
    if ended.printed.strip():
        say(ended.printed.rstrip(), mark="!", style="yellow")
    _summarise(db, tap, ended.run, began)
    raise click.exceptions.Exit(ended.code)


def _summarise(db: Database, tap: Tap, run: str, began: datetime) -> None:
    # Late: the command waits for none of it.
    from stenolog.adapters.conversation.log import open as open_log
    from stenolog.apps.tap.recording.summary import recorded_in
    from stenolog.apps.tap.recording.transcriber import GAPS

    try:
        with open_log(tap.database) as log:
            recorded = [*recorded_in(log, run, began)]
            gaps = sum(entry.time >= began for entry in log[GAPS].entries() if entry.position > 1)
    except (StenologError, OSError) as error:
        say(f"the summary is missing: {error}", mark="!", style="yellow")
        return
    if gaps:
        say(
            f"{counted(gaps, 'note')} on what was not recorded: {typed(db, 'log', GAPS)}",
            mark="!",
            style="yellow",
        )
    if not recorded:
        say("no request asked a model through the tap", mark="!", style="yellow")
        return
    requests = sum(each.requests for each in recorded)
    say(f"{counted(requests, 'request')} in {counted(len(recorded), 'conversation')}, in {db}", mark="●")
    if len(recorded) > SHOWN:
        say(f"  {len(recorded) - SHOWN} earlier ones: {typed(db, 'ls')}")
    for each in recorded[-SHOWN:]:
        title = f", “{each.title}”" if each.title else ""
        failed = f", {each.errors} failed" if each.errors else ""
        say(f"  {each.name}{title}: {counted(each.requests, 'request')}{failed}")
    for each in recorded:
        _say_secrets(each)
        for position, words in [*each.unread.items()][:SHOWN]:
            say(f"not recorded of the answer {each.name}@{position}: {words}", mark="!", style="yellow")
    say(f"next: {typed(db, 'timeline', recorded[-1].name)}")


def _say_secrets(recorded: Recorded) -> None:
    for kind in sorted({found.kind for found in recorded.secrets}):
        places = [str(found.position) for found in recorded.secrets if found.kind == kind]
        more = " …" if len(places) > SHOWN else ""
        words = f"{kind} in {recorded.name} at {' '.join(places[:SHOWN])}{more}: `stenolog erase` removes it"
        say(words, mark="!", style="yellow")


def _address(listen: str) -> tuple[str, int]:
    """Return host and port. Raises `InvalidEventError` for one that other machines reach."""
    if listen.startswith(UNIX):
        return listen, 0
    host, _, port = (listen or "127.0.0.1:0").rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    host = "127.0.0.1" if host == "localhost" else host
    try:
        if ip_address(host).is_loopback:
            return host, int(port)
    except ValueError:
        pass
    raise InvalidEventError(f"expected --listen with an address of this machine alone, found {listen!r}")


def _beside(db: Database) -> Path:
    if isinstance(db, Path):
        return db.absolute()
    found = default_database()
    return found if isinstance(found, Path) else Path.home() / ".stenolog"
