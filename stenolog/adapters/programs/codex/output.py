"""Lines that Codex writes as an agent of a team."""

from __future__ import annotations

from typing import Any

from stenolog.adapters.agents.answer_buffer import ResponseBuilder
from stenolog.adapters.agents.output_formats import JsonLines
from stenolog.projections.messages.json_fields import as_dict, as_str

from .tokens import usage

SPEAK = ("--json",)
RESUME = ("resume", "{session}", "-")
"""The dash has it read the prompt from stdin there too."""
WORDS = ("agent_message", "reasoning")
"""The items that are words; all others are things that it did."""


def read(line: dict[str, Any], turn: ResponseBuilder) -> None:
    """Pass a line on to the turn.

    An `error` is skipped: Codex retries, and the turn fails if it gives up.
    """
    match line.get("type"):
        case "thread.started":
            turn.session = as_str(line.get("thread_id")) or turn.session
        case "item.started" | "item.updated":
            item = as_dict(line.get("item"))
            if item.get("type") not in WORDS:
                turn.add_note(item, as_str(item.get("id")))
        case "item.completed":
            _item(as_dict(line.get("item")), turn)
        case "turn.completed":
            turn.usage, turn.usage_is_total = usage(line.get("usage")), True
            turn.finish()
        case "turn.failed":
            turn.fail(as_str(as_dict(line.get("error")).get("message")))
        case _:
            pass


def _item(item: dict[str, Any], turn: ResponseBuilder) -> None:
    turn.break_part()
    match item.get("type"):
        case "agent_message":
            turn.add_text(as_str(item.get("text")))
        case "reasoning":
            turn.add_reasoning(as_str(item.get("text")))
        case _:
            turn.add_note(item, as_str(item.get("id")))


LINES = JsonLines(read, resume=RESUME, speak=SPEAK)
