"""Events in words: in a line for people, and in full for the search index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stenolog.domain import events
from stenolog.domain.entry import Entry
from stenolog.domain.erasure import LOST, WORDLESS
from stenolog.domain.lanes.handoffs import is_of_handoff
from stenolog.domain.lanes.state import address
from stenolog.domain.lanes.state import in_words as spans_in_words
from stenolog.domain.parts import (
    FilePart,
    ImagePart,
    Part,
    ProviderPart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from stenolog.domain.values import Control, WorkflowRun
from stenolog.domain.verdict import is_refused
from stenolog.projections.questions import words_of

from .acts import act_in_words, has_failed, is_act, is_of_program, is_result
from .timeline import CUT_OFF, HANDED_ON, STOPPED, changes, cut_words, lost_words

USER = "user"
"""The address of the person, whom an agent speaks to unless it names another."""


KINDS: dict[str, str] = {
    "user_message": "user",
    "assistant_message": "assistant",
    "tool_result": "tool",
    "llm_error": "error",
    "mode_switch": "mode",
}
"""The word for each kind of event."""
FINER_KINDS = ("summary", "cut", "settings", "erased", "withheld", "unknown", "damaged")
"""The other words that `kind_word` returns."""


class Description(NamedTuple):
    """An entry in words, as they were said: nothing in them is escaped."""

    who: str
    what: str


def describe(entry: Entry) -> Description:
    """Return the entry's author and content as one line."""
    event = entry.event
    match event:
        case events.UserMessage(parts=parts, control=control):
            author = event.author or ("user" if event.author_kind == "person" else event.author_kind)
            if is_of_handoff(event):
                return Description(author, f"{HANDED_ON} to {', '.join(event.to)}: {in_words(parts)}")
            return Description(_to(author, event.to), _joined(_control(control), in_words(parts)))
        case events.AssistantMessage(parts=parts):
            lane = address(event.agent, event.task)
            purpose = "" if event.purpose == "answer" else f"[{event.purpose}{_covers(event)}]"
            # What was said and called comes first: on one line a long thought would hide it.
            words = in_words([part for part in parts if not isinstance(part, ReasoningPart)])
            to = [each for each in event.to if each not in (lane, USER)]
            return Description(_to(lane, to), _joined(purpose, _cut(event), words, thoughts(event)))
        case events.ToolResult(parts=parts):
            mark = "✗" if has_failed(event) else "✓"
            return Description(event.name or "tool", _joined(mark, in_words(parts)))
        case events.LlmError(parts=parts) if events.was_stopped(event):
            return Description(address(event.agent, event.task), _joined(f"[{STOPPED}]", in_words(parts)))
        case events.LlmError(parts=parts):
            words = f"{event.category}: {event.message}" if event.message else event.category
            kept = f"· kept: {in_words(parts)}" if parts else ""
            retry = f"· again at {event.retry_at:%H:%M:%S}" if event.retry_at else ""
            return Description(address(event.agent, event.task), _joined(words, kept, retry))
        case events.ModeSwitch(meta=meta):
            return Description("system", changes(event) or _joined(*(f"({owner})" for owner in meta)))
        case events.Unknown(topic=topic) if topic in WORDLESS:
            return Description("?", topic)
        case events.Damaged(reason=reason):
            return Description("?", f"damaged: {reason}")
        case events.Unknown(topic=topic, payload=payload) if topic == LOST:
            return Description("?", lost_words(payload))
        case events.Unknown():
            return Description("?", f"{event.topic}, which this release does not know")


class EntryLine(NamedTuple):
    """An entry as a line: the word for its kind, its author, its content and its thoughts."""

    kind: str
    who: str
    what: str
    thoughts: str


def entry_line(entry: Entry) -> EntryLine:
    """Return an entry as a line; nothing in it is escaped."""
    (who, what), thought = describe(entry), thoughts(entry.event)
    return EntryLine(kind_word(entry.event), who, what.removesuffix(thought).rstrip(), thought)


def kind_word(event: events.Event) -> str:
    """Return the word for an entry's kind, finer than `KINDS`: summary, cut, stopped, settings, erased."""
    match event:
        case events.AssistantMessage(covers=covers) if covers:
            return "summary"
        case events.LlmError() if events.was_stopped(event):
            return "stopped"
        case events.ModeSwitch() if is_cut(event):
            return "cut"
        case events.ModeSwitch() if not changes(event):
            return "settings"
        case events.Unknown(topic=topic) if topic in WORDLESS:
            return topic
        case _:
            return KINDS.get(event.kind, event.kind)


def is_of_kind(event: events.Event, word: str) -> bool:
    """Return whether a word, or an event's own name of its kind, says what an entry is."""
    return word in (event.kind, KINDS.get(event.kind), kind_word(event))


def is_cut(switch: events.ModeSwitch) -> bool:
    """Return whether a mode switch takes entries out of context."""
    return isinstance(switch.context_from, int) or isinstance(switch.hides, tuple)


def thoughts(event: events.Event) -> str:
    """Return the reasoning of an answer, in words: `describe` ends with it."""
    parts = event.parts if isinstance(event, events.AssistantMessage) else ()
    return in_words([part for part in parts if isinstance(part, ReasoningPart)])


def _cut(event: events.AssistantMessage) -> str:
    return f"[{CUT_OFF}]" if cut_words(event) else ""


def in_words(parts: Sequence[Part]) -> str:
    """Return the parts of a message, one after the other."""
    return _joined(*(_part(part) for part in parts))


def call_in_words(call: ToolCall) -> str:
    """Return a tool call, as one would write it in a program."""
    return f"{call.name}({call.arguments})"


def _part(part: Part) -> str:
    match part:
        case TextPart(text=text):
            return text
        case ToolCall():
            return f"→ {call_in_words(part)}"
        case ReasoningPart(text=text):
            return f"(thinks: {text})" if text else "(thinks)"
        case RefusalPart(text=text):
            return f"(refuses: {text})"
        case ImagePart(media_type=media, url=url):
            return f"[{media}{_at(url)}]"
        case FilePart(name=name, media_type=media, url=url):
            return f"[{name or media}{_at(url)}]"
        case ProviderPart(provider=provider, raw=raw):
            if is_result(part):
                return ""
            act = act_in_words(raw) if is_of_program(provider) else ""
            return f"→ {act}" if act else f"[opaque part of {provider}]"


def _at(url: str) -> str:
    if url.startswith("data:"):
        return f" {len(url):,} characters"  # a picture as letters is nothing to read
    return f" {url}" if url else ""


def _control(control: Control | None) -> str:
    if control is None:
        return ""
    if words := words_of(control):
        return f"{'asks' if control.action == 'ask' else 'answered'}: {words}"
    target = control.call.entry if control.call else address(control.agent, control.task)
    return _joined(f"[{control.action}]", target)


def _covers(message: events.AssistantMessage) -> str:
    return f" {spans_in_words(message.covers)}" if message.covers else ""


def _to(who: str, to: Iterable[str]) -> str:
    named = ", ".join(to)
    return f"{who} → {named}" if named else who


def _joined(*pieces: str) -> str:
    return " ".join(piece for piece in pieces if piece)


def searchable_text(event: events.Event) -> str:
    """Return all words of the event, one piece a line; empty if its words are unknown."""
    match event:
        case events.UserMessage(parts=parts, control=control):
            pieces = [words_of(control), *_part_texts(parts)]
        case events.AssistantMessage(parts=parts) | events.ToolResult(parts=parts):
            pieces = _part_texts(parts)
        case events.LlmError(category=category, message=message, parts=parts):
            pieces = [category, message, *_part_texts(parts)]
        case events.ModeSwitch(title=title, handoff=handoff, active_run=run):
            pieces = [words for words in (title, handoff) if isinstance(words, str)]
            if isinstance(run, WorkflowRun):
                pieces += (run.directive, run.brief, run.context)
        case _:
            pieces = []
    return "\n".join(filter(None, pieces))


def agent_of(event: events.Event) -> str:
    """Return the agent whose words they are; empty where they are no agent's."""
    match event:
        case events.AssistantMessage(agent=agent) | events.LlmError(agent=agent):
            return agent
        case events.UserMessage(author=author, author_kind="agent"):
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


def was_retried(event: events.Event) -> bool:
    """Return whether an event is an error after which the same call is made again from the start.

    Its parts do not belong to the answer, except for what a program had done by itself. An answer that was
    refused is shown with the reason, so that the model does better.
    """
    if not isinstance(event, events.LlmError) or event.retry_at is None or is_refused(event):
        return False
    return not any(is_act(part) for part in event.parts)
