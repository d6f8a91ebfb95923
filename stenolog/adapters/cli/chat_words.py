"""The words of a conversation at the terminal: calls, results, errors, and where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from stenolog.adapters.conversation import Conversation
from stenolog.domain.events import AssistantMessage, LlmError, ToolResult
from stenolog.domain.limits import MICRO
from stenolog.domain.parts import ToolCall
from stenolog.domain.state import Lane, OpenCall, State, address, decision
from stenolog.projections.prices import Prices
from stenolog.projections.usage import Tally
from stenolog.projections.words import call_in_words

from .positions import backwards
from .words import counted, in_words

LONGEST_VALUE = 60
RESULT_LINES = 4
LONGEST_CALL = 10_000


def call_words(call: ToolCall) -> str:
    """A call with its arguments, each in few characters: `read_file path=a.py limit=3`."""
    return f"{call.name} {arguments(call.arguments)}".rstrip()


def whole_call(call: ToolCall) -> str:
    """A call with all of its arguments, for whoever decides about it; it says where that is too much."""
    words = call_in_words(call)
    more = len(words) - LONGEST_CALL
    return words if more <= 0 else f"{words[:LONGEST_CALL]} … and {more:,} characters that are not shown here"


def arguments(raw: str) -> str:
    """A call's arguments in a few words; as they came, where they are no object."""
    try:
        given = json.loads(raw)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        return raw
    return " ".join(f"{name}={_value(value)}" for name, value in given.items())


def _value(value: object) -> str:
    words = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return words if len(words) <= LONGEST_VALUE else f"{words[: LONGEST_VALUE - 1]}…"


def result_lines(result: ToolResult) -> list[str]:
    """The first lines of a result, and how many more there are."""
    rows = in_words(result.parts).strip().splitlines()
    if len(rows) <= RESULT_LINES:
        return rows
    return [*rows[: RESULT_LINES - 1], f"… {counted(len(rows) - RESULT_LINES + 1, 'more line')}"]


def call_of(talk: Conversation, call: OpenCall) -> ToolCall:
    """An open call, with its arguments."""
    entry = next(iter(talk.entries(call.position - 1, call.position)))
    assert isinstance(entry.event, AssistantMessage), "calls stand in answers"
    return entry.event.tool_calls[call.nth]


def awaiting(state: State, agents: Mapping[str, object]) -> Iterator[tuple[Lane, OpenCall]]:
    """The calls that a person must approve before these agents go on."""
    for lane, call in state.open_calls():
        if call.approval and lane.status == "awaiting_approval" and lane.agent in agents:
            yield lane, call


def at_work(state: State, agents: Mapping[str, object]) -> str:
    """What these agents are doing, in a few words; empty where they rest."""
    doing = []
    for lane in state.lanes.values():
        match decision(state, lane).do if lane.agent in agents else "wait":
            case "call_model":
                doing.append(f"{lane.address} is {'waiting to retry' if lane.retry_at else 'thinking'}")
            case "run_tools":
                doing.append(f"{lane.address} runs {', '.join(call.name for call in lane.calls)}")
            case _:
                pass
    return " · ".join(doing)


def failed(state: State, agents: Mapping[str, object]) -> list[str]:
    """The lanes of these agents that have failed."""
    return [where for where, lane in state.lanes.items() if lane.status == "failed" and lane.agent in agents]


class Hints(NamedTuple):
    """How a person approves a call, has an interrupted lane go on, or tries again after a failure."""

    approve: str = "/approve"
    go_on: str = "/continue"
    again: str = "/continue tries again"


def standing(talk: Conversation, agents: Mapping[str, object], hints: Hints) -> Iterator[str]:
    """Where a conversation stands that is taken up again: what waits, has failed, or was broken off."""
    state = talk.state()
    for where, lane in state.lanes.items():
        match lane.status if lane.agent in agents else "idle":
            case "awaiting_approval":
                since = next(iter(talk.entries(lane.answered - 1, lane.answered))).at
                names = ", ".join(call.name for call in lane.calls if call.approval)
                yield f"{where} awaits your approval of {names} since {minute(since)}: {hints.approve}"
            case "awaiting_llm" | "awaiting_tools":
                yield f"{where} was interrupted, or is at work elsewhere: {hints.go_on}"
            case "failed":
                yield f"{where} has failed ({_failure(talk, where)}): {hints.again}"
            case _:
                pass


def _failure(talk: Conversation, where: str) -> str:
    for entry in backwards(talk, talk.position):
        match entry.event:
            case LlmError(agent=agent, task=task) as error if address(agent, task) == where:
                return error_words(error)
            case _:
                pass
    return "unknown"


def error_words(error: LlmError) -> str:
    """What went wrong, in the words of the log."""
    return f"{error.category}: {error.message}" if error.message else error.category


def what_next(error: LlmError, now: datetime) -> str:
    """What happens after an error; empty where a person decides."""
    if error.retry_at is None:
        return ""
    wait = max(0.0, (error.retry_at - now).total_seconds())
    return f"retrying in {wait:.0f} s …" if wait >= 1 else "retrying …"


def minute(at: datetime) -> str:
    """A time to the minute, in UTC."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def used_words(tally: Tally, prices: Prices) -> str:
    """What was used, in a few words: 2 answers · 1,204 tokens in, 32 out · $0.0021."""
    tokens, price = tally.sum, tally.cost(prices)
    money = f" · ${price / MICRO:,.4f}" if price else ""
    return f"{counted(tally.answers, 'answer')} · {tokens.input:,} tokens in, {tokens.output:,} out{money}"
