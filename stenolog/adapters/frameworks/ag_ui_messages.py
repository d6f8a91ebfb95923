"""The messages that events of AG-UI come to, as the protocol's own clients put them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ag_ui.core import events as ag
from ag_ui.core import types

from .context import InContext

SAYS: dict[str, Any] = {
    "assistant": types.AssistantMessage,
    "user": types.UserMessage,
    "system": types.SystemMessage,
}


def messages(told: Iterable[ag.BaseEvent]) -> list[types.Message]:
    """The messages, in the order in which they began; a result stands behind the message with its call."""
    made: list[Any] = []
    by_id: dict[str, Any] = {}
    calls: dict[str, tuple[types.ToolCall, Any]] = {}

    def begin(message: Any) -> None:
        made.append(message)
        by_id[message.id] = message

    for event in told:
        match event:
            case ag.TextMessageStartEvent(message_id=id, role=role, name=name):
                begin(SAYS[role or "assistant"](id=id, content="", name=name))
            case ag.ReasoningMessageStartEvent(message_id=id):
                begin(types.ReasoningMessage(id=id, content=""))
            case ag.TextMessageContentEvent() | ag.ReasoningMessageContentEvent():
                by_id[event.message_id].content += event.delta
            case ag.ToolCallStartEvent(tool_call_id=id, tool_call_name=name, parent_message_id=parent):
                if parent not in by_id:
                    begin(types.AssistantMessage(id=parent or id))
                caller = by_id[parent or id]
                function = types.FunctionCall(name=name, arguments="")
                call = types.ToolCall(id=id, type="function", function=function)
                caller.tool_calls = [*(caller.tool_calls or ()), call]
                calls[id] = call, caller
            case ag.ToolCallArgsEvent(tool_call_id=id, delta=more):
                calls[id][0].function.arguments += more
            case ag.ToolCallResultEvent(message_id=id, tool_call_id=call_id, content=content):
                result = types.ToolMessage(id=id, tool_call_id=call_id, content=content)
                made.insert(_insert_position(made, calls.get(call_id)), result)
            case _:
                pass
    return made


def in_context(
    made: Sequence[types.Message], places: Mapping[str, int], now: InContext
) -> list[types.Message]:
    """Those whose entries are in context, an edit in its place; a result stays behind its call's message."""
    order = {entry.position: nth for nth, entry in enumerate(now.entries)}
    callers = {call.id: message.id for message in made for call in getattr(message, "tool_calls", None) or ()}

    def position_of(message: types.Message) -> int | None:
        own = order.get(places.get(message.id, 0))
        if not isinstance(message, types.ToolMessage) or message.tool_call_id not in callers:
            return own
        return None if own is None else order.get(places.get(callers[message.tool_call_id], 0))

    placed = [(nth, message) for message in made if (nth := position_of(message)) is not None]
    return [message for _, message in sorted(placed, key=lambda pair: pair[0])]


def _insert_position(made: list[Any], called: tuple[types.ToolCall, Any] | None) -> int:
    """Return a result's index: after the message with its call, and the results that follow it."""
    if called is None:
        return len(made)
    place = next(nth for nth, message in enumerate(made) if message is called[1]) + 1
    while place < len(made) and isinstance(made[place], types.ToolMessage):
        place += 1
    return place
