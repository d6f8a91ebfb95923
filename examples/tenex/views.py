"""The views of all agents, and why they differ: the requests of all agents at one position, side by side."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Column, Table

from stenolog import AssistantMessage, Conversation, Entry, LlmError, Request, ToolResult, UserMessage
from stenolog.analysis import call_in_words

MARKS = {"attributed": "heard", "result": "own", "routing": "own"}
MARKS |= {"delivered": "has it", "private-purpose": "private"}
LEGEND = (
    "user: a person's words; own: its own; heard: somebody else's; away: likewise, and missed since its last "
    "turn; has it: not sent, its session remembers it; private: not sent, the manager's note for itself; "
    "left out: not sent, by another rule"
)


def side_by_side(conversation: Conversation, at: int) -> Table:
    """Return a row for each entry with words, and a column for each agent: how, or why not, it is shown."""
    agents = conversation.state(at).members
    cells = {agent: dict(marks(conversation.request(agent, at))) for agent in agents}
    columns = Column(), Column("said", ratio=1, no_wrap=True), *(Column(short(agent)) for agent in agents)
    table = Table(*columns, box=None, padding=(0, 1, 0, 0), pad_edge=False, expand=True)
    for entry in conversation.entries(at=at):
        if words := said(entry):
            table.add_row(str(entry.position), words, *(cells[agent].get(entry.position) for agent in agents))
    return table


def marks(request: Request) -> Iterator[tuple[int, str]]:
    """Yield each position with its explanation; `away` is between the two notes."""
    is_away = False
    for part in request.parts:
        is_away ^= part.rule == "away-note"
        if part.role not in ("system", "tools") and part.disposition != "added":
            for position in part.positions:
                yield position, "away" if is_away else MARKS.get(part.rule, part.rule)
    for run in request.omissions:
        for position in range(run.first, run.last + 1):
            yield position, MARKS.get(run.rule, "left out")


def said(entry: Entry) -> str:
    """Return author and words of an entry in one line; empty if it has no words."""
    match entry.event:
        case UserMessage(text=text):
            who, what = "Ann", [text]
        case AssistantMessage(purpose="routing", text=text, agent=agent):
            who, what = f"{short(agent)}'s note", [text]
        case AssistantMessage(text=text, agent=agent, tool_calls=calls):
            who, what = short(agent), [text, *map(call_in_words, calls)]
        case ToolResult(text=text, name=name):
            who, what = name, [text]
        case LlmError(agent=agent, category=category, message=message):
            who, what = short(agent), ["✗", f"{category}:", message]
        case _:
            return ""
    return " ".join(f"{who}: {' '.join(what)}".split())


def short(agent: str) -> str:
    """Return an agent's name for a table: the last word of it."""
    return agent.rpartition("-")[2]
