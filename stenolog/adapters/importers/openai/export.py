"""A conversation as OpenAI chat messages, from one agent's view.

Unlike a request, nothing is quoted, shortened or added. Imported and exported again, the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stenolog.domain import events
from stenolog.domain.entry import Entry
from stenolog.domain.errors import AgentNotFoundError
from stenolog.domain.policy import Policy
from stenolog.projections.formats.openai_chat.content import (
    openai_answer_message,
    openai_content,
    result_message,
)
from stenolog.projections.formats.openai_chat.read import KNOWN
from stenolog.projections.formats.reading import SYSTEM_ROLES
from stenolog.projections.messages.json_fields import as_dict
from stenolog.projections.messages.quoting import quote
from stenolog.projections.requests import LaneId, lanes
from stenolog.projections.requests.incremental.series import window
from stenolog.projections.requests.pipeline.attribution import as_text
from stenolog.projections.requests.sendable import no_agent
from stenolog.projections.views.tool_pairs import Call, Pair

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

Message = dict[str, Any]
Blobs = Mapping[str, bytes]


def export_openai(conversation: Conversation, agent: str) -> list[Message]:
    """Return an agent's messages, oldest first, beginning with its persona.

    Raises `AgentNotFoundError`, and `BlobNotFoundError` for a missing picture.
    """
    return messages(list(conversation.entries()), agent, conversation.log.blobs)


def messages(log: Sequence[Entry], agent: str, blobs: Blobs) -> list[Message]:
    """Return the entries' messages; `blobs` maps sha256 to bytes."""
    known = {lane.agent for lane in lanes(log)}
    if agent not in known:
        raise AgentNotFoundError(no_agent(agent, sorted(known)))
    lane = LaneId(agent)
    seen = window(lane, Policy(), log)
    card = seen.settings.cards.get(agent)
    said: list[Message | None] = [
        {"role": _persona_role(log, agent), "content": card.persona} if card and card.persona else None
    ]
    pairs = seen.pairing.pairs
    said += (_message(e.event, lane, pairs.get(e.position), blobs) for e in seen.contents().entries)
    return [message for message in said if message is not None]


def _message(event: events.Event, lane: LaneId, pair: Pair | None, blobs: Blobs) -> Message | None:
    match event:
        case events.UserMessage() as message:
            return _user(message, blobs)
        case events.AssistantMessage(purpose="summary") | events.AssistantMessage(covers=(_, *_)):
            return {"role": "user", "content": event.text}
        case events.AssistantMessage() as message if lane.owns(message):
            return openai_answer_message(message, blobs) | _imported_fields(message, "assistant")
        case events.AssistantMessage(agent=agent) | events.LlmError(agent=agent) if not lane.owns(event):
            return {"role": "user", "content": as_text(event.parts), "name": agent}
        case events.ToolResult() as result:
            return _result(result, lane, pair.call if pair else None, blobs)
        case events.LlmError(parts=parts) if partial := as_text(parts):
            return {"role": "assistant", "content": partial}
        case _:
            return None


def _persona_role(log: Sequence[Entry], agent: str) -> str:
    dealt = [e.event for e in log if isinstance(e.event, events.ModeSwitch) and e.event.cards.get(agent)]
    return _system_role(dealt[-1]) if dealt else "system"


def _system_role(event: events.Known) -> str:
    role = event.source.role if event.source is not None else ""
    return role if role in SYSTEM_ROLES else "system"


def _user(message: events.UserMessage, blobs: Blobs) -> Message:
    role = _system_role(message) if message.author_kind == "system" else "user"
    named = {"name": message.author} if message.author else {}
    return {
        "role": role,
        "content": openai_content(message.parts, blobs),
        **named,
        **_imported_fields(message, "user"),
    }


def _result(result: events.ToolResult, lane: LaneId, owner: Call | None, blobs: Blobs) -> Message:
    if owner is not None and not lane.owns(owner):
        text = quote("tool-result", as_text(result.parts), call=result.call_id, tool=result.name)
        return {"role": "user", "content": text, "name": owner.agent}
    return result_message(result, blobs) | _imported_fields(result, "tool")


def _imported_fields(event: events.Known, role: str) -> Message:
    return {
        name: value for name, value in as_dict(event.meta.get("openai")).items() if name not in KNOWN[role]
    }
