"""The words of an event, for a full-text index: what was said, thought, called, given back, or went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable

from stenolog.domain.events import AssistantMessage, Event, LlmError, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.parts import FilePart, ImagePart, Part, ReasoningPart, RefusalPart, TextPart, ToolCall
from stenolog.domain.values import WorkflowRun


def searchable_text(event: Event) -> str:
    """All words of the event, a line break between two pieces; empty where nobody can know its words."""
    match event:
        case UserMessage(parts=parts) | AssistantMessage(parts=parts) | ToolResult(parts=parts):
            pieces = _part_texts(parts)
        case LlmError(category=category, message=message, parts=parts):
            pieces = [category, message, *_part_texts(parts)]
        case ModeSwitch(title=title, handoff=handoff, active_run=run):
            pieces = [words for words in (title, handoff) if isinstance(words, str)]
            if isinstance(run, WorkflowRun):
                pieces += (run.directive, run.brief, run.context)
        case _:
            pieces = []
    return "\n".join(filter(None, pieces))


def agent_of(event: Event) -> str:
    """The agent whose words they are; empty where they are no agent's."""
    match event:
        case AssistantMessage(agent=agent) | LlmError(agent=agent):
            return agent
        case UserMessage(author=author, author_kind="agent"):
            return author
        case _:
            return ""


def _part_texts(parts: Iterable[Part]) -> list[str]:
    words: list[str] = []
    for part in parts:
        match part:
            case TextPart(text=text) | ReasoningPart(text=text) | RefusalPart(text=text):
                words.append(text)
            case ToolCall(name=name, arguments=arguments):
                words += (name, *_argued(arguments))
            case FilePart(name=name, url=url):
                words += (name, url)
            case ImagePart(url=url):
                words.append(url)
            case _:
                pass
    return words


def _argued(arguments: str) -> list[str]:
    """The words of a call's arguments: JSON would spell a line break as a letter."""
    try:
        left = [json.loads(arguments)]
    except (ValueError, RecursionError):
        return [arguments]
    words: list[str] = []
    while left:
        match left.pop():
            case dict(fields):
                left += [word for pair in reversed(fields.items()) for word in reversed(pair)]
            case list(items):
                left += reversed(items)
            case None | bool():
                pass
            case value:
                words.append(str(value))
    return words
