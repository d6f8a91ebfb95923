"""Lines that Gemini CLI writes as an agent of a team."""

from __future__ import annotations

from typing import Any

from stenolog.adapters.agents.answer_buffer import ResponseBuilder
from stenolog.adapters.agents.output_formats import JsonLines
from stenolog.domain.values import Usage
from stenolog.projections.formats.anthropic.read import call_block, result_block
from stenolog.projections.messages.json_fields import as_dict, as_int, as_str


def read(line: dict[str, Any], turn: ResponseBuilder) -> None:
    """Pass a line of Gemini CLI on to the turn, calls and results in Claude Code's form."""
    match line.get("type"):
        case "init":
            turn.session = as_str(line.get("session_id")) or turn.session
        case "message" if line.get("role") == "assistant":
            turn.add_text(as_str(line.get("content")))
        case "tool_use":
            turn.break_part()
            name, arguments = as_str(line.get("tool_name")), line.get("parameters")
            turn.add_note(call_block(line.get("tool_id"), name, arguments))
        case "tool_result":
            failed = line.get("status") != "success"
            said = as_str(as_dict(line.get("error")).get("message")) or line.get("output")
            turn.add_note(result_block(line.get("tool_id"), said, is_error=failed))
        case "result":
            _result(line, turn)
        case _:
            pass


def _result(line: dict[str, Any], turn: ResponseBuilder) -> None:
    stats = as_dict(line.get("stats"))
    models = as_dict(stats.get("models"))
    # A small model may have chosen the one that answers.
    turn.model = max(models, key=lambda name: as_int(as_dict(models[name]).get("output_tokens")), default="")
    given, whole = as_int(stats.get("input_tokens")), as_int(stats.get("total_tokens"))
    # The total has the thoughts, too.
    output = max(as_int(stats.get("output_tokens")), whole - given)
    turn.usage = Usage(input=given, output=output, cache_read=as_int(stats.get("cached")))
    if line.get("status") != "success":
        turn.fail(as_str(as_dict(line.get("error")).get("message")))
    turn.finish()


LINES = JsonLines(read, resume=("--resume", "{session}"), speak=("--output-format", "stream-json"))
