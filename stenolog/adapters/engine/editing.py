"""Arguments that a person changes when approving a call, and how the call's model is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stenolog.adapters.log import Conversation
from stenolog.adapters.tools.base import ToolOutput
from stenolog.domain.effects import ref
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import UserMessage
from stenolog.domain.parts import ToolCall
from stenolog.domain.state import OpenCall, named_call
from stenolog.domain.values import CallRef, Control
from stenolog.projections.fitting import misfit

Arguments = Mapping[str, Any] | str
"""Arguments as an object, or as the JSON of one."""


def approval(conversation: Conversation, call: CallRef, arguments: Arguments | None = None) -> Control:
    """Return the approval of a call, with other arguments where some are given.

    Raises `InvalidEventError` where these are no JSON object, or do not fit the schema of the call's tool.
    """
    if arguments is None:
        return Control(action="approve", call=call)
    given = _object(arguments)
    if (found := named_call(conversation.state(), call)) is not None:
        lane, open_call = found
        tools = conversation.settings().card_of(lane.agent).tools or ()
        schema = next((dict(tool.parameters) for tool in tools if tool.name == open_call.name), {})
        if wrong := misfit(given, schema):
            raise InvalidEventError(f"arguments of {open_call.name}: {wrong}")
    return Control(action="approve", call=call, arguments=_json(given))


def as_approved(conversation: Conversation, made: ToolCall, call: OpenCall) -> ToolCall:
    """Return a call as it runs: with the arguments of its approval, where that has changed them."""
    if not call.edited:
        return made
    said = conversation.entry(call.approved).event
    assert isinstance(said, UserMessage), "approvals are messages"
    control = said.control
    assert control is not None, "approvals are controls"
    assert control.call == ref(call), "the approval names this call"
    return ToolCall(id=made.id, name=made.name, arguments=control.arguments)


def with_metadata(outcome: ToolOutput, ran: ToolCall, call: OpenCall) -> ToolOutput:
    """Return what came of a call; where its arguments were changed, it begins with what has run."""
    if not call.edited:
        return outcome
    note = f"[The user changed the arguments of this call. It ran with {ran.arguments}]"
    return outcome._replace(content=(note, *outcome.content))


def _object(arguments: Arguments) -> dict[str, Any]:
    try:
        given = json.loads(arguments if isinstance(arguments, str) else _json(arguments))
        _json(given)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidEventError(
            f"arguments: expected a JSON object: {error}, found {arguments!r:.100}"
        ) from None
    if not isinstance(given, dict):
        raise InvalidEventError(f"arguments: expected a JSON object, found {arguments!r:.100}")
    return given


def _json(given: Mapping[str, Any]) -> str:
    return json.dumps(given, ensure_ascii=False, allow_nan=False)
