"""Acts of a command-line agent: its own tool calls with their results, read from the parts of an answer.

Some programs write a call and its result apart, others in one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from stenolog.domain.base.model import clean
from stenolog.domain.events import ToolResult
from stenolog.domain.parts import Part, ProviderPart, TextPart
from stenolog.projections.programs import PROGRAMS

ActStatus: TypeAlias = Literal["ok", "failed", "no result"]
OWN = ("acp", "command-line")
"""The providers whose opaque parts are acts, beside the programs that have lines of their own."""
GISTS = ("command", "cmd", "pattern", "query", "url", "file_path", "path", "description", "prompt", "text")
"""The arguments that say most of a call, the best first."""
LONGEST_ACT = 160
FAILED = ("failed", "declined", "error")
HALF = re.compile(r"\\u[dD][89a-fA-F]")


class Act(NamedTuple):
    """A call that an agent ran by itself; `arguments` is JSON, `id` may be empty."""

    id: str
    name: str
    arguments: str
    status: ActStatus
    output: str = ""


def acts(parts: Iterable[Part]) -> list[Act]:
    """Return the calls in an answer's parts, each with its result if that is there."""
    things = [*_things(parts)]
    results = {thing.get("tool_use_id"): thing for thing in things if thing.get("type") == "tool_result"}
    return [_act(thing, results) for thing in things if thing.get("type") != "tool_result"]


def acts_and_failures(parts: Iterable[Part]) -> tuple[int, int]:
    """Return the number of calls in the parts, and of those among them that failed."""
    found = acts(parts)
    return len(found), sum(act.status == "failed" for act in found)


def has_failed(result: ToolResult) -> bool:
    """Return whether a tool failed: the result is marked so, or a program's output states it.

    Only for what people see: a request has only the mark, as it was sent.
    """
    if result.is_error or result.source is None:
        return result.is_error
    system = result.source.system
    pattern = PROGRAMS[system].failed if system in PROGRAMS else ""
    said = result.parts[0] if pattern and result.parts else None
    return isinstance(said, TextPart) and re.match(pattern, said.text) is not None


def without_acts(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts that are neither an act nor the result of one."""
    return tuple(part for part in parts if not (is_act(part) or is_result(part)))


def is_of_program(provider: object) -> bool:
    """Return whether the opaque parts of a provider are acts of a program."""
    return provider in OWN or (provider in PROGRAMS and PROGRAMS[str(provider)].output is not None)


def _things(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    for thing in map(_thing, parts):
        if thing.get("type") == "tool_result" or _in_words(thing):
            yield thing


def _thing(part: object) -> dict[str, Any]:
    if not isinstance(part, ProviderPart) or not is_of_program(part.provider):
        return {}
    return _object(part.raw)


def _object(raw: str) -> dict[str, Any]:
    try:
        thing = json.loads(raw)
        # JSON can escape half a character, which can be written nowhere.
        if HALF.search(raw):
            thing = json.loads(clean(json.dumps(thing, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return {}
    return thing if isinstance(thing, dict) else {}


def is_result(part: Part) -> bool:
    """Return whether a part of an answer is the separate result of an act."""
    return _thing(part).get("type") == "tool_result"


def is_result_of(part: Part, acts: Iterable[Act]) -> bool:
    """Return whether a part is the result of one of these acts."""
    thing = _thing(part)
    return thing.get("type") == "tool_result" and thing.get("tool_use_id") in {act.id for act in acts}


def _act(thing: dict[str, Any], results: dict[Any, dict[str, Any]]) -> Act:
    return Act(str(thing.get("id") or thing.get("toolCallId") or ""), *_call_with_outcome(thing, results))


def _call_with_outcome(
    thing: dict[str, Any], results: dict[Any, dict[str, Any]]
) -> tuple[str, str, ActStatus, str]:
    status = _status(thing)
    match thing:
        case {"type": "tool_use", "name": str(name)}:
            found = results.get(thing.get("id"))
            result = found or {}
            came: ActStatus = "failed" if result.get("is_error") else "ok"
            text = _text_of_result(result.get("content"))
            return name, _json(thing.get("input")), "no result" if found is None else came, text
        case {"toolCallId": _}:
            name = str(thing.get("title") or thing.get("kind") or "tool")
            return name, _json(thing.get("rawInput")), status, _text_of_result(thing.get("content"))
        case {"type": "command_execution", "command": command}:
            failed = bool(thing.get("exit_code"))
            text = _text_of_result(thing.get("aggregated_output"))
            return "command", _json({"command": command}), "failed" if failed else status, text
        case {"type": "mcp_tool_call"}:
            name = f"{thing.get('server', '')}.{thing.get('tool', '')}"
            return name, _json(thing.get("arguments")), status, _text_of_result(thing.get("result"))
        case _:
            rest = {key: value for key, value in thing.items() if key not in ("type", "id", "status")}
            return str(thing.get("type", "act")).replace("_", " "), _json(rest), status, ""


def _status(thing: dict[str, Any]) -> ActStatus:
    status = thing.get("status")
    if status in FAILED:
        return "failed"
    return "no result" if status in ("in_progress", "pending") else "ok"


def _json(given: object) -> str:
    return json.dumps({} if given is None else given, ensure_ascii=False, separators=(",", ":"))


def _text_of_result(content: object) -> str:
    match content:
        case str(text):
            return text
        case list(blocks):
            return "\n".join(filter(None, map(_text_of_result, blocks)))
        case {"text": str(text)}:
            return text
        case {"content": inner}:
            return _text_of_result(inner)
        case _:
            return ""


def act_in_words(raw: str) -> str:
    """Return an action in a line; empty for other parts, such as an action's result."""
    return _in_words(_object(raw))


def is_act(part: object) -> bool:
    """Return whether a part of an answer is an act of a program that has words for a person."""
    return bool(_in_words(_thing(part)))


def _describe(thing: dict[str, Any]) -> str:
    match thing:
        case {"type": "tool_use", "name": str(name)}:
            return _call(name, thing.get("input"))
        case {"toolCallId": _}:
            title = str(thing.get("title") or thing.get("kind") or "tool")
            said = gist(thing.get("rawInput"))
            return title if not said or said in title else f"{title}: {said}"
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
    said = gist(arguments)
    return f"{name}: {said}" if said else name


def gist(arguments: object) -> str:
    """Return the argument that says most of a call; empty if none does."""
    if not isinstance(arguments, dict):
        return str(arguments) if isinstance(arguments, str) else ""
    for name in GISTS:
        match arguments.get(name):
            case str(said) if said:
                return said
            case [*words] if words and all(isinstance(word, str) for word in words):
                return " ".join(map(str, words))
            case _:
                pass
    return ""


def _in_words(thing: dict[str, Any]) -> str:
    line = " ".join(_describe(thing).split())
    return line if len(line) <= LONGEST_ACT else f"{line[: LONGEST_ACT - 1]}…"
