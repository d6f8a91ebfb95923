"""The words of a conversation at the terminal: calls, results, errors, and what was used."""

from __future__ import annotations

import json
from datetime import datetime

from stenolog.adapters.log import Conversation
from stenolog.domain.events import AssistantMessage, LlmError, ToolResult
from stenolog.domain.limits import MICRO
from stenolog.domain.parts import ToolCall
from stenolog.domain.state import OpenCall
from stenolog.projections.prices import Prices, unpriced
from stenolog.projections.showing import shown_call
from stenolog.projections.usage import UsageTotals

from .words import counted, in_words

LONGEST_VALUE = 60
RESULT_LINES = 4
LONGEST_CALL = 10_000


def call_words(call: ToolCall) -> str:
    """A call with its arguments, each in few characters: `read_file path=a.py limit=3`."""
    return f"{call.name} {arguments(call.arguments)}".rstrip()


def whole_call(call: ToolCall) -> str:
    """A call with all of its arguments, where nobody is asked about it; it says where that is too much."""
    words = shown_call(call.name, call.arguments)
    more = len(words) - LONGEST_CALL
    return words if more <= 0 else f"{words[:LONGEST_CALL]} … and {more:,} characters that are not shown here"


def pages_of(call: ToolCall) -> list[str]:
    """Return all of a call, page by page, for the person who decides about it."""
    words = shown_call(call.name, call.arguments)
    return [words[at : at + LONGEST_CALL] for at in range(0, len(words), LONGEST_CALL)]


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


def call_of(conversation: Conversation, call: OpenCall) -> ToolCall:
    """An open call, with its arguments."""
    entry = next(iter(conversation.entries(call.position - 1, call.position)))
    assert isinstance(entry.event, AssistantMessage), "calls stand in answers"
    return entry.event.tool_calls[call.nth]


def error_words(error: LlmError) -> str:
    """Return an error's category and message."""
    return f"{error.category}: {error.message}" if error.message else error.category


def what_next(error: LlmError, now: datetime) -> str:
    """Describe the retry after an error; empty if a person decides."""
    if error.retry_at is None:
        return ""
    wait = max(0.0, (error.retry_at - now).total_seconds())
    return f"retrying in {wait:.0f} s …" if wait >= 1 else "retrying …"


def minute(time: datetime) -> str:
    """A time to the minute, in UTC."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def used_words(tally: UsageTotals, prices: Prices) -> str:
    """Describe usage in a few words: 2 answers · 1,204 tokens in, 32 out · $0.0021."""
    tokens, price = tally.sum, tally.known_cost(prices)
    answers = counted(tally.answers, "answer")
    if tally.untold == tally.answers:
        return f"{answers} · tokens unknown"
    least = "≥" if unpriced(tally.tokens, prices) else ""
    money = f" · {least}${price / MICRO:,.4f}" if price else ""
    untold = f" (of {tally.untold} unknown)" if tally.untold else ""
    return f"{answers} · {tokens.input:,} tokens in, {tokens.output:,} out{untold}{money}"
