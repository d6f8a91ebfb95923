"""Output lines of Qwen Code as a team's agent: Claude Code's, with its own counts."""

from __future__ import annotations

from functools import reduce
from typing import Any

from stenolog.adapters.agents.answer_buffer import ResponseBuilder
from stenolog.adapters.agents.output_formats import JsonLines
from stenolog.adapters.programs.claude_code import output as claude_code
from stenolog.domain.values import Usage
from stenolog.projections.messages.json_fields import as_dict, as_int, as_str

SPEAK = ("--output-format", "stream-json", "--include-partial-messages")


def read(line: dict[str, Any], turn: ResponseBuilder) -> None:
    """Pass a line of Qwen Code on to the turn: Claude Code's form, OpenAI's counts."""
    message = as_dict(line.get("message"))
    if counted := as_dict(message.get("usage")):
        turn.counted[as_str(message.get("id"))] = counted
        turn.usage = reduce(claude_code.summed, map(_usage, turn.counted.values()))
    # Its result counts the whole session, and some of it twice.
    without_usage = {**line, "message": {**message, "usage": None}, "usage": None, "total_cost_usd": None}
    claude_code.read(without_usage, turn)


def _usage(counted: dict[str, Any]) -> Usage:
    return Usage(
        input=as_int(counted.get("input_tokens")),
        output=as_int(counted.get("output_tokens")),
        cache_read=as_int(counted.get("cache_read_input_tokens")),
    )


LINES = JsonLines(read, claude_code.prompted, claude_code.RESUME, SPEAK, claude_code.LISTEN)
