"""Who sees what, and why: the requests of all agents at one position, side by side."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from stenolog import AssistantMessage, Conversation, Entry, Request, ToolResult, UserMessage

SHORT = {"attributed": "heard", "result": "own", "routing": "own"}
SHORT |= {"delivered": "(has it)", "private-purpose": "(private)"}


def side_by_side(talk: Conversation, upto: int) -> Table:
    """A row for each entry with words, a column for each agent: how it is shown it, or (why not)."""
    agents = talk.state(upto).members
    cells = {agent: dict(marks(talk.request(agent, upto))) for agent in agents}
    table = Table(title=f"{talk.name} at {upto}", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("", "said", *agents):
        table.add_column(heading, no_wrap=True)
    for entry in talk.entries(upto=upto):
        if words := said(entry, 36):
            row = [cells[agent].get(entry.position, "") for agent in agents]
            table.add_row(str(entry.position), words, *row)
    return table


def marks(request: Request) -> Iterator[tuple[int, str]]:
    """Each position with what the explanation says of it; `away` is between the two notes."""
    is_away = False
    for part in request.parts:
        is_away ^= part.rule == "away-note"
        if part.role not in ("system", "tools") and part.disposition != "added":
            for position in part.positions:
                yield position, "away" if is_away else SHORT.get(part.rule, part.rule)
    for run in request.dropped:
        for position in range(run.first, run.last + 1):
            yield position, SHORT.get(run.rule, f"({run.rule})")


def said(entry: Entry, width: int) -> str:
    """Who says what, in one line of so many characters at most; empty for what has no words."""
    match entry.event:
        case UserMessage(text=text):
            return _short("Ann", text, width)
        case AssistantMessage(purpose="routing", text=text, agent=agent):
            return _short(agent, f"routing: {text}", width)
        case AssistantMessage(text=text, agent=agent) if text:
            return _short(agent, text, width)
        case ToolResult(text=text):
            return _short("→", text, width)
        case _:
            return ""


def asked_last(talk: Conversation, agent: str) -> int:
    """The position at which an agent was asked last, by the receipt of its answer."""
    answers = [e.event for e in talk.entries() if isinstance(e.event, AssistantMessage)]
    views = [a.receipt.view for a in answers if a.agent == agent and a.receipt]
    return views[-1] if views else talk.position


def _short(who: str, text: str, width: int) -> str:
    line = f"{who}: {' '.join(text.split())}"
    return line if len(line) <= width else f"{line[: width - 1]}…"
