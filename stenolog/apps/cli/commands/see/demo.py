"""Command `demo`: a conversation with all that happens to agents, with fixed times, ids and salts."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import click

import stenolog._version
from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.providers.prices import listed, usd
from stenolog.adapters.store.contract.address import VARIABLE, default_database
from stenolog.apps.cli.arguments.database import Database, database_of
from stenolog.apps.cli.arguments.lookup import opened
from stenolog.apps.cli.arguments.options import takes_db
from stenolog.apps.cli.commands.prove.check.replay import comparison, replayed
from stenolog.apps.cli.demo_events import BEGINNING, BEGUN, FORKED_AFTER, GOING_ON, OTHER_WAY, STEP
from stenolog.apps.cli.draw.entry_lines import log_lines
from stenolog.apps.cli.draw.layout import heading
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Paragraph, Piece, done, line, paragraph
from stenolog.apps.cli.terminal import draw, say
from stenolog.apps.views.asked_request import request_data
from stenolog.apps.views.caches import calls_of, cause_words, total_data
from stenolog.apps.views.lanes import request_of
from stenolog.domain.errors import ConversationExistsError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch
from stenolog.projections.formats import DEFAULT_API, api_by

NAME, FORK = "demo", "demo~1"
POINT = (
    "Three agents mend a parser, with a timeout, a rate limit, a budget that cuts, a summary and a fork. All "
    "of it is in one log. What each agent was sent is worked out from that, byte for byte, with the reason "
    "for every part, and for what was left out."
)
HERE = Path("docs", "examples")
"""The folder below the working directory in which the documentation expects them."""


def record(
    conversation: Conversation, events: Sequence[Event] = BEGINNING + GOING_ON, first: int = 1
) -> None:
    """Append the demo's missing events and receipts.

    `first` is the first one's position. Nothing is appended after foreign entries.
    """
    for position, event in enumerate(events, first):
        if position <= conversation.position:
            if not _is_ours(conversation, position):
                return
            continue
        if isinstance(event, LlmError) or (isinstance(event, AssistantMessage) and event.purpose == "answer"):
            provider = conversation.settings().card_of(event.agent).provider
            sent = conversation.request(event.agent, api=api_by(provider) or DEFAULT_API)
            event = replace(event, receipt=sent.receipt)
        expected = position - 1 if isinstance(event, ModeSwitch) else None
        at = BEGUN + STEP * (position - 1)
        conversation.append(event, id=_id(conversation.name, position), time=at, expected=expected)


def record_all(log: Log) -> Conversation:
    """Record the demo and its fork, and return the demo.

    Raises `ConversationExistsError` if another conversation has the name.
    """
    demo = log[NAME]
    if demo.position and not _is_ours(demo, 1):
        raise ConversationExistsError(
            f"{NAME!r} is a conversation of yours; name another database for the demo: --db FILE"
        )
    record(demo)
    if FORK not in log and _is_ours(demo, FORKED_AFTER):
        demo.fork(FORKED_AFTER, FORK)
    if FORK in log and _is_ours(log[FORK], FORKED_AFTER + 1):
        record(log[FORK], OTHER_WAY, FORKED_AFTER + 2)
    return demo


def _id(name: str, position: int) -> str:
    return f"{name}-{position}"


def _is_ours(conversation: Conversation, position: int) -> bool:
    return position <= conversation.position and conversation.entry(position).id == _id(
        conversation.name, position
    )


@command("demo", example="stenolog demo")
@click.option("--files", is_flag=True, help="Only write the example files to docs/examples.")
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Serve the page on it, and open it if there is a browser; at a terminal unless --no-open.",
)
@takes_db
def demo_command(db: Database, files: bool, opens: bool | None) -> CommandResult | None:
    """Record a bundled conversation, and show it.

    Its entries, one request with reasons, a check, what the cache missed, and a page in the browser.
    """
    if files:
        written = write_example_files()
        words = "has the example files" if written else "exists, so nothing was written"
        return done(f"docs/examples {words}", written=written)
    # The opening of the fork is the one entry whose id and time are not given.
    forked_at, its_id = BEGUN + STEP * FORKED_AFTER, _id(FORK, FORKED_AFTER + 1)
    log = opened(db, create=True, entropy=bytes, clock=lambda: forked_at, ids=lambda: its_id)
    click.get_current_context().with_resource(log)
    conversation = record_all(log)
    data = {
        "conversation": conversation.name,
        "entries": list(conversation.entries()),
        "timeline": conversation.timeline(),
        "request": request_data(request_of(conversation, "coder", conversation.position, DEFAULT_API)),
        "replay": replayed(conversation),
    }
    answer = CommandResult(data, lambda: _render_demo(conversation, db))
    given = click.get_current_context().params
    if given["as_json"]:
        return answer
    # A pager would hide the address of the page, which is the last line.
    draw(answer.draw(), given["color"], page=False)
    at_terminal = sys.stdout.isatty() and sys.stdin.isatty() and not os.environ.get("CI")
    if opens or (opens is None and at_terminal and _has_pages()):
        from .inspect import has_browser, serve

        serve(log, NAME, opens=bool(opens) or has_browser())
    elif at_terminal and not _has_pages():
        say(
            "the page on it: pip install 'stenolog[inspect]', then stenolog inspect demo",
            mark="·",
            style="cyan",
        )
    return None


def _has_pages() -> bool:
    return all(find_spec(name) for name in ("starlette", "uvicorn", "jinja2"))


def _render_demo(conversation: Conversation, db: Database) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.views import drawn_request as request_drawn

    yield paragraph(POINT)
    yield from _section(
        "stenolog log demo",
        "What happened. At 5 the model fell silent in the middle of an answer, and its words are kept.",
    )
    yield from log_lines(conversation.entries(), conversation, all=True)
    yield from _section(
        "stenolog request demo --agent coder",
        "What coder's model is sent next: each part with its entries and its rule. Its budget cut 2 to 21; "
        "the summary, 31, says in short what was there; what reviewer said is quoted.",
    )
    request = request_of(conversation, "coder", conversation.position, DEFAULT_API)
    yield from request_drawn(request, list(conversation.entries()))
    yield from _section(
        "stenolog check replay demo", "What the engine did, worked out again from the first entry."
    )
    yield comparison(replayed(conversation))
    yield from _section(
        "stenolog cost demo --cache",
        "What was paid for words that the provider had been sent before, and why.",
    )
    yield _paid_again(conversation)
    yield heading("Go on:")
    if db != database_of(default_database()):
        yield line("  ", shlex.join(["export", f"{VARIABLE}={db}"]))
    for words in (
        "timeline demo",
        "explain demo 5",
        f"timeline '{FORK}'",
        "inspect demo --open",
    ):
        yield line("  stenolog ", words)


def _paid_again(conversation: Conversation) -> Paragraph:
    """Return a paragraph: the price of what the cache missed, and the reason of the dearest miss."""
    calls, prices = calls_of(conversation), listed()
    total, missed = total_data(calls, prices), [call for call in calls if call.missed]
    dearest = max(missed, key=lambda call: (call.cost(prices) or 0, call.missed))
    cost = None if total["cost_is_incomplete"] else total["known_cost_micro_usd"]
    return paragraph(
        f"{total['missed']:,} tokens were paid for again: {_dollars(cost)}. "
        f"The dearest were {dearest.missed:,} at {dearest.position}, {_dollars(dearest.cost(prices))}: "
        f"{cause_words(dearest.cause)}."
    )


def _dollars(micro_usd: int | None) -> str:
    return "at a price unknown here" if micro_usd is None else f"${usd(micro_usd)}"


def _section(words: str, about: str) -> Iterator[Piece]:
    yield heading(f"$ {words}")
    yield paragraph(about, "dim")


def write_example_files() -> bool:
    """Copy the files to `docs/examples`, all or none; return False if that exists."""
    if HERE.exists():
        return False
    HERE.parent.mkdir(exist_ok=True)
    part = HERE.with_name(f"{HERE.name}.{uuid4().hex[:8]}")
    try:
        shutil.copytree(_packaged(), part, ignore=shutil.ignore_patterns("__pycache__"))
        os.rename(part, HERE)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return True


def _packaged() -> Path:
    package = Path(stenolog._version.__file__).parent
    return next(at for at in (package / "examples", package.parent / HERE) if at.is_dir())
