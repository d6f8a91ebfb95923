"""The cost of an entry once it is read: the next state, and a window that takes it, against decoding it.

A turn is a question, two calls, their results (300 and 4,000 characters) and an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from benchmarks._ratio import Row, least
from stenolog import AssistantMessage, Entry, Event, ModeSwitch, ToolCall, ToolResult, UserMessage
from stenolog.context import Budget, FullHistory
from stenolog.domain.entry import to_entry
from stenolog.domain.lanes.step import fold
from stenolog.domain.policy import Policy, policy
from stenolog.engine import RoundRobin
from stenolog.projections.requests.incremental.series import window
from stenolog.projections.requests.pipeline.lane import LaneId
from stenolog.testing import entries, records

TURNS = 400
ROUNDS = 9
TEXT = "The failing test is the one that counts the rows of the ledger. " * 80
TEAM = ("coder", "tester", "writer")
POLICIES = {"the full history": policy(FullHistory()), "32,000 tokens": policy(Budget(tokens=32_000))}


def run() -> Iterable[Row]:
    alone, team = list(turns(TURNS)), list(team_turns(TURNS))
    decode = decoding(alone)
    log, teams_log = entries(*alone), entries(*team)
    yield compared("the next state", partial(fold, log), decode, len(log), 1.6)
    yield compared(
        "the next state of three in turn", partial(fold, teams_log), decoding(team), len(teams_log), 4.0
    )
    for (name, chosen), limit in zip(POLICIES.items(), (5.2, 13.0), strict=True):
        yield compared(f"taken into a window, {name}", taking(log, chosen), decode, len(log), limit)


def compared(
    name: str, work: Callable[[], object], decode: Callable[[], object], number: int, limit: float
) -> Row:
    """Return the least CPU of both, as a ratio, for so many entries."""
    ours_s, decode_s = least(work, decode, ROUNDS)
    note = f"{ours_s / number * 1e6:.1f} against {decode_s / number * 1e6:.1f} µs of CPU an entry"
    return Row(f"{name}, against decoding it", ours_s / decode_s, limit, note=note)


def decoding(events: Iterable[Event]) -> Callable[[], object]:
    """Return a function that reads the entries of these events from their records."""
    stored = records(*events)
    return lambda: [to_entry("talk", record) for record in stored]


def taking(log: list[Entry], chosen: Policy) -> Callable[[], object]:
    """Return a function that folds the log into a new window."""
    return lambda: window(LaneId("coder"), chosen, log)


def turns(number: int) -> Iterator[Event]:
    """Measure the turns of one agent."""
    for nth in range(number):
        yield UserMessage(text=TEXT[:200])
        yield called("coder", nth, "read_file", "shell")
        yield ToolResult(call_id=f"{nth}-read_file", name="read_file", text=TEXT[:300])
        yield ToolResult(call_id=f"{nth}-shell", name="shell", text=TEXT[:4_000])
        yield AssistantMessage(agent="coder", text=TEXT[:600])


def team_turns(number: int) -> Iterator[Event]:
    """Yield as many turns of a team that takes turns: each answers after a call."""
    yield ModeSwitch(joins=TEAM, turns=RoundRobin(pass_token="pass", max_rounds=1))
    for nth in range(number):
        yield UserMessage(text=TEXT[:200])
        for agent in TEAM:
            yield called(agent, nth, "shell")
            yield ToolResult(call_id=f"{nth}-shell", name="shell", text=TEXT[:300])
            yield AssistantMessage(agent=agent, text=TEXT[:600])


def called(agent: str, nth: int, *tools: str) -> Event:
    """Return an answer that calls these tools."""
    calls = [ToolCall(id=f"{nth}-{tool}", name=tool, arguments='{"path": "ledger.py"}') for tool in tools]
    return AssistantMessage(agent=agent, tool_calls=calls)
