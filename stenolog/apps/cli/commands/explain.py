"""`explain`: where an entry went, who asked for a call, where a text went, what an agent knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.agent import (
    AGENT,
    address,
    agent_or_only,
    known_agent,
    takes_agent,
    takes_conditions,
)
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_both, open_log
from stenolog.apps.cli.arguments.options import takes_conversation_and, takes_db
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.arguments.time import in_zone
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, describe, line
from stenolog.apps.cli.terminal import progress
from stenolog.apps.views.lanes import lacking, lane, means, own_api
from stenolog.apps.views.positions import is_number
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import LlmError, ModeSwitch, ToolResult
from stenolog.domain.policy_text import policy_of

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.adapters.conversation.verifying.trace import Reached
    from stenolog.domain.entry import Entry

AT = click.option("--at", metavar="POSITION", default="@", help="Up to this position or time.")


@command("entry", example="stenolog explain demo 5")
@AT
@click.option("--bytes", "as_bytes", is_flag=True, help="The bytes that an answer answers, part by part.")
@takes_conditions
@takes_conversation_and("[POSITION]")
def explain_entry_command(
    db: Database, words: tuple[str, ...], at: str, as_bytes: bool, api: str | None, policy: str | None
) -> CommandResult:
    """Say where an entry went, and what it led to.

    Into whose requests, when, and in which form. Without POSITION it is the last entry.
    """
    from stenolog.apps.views.entries import bill_of_answer, explained, explanation_data, rebuilt_notes

    conversation, written = find_both(open_log(db), words, "@")
    end, position = resolve(conversation, at), resolve(conversation, written)
    log = list(conversation.entries(at=end))
    if as_bytes:
        return _bytes_of(conversation, log, position)
    told = explained(conversation, log, position, api=api, policy=policy_of(policy))
    billed = bill_of_answer(conversation, told.entry)
    data = explanation_data(conversation, len(log), told, billed)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.explain import explanation_drawn

        return explanation_drawn(told, log, billed)

    return CommandResult(data, draw, diagnostics=rebuilt_notes(conversation, told))


def _bytes_of(conversation: Conversation, log: list[Entry], position: int) -> CommandResult:
    """Yield the byte ranges of the request that an answer answers."""
    from stenolog.projections.analysis.byte_ranges import byte_ranges, sent_request

    request, transport = sent_request(log, position, **means(conversation))
    found = byte_ranges(request, transport)
    data = {"conversation": conversation.name, "position": position, "bytes": found}

    def draw() -> Iterable[Piece]:
        for one in found:
            yield f"{one.first:>9,} {one.end - one.first:>9,}  {one.pointer or '/'}  {one.source}"

    return CommandResult(data, draw)


@command("call", example="stenolog explain call demo 3")
@takes_conversation_and("POSITION[/CALL]")
def explain_call_command(db: Database, words: tuple[str, ...]) -> CommandResult:
    """Say who asked for a tool call.

    From the call at 57 (its second: 57/2) back to the words of a person.
    """
    from stenolog.projections.analysis.blame import blame

    conversation, position = find_both(open_log(db), words)
    where, nth = _call(position)
    told = blame(conversation.entries(), resolve(conversation, where), nth)

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.explain import blame_drawn

        return blame_drawn(told)

    return CommandResult({"conversation": conversation.name, **told._asdict()}, draw)


def _call(written: str) -> tuple[str, int | None]:
    """Return the position, and the index of the call from 0 where one was named: `57/2` is the second."""
    where, _, nth = written.rpartition("/")
    return (where, int(nth) - 1) if is_number(nth) and where else (written, None)


@command("text", example="stenolog explain text demo pytest --agent coder")
@takes_agent
@AT
@takes_conditions
@takes_conversation_and("TEXT")
def explain_text_command(
    db: Database, words: tuple[str, ...], agent: str | None, at: str, api: str | None, policy: str | None
) -> CommandResult:
    """Say where an agent last had a text in its request.

    And what took it away.
    """
    from stenolog.projections.analysis.bisection import bisect

    conversation, text = find_both(open_log(db), words)
    if not text:
        raise InvalidEventError("expected a text, found nothing")
    position = resolve(conversation, at)
    named = agent_or_only(conversation, agent, position)
    api = api or own_api(conversation, named)
    entries = progress(
        conversation.entries(at=position), f"looking through the requests of {named}", position
    )
    made = bisect(
        entries,
        text=text,
        **lane(named)._asdict(),
        api=api,
        policy=policy_of(policy),
        **means(conversation),
    )
    note = lacking(conversation, named)
    data = {"conversation": conversation.name, "agent": named, **made._asdict(), "note": note}

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.policy import bisect_drawn

        told = {
            at: one for at in (*made.source, made.vanished) if at for one in conversation.entries(at - 1, at)
        }
        return bisect_drawn(made, named, told, note)

    return CommandResult(data, draw)


@command("agent", example="stenolog explain agent demo coder --minus reviewer")
@click.option("--minus", required=True, metavar="NAME", help=f"Who has not seen it: {AGENT}.")
@AT
@takes_conditions
@takes_conversation_and("AGENT")
def explain_agent_command(
    db: Database, words: tuple[str, ...], minus: str, at: str, api: str | None, policy: str | None
) -> CommandResult:
    """Say what an agent has seen and another has not.

    And how that is known.
    """
    from stenolog.projections.analysis.knowledge import view

    conversation, agent = find_both(open_log(db), words)
    for written, option in ((agent, "AGENT"), (minus, "--minus")):
        address(written, option)
        known_agent(conversation, written)
    log = list(conversation.entries(at=resolve(conversation, at)))
    api = api or own_api(conversation, agent)
    told = view(log, lane(agent), lane(minus), api=api, policy=policy_of(policy), **means(conversation))
    data = {"conversation": conversation.name, "at": len(log), "agent": agent, "minus": minus, "seen": told}

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.explain import view_drawn

        return view_drawn(told, agent, minus, log)

    return CommandResult(data, draw)


@command("value", example="stenolog explain value swordfish")
@click.argument("text")
@takes_db
def explain_value_command(db: Database, text: str) -> CommandResult:
    """Find every entry, request and agent that a text reached.

    In all conversations; in blobs, drafts and tables too. Requests are built again from their receipts. A
    value that was encoded, or said in other words, is not found.
    """
    from stenolog.adapters.conversation.verifying.trace import trace_value

    log = open_log(db)
    found = trace_value(log, text)
    data = {"reached": found.reached, "agents": found.agents, "providers": found.providers}

    def draw() -> Iterator[Piece]:
        from stenolog.apps.cli.draw.layout import table, wrapped

        if not found.reached:
            yield line(("✓ ", "green"), "the text is nowhere in this log")
            return
        if first := _first(log, found.reached):
            yield wrapped(*_first_words(*first), hang=2)
        yield table((">AT", "WHAT", "CONVERSATION", "WHERE"), [_cells(one) for one in found.reached])
        if found.agents:
            agents, providers = ", ".join(found.agents), ", ".join(found.providers)
            yield line(("! ", "yellow"), f"sent to the models of {agents}, by {providers}")

    return CommandResult(data, draw)


def _first(log: Log, reached: Iterable[Reached]) -> tuple[Reached, Entry] | None:
    """Return the earliest entry that a text reached, with the place in it; None where it is in no entry."""
    firsts: dict[str, Reached] = {}
    for one in reached:
        if one.what == "entry":
            firsts.setdefault(one.conversation, one)
    found = [(one, log[one.conversation].entry(one.position)) for one in firsts.values()]
    return min(found, key=lambda pair: pair[1].time, default=None)


def _first_words(one: Reached, entry: Entry) -> tuple[str | tuple[str, str], ...]:
    """Say which entry had a text first, and whose words it was or which setting it set."""
    who, field = describe(entry).who.partition(" → ")[0], one.where.removeprefix("/event/")
    match entry.event:
        case ModeSwitch():
            how = f"set as {field} by the mode switch"
        case _ if not field.startswith(("parts/", "message")):
            how = f"recorded as {field} of the entry by {who}"
        case ToolResult():
            how = f"given by the tool {who}"
        case LlmError():
            how = f"told in an error of {who}"
        case _:
            how = f"said by {who}"
    place = f"{one.conversation}@{one.position}"
    return f"first {how} at ", (place, "bold"), f", {in_zone(entry.time):%Y-%m-%d %H:%M}"


def _cells(one: Reached) -> tuple[str, ...]:
    who = " ".join(filter(None, (one.agent, one.provider, one.model, one.where, one.reason)))
    return str(one.position or ""), one.what, one.conversation, who
