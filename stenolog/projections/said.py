"""The words of an event, for a full-text index: what was said, thought, called, given back, or went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import File, Image, Part, Reasoning, Refusal, Text, ToolCall
from stenolog.domain.values import Run


def said(event: Event) -> str:
    """All words of the event, a line break between two pieces; empty where nobody can know its words."""
    return "\n".join(filter(None, _pieces(event)))


def agent_of(event: Event) -> str:
    """The agent whose words they are; empty where they are no agent's."""
    match event:
        case AssistantMessage(agent=agent) | LlmError(agent=agent):
            return agent
        case UserMessage(author=author, author_kind="agent"):
            return author
        case _:
            return ""


def _pieces(event: Event) -> Iterator[str]:
    match event:
        case UserMessage(parts=parts) | AssistantMessage(parts=parts) | ToolResult(parts=parts):
            yield from _words(parts)
        case LlmError(category=category, message=message, parts=parts):
            yield category
            yield message
            yield from _words(parts)
        case ModeSwitch(title=title, handoff=handoff, active_run=run):
            yield from (words for words in (title, handoff) if isinstance(words, str))
            if isinstance(run, Run):
                yield from (run.directive, run.brief, run.context)
        case _:
            pass


def _words(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case Text(text=text) | Reasoning(text=text) | Refusal(text=text):
                yield text
            case ToolCall(name=name, arguments=arguments):
                yield name
                yield from _argued(arguments)
            case File(name=name, url=url):
                yield from (name, url)
            case Image(url=url):
                yield url
            case _:
                pass


def _argued(arguments: str) -> Iterator[str]:
    """The words of a call's arguments: JSON would spell a line break as a letter."""
    try:
        left = [json.loads(arguments)]
    except (ValueError, RecursionError):
        yield arguments
        return
    while left:
        match left.pop():
            case dict(fields):
                left += [word for pair in reversed(fields.items()) for word in reversed(pair)]
            case list(items):
                left += reversed(items)
            case None | bool():
                pass
            case value:
                yield str(value)
