"""Rendering of entries for people in a chat: answers in full, other entries as short notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.parts import RefusalPart
from stenolog.domain.settings import Settings
from stenolog.domain.state import address
from stenolog.domain.turn_taking import is_pass
from stenolog.domain.values import CallRef, TurnPolicy
from stenolog.projections.showing import call_code, shown_call

from .base import Question, Render
from .splitting import LIMIT, Weigh, in_block, split, utf16_length

NO_NAMES: Mapping[str, str] = MappingProxyType({})
WHY = {
    "timeout": "the model took too long",
    "network": "the model could not be reached",
    "rate_limited": "too much was asked of the model",
    "overloaded": "the model is overloaded",
    "context_length": "the conversation has grown too long, /reset begins anew",
    "refused": "the model declined",
    "process_exited": "it was interrupted",
    "unauthorized": "the model does not know this program",
    "budget": "a limit was reached",
}


def speaker_of(entry: Entry) -> str:
    """The lane whose entry it is; empty for what no agent has said."""
    event = entry.event
    return address(event.agent, event.task) if isinstance(event, AssistantMessage | LlmError) else ""


def name_of(lane: str, names: Mapping[str, str]) -> str:
    """The display name of a lane: its own, else its agent's, else the lane itself."""
    return names.get(lane) or names.get(lane.partition("/")[0]) or lane


def render_entry(
    names: Mapping[str, str] = NO_NAMES, *, heading: str = "", limit: int = LIMIT, weigh: Weigh = utf16_length
) -> Render:
    """A rendering in pieces that weigh at most `limit`. `names` are display names by agent or lane.

    `heading`, such as `"{name}: "`, stands before an answer. Each call that a person has to approve is asked
    about in pieces of its own.
    """

    def render(entry: Entry, settings: Settings) -> list[str | Question]:
        speaker = name_of(speaker_of(entry), names)
        words = in_words(entry, settings, speaker)
        if words and isinstance(entry.event, AssistantMessage):
            words = heading.replace("{name}", speaker) + words
        made: list[str | Question] = [*split(words, limit, weigh)]
        for code, question in _questions(entry, settings, speaker):
            *first, last = split(question, limit, weigh)
            made += [*(Question(text, code, is_last=False) for text in first), Question(last, code)]
        return made

    return render


def in_words(entry: Entry, settings: Settings, speaker: str) -> str:
    """Return the Markdown that people outside see of an entry; empty if they see nothing of it.

    Answers, but for those that only pass the turn on; errors after which nothing is tried again.
    """
    match entry.event:
        case AssistantMessage(purpose="answer", in_context=True) as said:
            return "" if _passes(said, settings.turns) else "\n\n".join(_answer_texts(said))
        case LlmError(retry_at=None, in_context=True) as error if error.category != "cancelled":
            why = WHY.get(error.category, "something went wrong")
            return f"({speaker} could not answer: {why}. /continue goes on.)"
        case _:
            return ""


def _passes(said: AssistantMessage, turns: TurnPolicy | None) -> bool:
    token = turns.options.get("pass_token") if turns is not None else None
    return isinstance(token, str) and bool(token) and is_pass(said, token)


def _answer_texts(said: AssistantMessage) -> Iterator[str]:
    """Yield the text of an answer, then its refusals."""
    yield from filter(
        str.strip, (said.text, *(part.text for part in said.parts if isinstance(part, RefusalPart)))
    )


def _questions(entry: Entry, settings: Settings, speaker: str) -> Iterator[tuple[str, str]]:
    """Yield the code and the question of each call that waits for a person."""
    said = entry.event
    if not isinstance(said, AssistantMessage) or said.purpose != "answer":
        return
    tools = settings.card_of(said.agent).tools or ()
    asks = {tool.name for tool in tools if tool.approval}
    for nth, call in enumerate(said.tool_calls):
        if call.name in asks:
            code = call_code(CallRef(entry=entry.id, index=nth), call.name, call.arguments)
            yield code, question(speaker, code, call.name, call.arguments)


def question(speaker: str, code: str, name: str, arguments: str) -> str:
    """Return the question whether a call may run, in Markdown, with all of the call in it."""
    shown = in_block(shown_call(name, arguments))
    return f"{speaker} asks to run\n{shown}\n/approve {code} lets it, /refuse {code} does not."
