"""`demo`: a conversation with all five kinds of event, and what stenolog makes of it. No key, no network.

Its times, ids and salts are fixed, so that everybody sees the same digests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from stenolog.adapters.log import Conversation
from stenolog.adapters.store.home import default_database, make_home
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import ConversationExistsError
from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import ToolCall
from stenolog.domain.values import Control, Tool

from .agent_request import request_data, request_of
from .check_commands import replay_lines, replayed
from .entry_lines import entry_line
from .example_files import write_example_files
from .framework import command
from .layout import heading
from .lines import CommandResult, Piece, done, line, paragraph
from .options import takes_db

NAME, ID = "demo", "demo-{}"
WIRE_OF = {"coder": "openai-chat", "reviewer": "anthropic"}
BEGUN = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
SHELL = Tool(
    name="shell",
    description="Run a command.",
    parameters={"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
)

EVENTS: tuple[Event, ...] = (
    ModeSwitch(
        mode="chat",
        title="the flaky parser",
        joins=("coder", "reviewer"),
        cards={
            "coder": AgentCard(
                model="gpt-5.2",
                provider="openai",
                persona="You are coder. You mend what is broken.",
                tools=(SHELL,),
            ),
            "reviewer": AgentCard(
                model="claude-opus-5",
                provider="anthropic",
                persona="You are reviewer. You read what others changed.",
                tools=(),
            ),
        },
    ),
    UserMessage(text="Which test fails, and why?", to=("coder",)),
    AssistantMessage(
        agent="coder",
        cause=2,
        text="I'll run them.",
        tool_calls=[ToolCall(id="c1", name="shell", arguments='{"cmd": "pytest -q"}')],
    ),
    ToolResult(call_id="c1", name="shell", text="FAILED test_dates: 23:00 != 00:00\n1 failed", is_error=True),
    LlmError(
        agent="coder",
        cause=4,
        category="timeout",
        message="no token for 60 s",
        text="test_dates fails: the parser reads",
    ),
    UserMessage(text="continue", to=("coder",), control=Control(action="continue", agent="coder")),
    AssistantMessage(
        agent="coder",
        cause=6,
        text="it as local time. I read it as UTC now.",
        tool_calls=[ToolCall(id="c2", name="shell", arguments='{"cmd": "git diff && pytest -q"}')],
    ),
    ToolResult(call_id="c2", name="shell", text="-  parse(text)\n+  parse(text, tz=UTC)\n12 passed"),
    AssistantMessage(agent="coder", cause=8, text="Mended. @reviewer, please look.", to=("reviewer",)),
    ModeSwitch(mode="agent"),
    AssistantMessage(agent="reviewer", cause=9, text="Good: one line, and it says what it means."),
    UserMessage(text="Then merge it, please.", to=("coder",)),
)


def record(conversation: Conversation) -> None:
    """Append the demo's events, answers with their receipts; existing entries are not written again.

    Raises `ConversationExistsError` where another conversation has the name.
    """
    here = {entry.id for entry in conversation.entries()}
    if here and ID.format(1) not in here:
        raise ConversationExistsError(
            f"{NAME!r} is a conversation of yours; name another database for the demo: --db FILE"
        )
    for number, event in enumerate(EVENTS, 1):
        id = ID.format(number)
        if id in here:
            continue
        if isinstance(event, AssistantMessage | LlmError):
            sent = conversation.request(event.agent, api=WIRE_OF[event.agent])
            event = replace(event, receipt=sent.receipt)
        expected = conversation.position if isinstance(event, ModeSwitch) else None
        at = BEGUN + timedelta(seconds=20 * (number - 1))
        conversation.append(event, id=id, time=at, expected=expected)


@command("demo", example="stenolog demo")
@click.option("--files", is_flag=True, help="Only write the documentation's example files to docs/examples.")
@takes_db
def demo_command(db: Path, files: bool) -> CommandResult:
    """Record a bundled conversation, and show it.

    The log, the timeline, a request with its reasons, a proof.
    """
    if files:
        written = write_example_files()
        words = "has the example files" if written else "exists, so nothing was written"
        return done(f"docs/examples {words}", written=written)
    from stenolog.adapters.log import open as open_log

    make_home(db)
    log = click.get_current_context().with_resource(open_log(db, entropy=bytes))
    conversation = log[NAME]
    record(conversation)
    data = {
        "conversation": conversation.name,
        "entries": list(conversation.entries()),
        "timeline": conversation.timeline(),
        "request": request_data(request_of(conversation, "coder", conversation.position, "openai-chat")),
        "replay": replayed(conversation),
    }
    return CommandResult(data, lambda: _render_demo(conversation, db))


def _render_demo(conversation: Conversation, db: Path) -> Iterator[Piece]:
    from .render_timeline import drawn_timeline as timeline_drawn
    from .render_views import drawn_request as request_drawn

    yield paragraph("Two agents, five kinds of event, one log. Everything below is worked out from the log.")
    yield from _section(
        "stenolog log demo",
        "What happened. At 5 the model fell silent in the middle of an answer. Its words are kept,",
        'so that "continue" at 6 has something to continue.',
    )
    for entry in conversation.entries():
        yield entry_line(entry, 2)
    yield from _section("stenolog timeline demo", "What a person sees of it.")
    yield from timeline_drawn(conversation.timeline())
    yield from _section(
        "stenolog request demo --agent coder",
        "What coder's model is sent next: each part with its entries and its rule. The half answer is",
        "part 5; the note behind it was added by a rule; what reviewer said is quoted.",
    )
    yield from request_drawn(
        request_of(conversation, "coder", conversation.position, "openai-chat"), list(conversation.entries())
    )
    yield from _section(
        "stenolog check replay demo",
        "What the engine did and does next, worked out again from the first entry.",
    )
    yield from replay_lines(replayed(conversation))
    elsewhere = "" if db == default_database() else f" --db {db}"
    yield line("")
    for words in ("show demo @{error}", "explain demo 5"):
        yield line(("Go on:  ", "dim"), f"stenolog {words}{elsewhere}")


def _section(words: str, *about: str) -> Iterator[Piece]:
    """Yield the heading of a section: a command that shows the same, and what to look at."""
    yield heading(f"$ {words}")
    yield paragraph(" ".join(about), "dim")
