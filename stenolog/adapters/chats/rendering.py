"""What an entry says to people outside: answers as they are, the rest in a short note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.domain.floor import is_pass
from stenolog.domain.parts import Refusal
from stenolog.domain.settings import Settings
from stenolog.domain.state import address
from stenolog.domain.values import Turns
from stenolog.projections.words import call_in_words

from .port import Render
from .splitting import LIMIT, Weigh, in_block, split, units

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


def pieces(
    names: Mapping[str, str] = NO_NAMES, *, heading: str = "", limit: int = LIMIT, weigh: Weigh = units
) -> Render:
    """A rendering in pieces that weigh at most `limit`. `names` are display names by agent or lane.

    `heading`, such as `"{name}: "`, stands before an answer.
    """

    def render(entry: Entry, settings: Settings) -> list[str]:
        speaker = name_of(speaker_of(entry), names)
        words = in_words(entry, settings, speaker)
        if words and isinstance(entry.event, AssistantMessage):
            words = heading.replace("{name}", speaker) + words
        return split(words, limit, weigh)

    return render


def in_words(entry: Entry, settings: Settings, speaker: str) -> str:
    """What an entry says outside, in Markdown; empty where it says nothing there.

    Answers, but for those that only pass the turn on; the calls that a person has to approve; errors after
    which nothing is tried again.
    """
    match entry.event:
        case AssistantMessage(purpose="answer", in_context=True) as said:
            return "" if _passes(said, settings.turns) else "\n\n".join(_said(said, settings, speaker))
        case LlmError(retry_at=None, in_context=True) as error if error.category != "cancelled":
            why = WHY.get(error.category, "something went wrong")
            return f"({speaker} could not answer: {why}. /continue goes on.)"
        case _:
            return ""


def _passes(said: AssistantMessage, turns: Turns | None) -> bool:
    token = turns.options.get("pass_token") if turns is not None else None
    return isinstance(token, str) and bool(token) and is_pass(said, token)


def _said(said: AssistantMessage, settings: Settings, speaker: str) -> Iterator[str]:
    """What was said, what was declined, and the calls that wait for a person, with the way to decide."""
    yield from filter(
        str.strip, (said.text, *(part.text for part in said.parts if isinstance(part, Refusal)))
    )
    tools = settings.card_of(said.agent).tools or ()
    asks = {tool.name for tool in tools if tool.approval}
    calls = [call_in_words(call) for call in said.tool_calls if call.name in asks]
    if calls:
        blocks = "\n".join(map(in_block, calls))
        yield f"{speaker} asks to run\n{blocks}\n/approve lets it, /refuse does not."
