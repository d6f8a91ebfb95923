"""Output of `explain text` without a conversation: all places that a text reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from stenolog.adapters.conversation.log import Log
from stenolog.adapters.conversation.verifying.trace import Reached, Trace
from stenolog.apps.cli.arguments.time import in_zone
from stenolog.apps.cli.lines import Piece, counted, describe, line
from stenolog.domain.entry import Entry
from stenolog.domain.events import LlmError, ModeSwitch, ToolResult
from stenolog.domain.lanes.state import runs_in_words

from .layout import table, wrapped


def reached_drawn(found: Trace, log: Log) -> Iterator[Piece]:
    """Yield the first place in words, a row for each place, and whose models were sent the text."""
    if not found.reached:
        yield line(("✓ ", "green"), "the text is nowhere in this log")
        return
    if first := _first(log, found.reached):
        yield wrapped(*_first_words(*first), hang=2)
    columns = (">AT", "WHAT", "CONVERSATION", "*WHERE")
    yield table(columns, [_cells(group) for group in _by_agent(found.reached)])
    if found.agents:
        agents, providers = ", ".join(found.agents), ", ".join(found.providers)
        yield wrapped(("! ", "yellow"), f"sent to the models of {agents}, by {providers}")


def _first(log: Log, reached: Iterable[Reached]) -> tuple[Reached, Entry] | None:
    firsts: dict[str, Reached] = {}
    for one in reached:
        if one.what == "entry":
            firsts.setdefault(one.conversation, one)
    found = [(one, log[one.conversation].entry(one.position)) for one in firsts.values()]
    return min(found, key=lambda pair: pair[1].time, default=None)


def _first_words(one: Reached, entry: Entry) -> tuple[str | tuple[str, str], ...]:
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


def _by_agent(reached: Iterable[Reached]) -> Iterable[list[Reached]]:
    groups: dict[object, list[Reached]] = {}
    for one in reached:
        is_sent = one.what in ("request", "answer") and not one.reason
        key = (one.conversation, one.agent, one.provider, one.where) if is_sent else one
        groups.setdefault(key, []).append(one)
    return groups.values()


def _cells(group: list[Reached]) -> tuple[str, ...]:
    first, last = group[0], group[-1]
    kinds = Counter(one.what for one in group)
    what = first.what if len(group) == 1 else ", ".join(counted(n, kind) for kind, n in kinds.items())
    at = runs_in_words([(first.position, last.position)]) if first.position else ""
    who = " ".join(filter(None, (first.agent, first.provider, last.model, first.where, first.reason)))
    return at, what, first.conversation, who
