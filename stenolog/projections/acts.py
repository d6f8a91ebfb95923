"""Descriptions of an agent program's own acts in a line: its commands and tool calls."""

from __future__ import annotations

import json
from typing import Any

from stenolog.domain.events import Event, LlmError
from stenolog.domain.parts import ProviderPart

PROVIDERS = ("acp", "claude-code", "codex", "command-line")
"""Whose opaque parts are acts."""
GISTS = ("command", "cmd", "file_path", "path", "pattern", "url", "query", "description", "prompt", "text")
"""The arguments that tell most of a call, the best first."""
LONGEST = 160


def act_in_words(raw: str) -> str:
    """Return what was done in a line; empty for what is no act, such as the result of one."""
    try:
        thing = json.loads(raw)
    except ValueError:
        return ""
    return _line(_describe(thing)) if isinstance(thing, dict) else ""


def is_act(part: object) -> bool:
    """Return whether a part of an answer is an act of a program, in words that a person can read."""
    return isinstance(part, ProviderPart) and part.provider in PROVIDERS and bool(act_in_words(part.raw))


def _describe(thing: dict[str, Any]) -> str:
    match thing:
        case {"type": "tool_use", "name": str(name)}:
            return _call(name, thing.get("input"))
        case {"toolCallId": _}:
            title = str(thing.get("title") or thing.get("kind") or "tool")
            gist = _gist(thing.get("rawInput"))
            return title if not gist or gist in title else f"{title}: {gist}"
        case {"type": "command_execution", "command": str(command)}:
            return _call("command", {"command": command})
        case {"type": "file_change", "changes": list(changes)}:
            paths = [str(change.get("path", "")) for change in changes if isinstance(change, dict)]
            return f"file change: {', '.join(paths)}"
        case {"type": "mcp_tool_call"}:
            return _call(f"{thing.get('server', '')}.{thing.get('tool', '')}", thing.get("arguments"))
        case {"type": "tool_result" | "todo_list" | "error"}:
            return ""
        case {"type": str(kind)}:
            return _call(kind.replace("_", " "), thing)
        case _:
            return ""


def _call(name: str, arguments: object) -> str:
    gist = _gist(arguments)
    return f"{name}: {gist}" if gist else name


def _gist(arguments: object) -> str:
    if not isinstance(arguments, dict):
        return str(arguments) if isinstance(arguments, str) else ""
    for name in GISTS:
        match arguments.get(name):
            case str(gist) if gist:
                return gist
            case [*words] if words and all(isinstance(word, str) for word in words):
                return " ".join(map(str, words))
            case _:
                pass
    return ""


def _line(words: str) -> str:
    line = " ".join(words.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def was_retried(event: Event) -> bool:
    """Return whether an event is an error after which the same call is made again from the start.

    What had arrived of it is not part of the answer then. What a program had done by itself still counts.
    """
    if not isinstance(event, LlmError) or event.retry_at is None:
        return False
    return not any(is_act(part) for part in event.parts)
