"""Hand-offs: tools by which an agent gives the turn to another one.

    triage = Agent("triage", llm=…, handoffs=["billing", Handoff("sales", payload=Lead, filter="last:4")])

The call, its result and what the other is told are entries. The result, the message and a change of the
other's policy are appended together, so that a crash never leaves one without the rest.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

from pydantic import BaseModel, Field, ValidationError, create_model

from stenolog.adapters.conversation.log import Conversation
from stenolog.adapters.tool_specs.signatures import checked_name, complaint, model_schema
from stenolog.adapters.tools.base import BaseTool, ToolContext, ToolOutput
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import CallerError, InvalidEventError, ToolError
from stenolog.domain.events import AssistantMessage, Event, ModeSwitch, ToolResult, UserMessage
from stenolog.domain.lanes.handoffs import message_mark, result_mark, taking_over
from stenolog.domain.policy import PolicyLike, policy
from stenolog.domain.policy_text import policy_of
from stenolog.domain.values import Tool


class Other(Protocol):
    """Agent that may be handed to."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def card_with_policy(self, card: AgentCard, filter: PolicyLike) -> AgentCard:
        """Return its card with another policy; None: with its own."""
        ...


@dataclass(frozen=True)
class Handoff:
    """Agent that another one may hand on to, by a tool of that `name`; default: `transfer_to_<agent>`.

    `description` tells the model when to. `payload` is a pydantic model of what the other is given; None: a
    message in words. `filter` chooses the context that the other is shown, until it is handed to without one:
    a value of `stenolog.context` or a short form such as "last:4". `approval`: a person approves each one.
    """

    agent: Other | str
    description: str = ""
    payload: type[BaseModel] | None = None
    filter: PolicyLike | str = None
    name: str = ""
    approval: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.to, str) or not self.to:
            raise CallerError(f"handoffs: expected an agent, or its name, found {self.agent!r:.100}")
        # The dataclass is frozen.
        name = self.name or f"transfer_to_{re.sub(r'[^A-Za-z0-9_-]', '_', self.to)}"[:64]
        object.__setattr__(self, "name", checked_name(name))
        if isinstance(self.filter, str):
            object.__setattr__(self, "filter", policy_of(self.filter, f"handoff to {self.to!r}"))
        payload = self.payload
        if not (payload is None or (isinstance(payload, type) and issubclass(payload, BaseModel))):
            raise CallerError(
                f"handoff to {self.to!r}: payload: expected a pydantic model, found {payload!r:.100}"
            )

    @property
    def to(self) -> str:
        """The name of the agent."""
        return self.agent if isinstance(self.agent, str) else getattr(self.agent, "name", "")


class NotHandedOnError(InvalidEventError, ToolError):
    """A hand-off that the conversation does not allow; its call ends with this error."""


@cache
def _message_model() -> type[BaseModel]:
    """Return the model of what an agent is told by a hand-off without a payload of its own."""
    # Not at import: the first class of pydantic's loads all that may extend it.
    message = Field("", description="What the other needs to know, and is to do.")
    return create_model("Words", message=(str, message))


class HandoffTool(BaseTool):
    """Hand-off as a tool; `names` are those of all hand-offs of its agent."""

    repeat = "safe"

    def __init__(self, handoff: Handoff, names: Collection[str]) -> None:
        self._handoff = handoff
        self.to = handoff.to
        self._names = names
        self._model = handoff.payload or _message_model()
        self._others: Mapping[str, Other] = {}
        self._is_alone = False
        self.spec = Tool(
            name=handoff.name,
            description=handoff.description or f"Hand on to {handoff.to}, who then answers in your place.",
            parameters=model_schema(self._model, handoff.name),
            approval=handoff.approval,
            ends_run=True,
        )

    def among(self, others: Mapping[str, Other], *, is_alone: bool) -> HandoffTool:
        """Return the tool for a team of others; `is_alone`: one lane only is at work, as in a fork."""
        bound = copy(self)
        bound._others, bound._is_alone = others, is_alone
        return bound

    async def run(self, call: ToolContext) -> ToolOutput:
        """Check the payload. Raises `ToolError` if it does not fit."""
        self._text_for_other(call)
        return ToolOutput((f"Handed on to {self.to}.",), meta=result_mark(self.to))

    def following(self, result: ToolResult, call: ToolContext) -> Iterator[Event]:
        """Yield the change of the other's policy, if any, and the message to it.

        Raises `NotHandedOnError`.
        """
        if not taking_over(result):
            return
        assert call.conversation is not None, "the engine gives the conversation"
        assert result.call is not None, "and the call"
        conversation, to, nth = call.conversation, self.to, result.call.index
        self._check(conversation, call, nth)
        card = conversation.settings().card_of(to)
        shown = self._card_of_other(card, conversation)
        if shown != card:
            yield ModeSwitch(cards={to: shown}, meta=message_mark(nth))
        yield handoff_message(call.lane, to, self._text_for_other(call), call.position, nth)

    def _text_for_other(self, call: ToolContext) -> str:
        """Return the words for the other: the payload as JSON. Raises `ToolError` if it does not fit."""
        text = call.arguments if call.arguments.strip() else "{}"
        try:
            given = self._model.model_validate_json(text)
        except ValidationError as error:
            words = complaint(error, text, "the arguments", [*self._model.model_fields])
            raise ToolError(f"{self.spec.name}: {words}") from None
        if self._handoff.payload is not None:
            return given.model_dump_json(by_alias=True)
        return str(getattr(given, "message", "")).strip()

    def _check(self, conversation: Conversation, call: ToolContext, nth: int) -> None:
        """Raise `NotHandedOnError` if the conversation does not allow it now."""
        to, caller = self.to, call.lane.partition("/")[0]
        if self._is_alone:
            raise NotHandedOnError(f"{to} is not at work here: answer yourself")
        made = conversation.entry(call.position).event
        earlier = made.tool_calls[:nth] if isinstance(made, AssistantMessage) else ()
        if any(each.name in self._names for each in earlier):
            raise NotHandedOnError("only the first hand-off of an answer counts; this one was not made")
        if wrong := absent(conversation, caller, to):
            raise NotHandedOnError(wrong)

    def _card_of_other(self, card: AgentCard, conversation: Conversation) -> AgentCard:
        """Return the other's card with the policy of this hand-off, else with its own."""
        to, chosen = self.to, self._handoff.filter
        if chosen is None and "policy" not in card.patched:
            return card
        assert not isinstance(chosen, str), "see `Handoff`"
        if (other := self._others.get(to)) is not None:
            return other.card_with_policy(card, chosen)
        rest = [name for name in card.patched if name != "policy"]
        if chosen is not None:
            return replace(card, policy=policy(chosen).json, patched=[*rest, "policy"])
        return replace(card, policy=_recorded_policy(conversation, to), patched=rest)


def as_handoffs(given: Iterable[Other | str | Handoff], caller: str) -> tuple[Handoff, ...]:
    """Return an agent's hand-offs. Raises `CallerError` for one to itself."""
    handoffs = tuple(each if isinstance(each, Handoff) else Handoff(each) for each in given)
    if any(each.to == caller for each in handoffs):
        raise CallerError(f"agent {caller!r}: handoffs: expected other agents, found itself")
    return handoffs


def as_tools(handoffs: Sequence[Handoff]) -> list[HandoffTool]:
    """Return the tools of an agent's hand-offs."""
    names = [each.name for each in handoffs]
    return [HandoffTool(each, names) for each in handoffs]


def handoff_message(caller: str, to: str, text: str, position: int, nth: int) -> UserMessage:
    """Return the message by which a lane hands on, of the call of that index in the answer at a position."""
    return UserMessage(
        text=text or f"{caller} has handed on to you. Go on from here.",
        author=caller,
        author_kind="agent",
        to=[to],
        cause=position,
        meta=message_mark(nth),
    )


def absent(conversation: Conversation, caller: str, to: str) -> str:
    """Return why an agent cannot be handed to; "" if it takes part."""
    state, cards = conversation.state(), conversation.settings().cards
    others = [name for name in state.members or cards if state.is_open(name) and name != caller]
    if to in others:
        return ""
    has_left = to in state.lanes and not state.is_open(to)
    why = "has left" if has_left else "takes no part in this conversation"
    return f"{to} {why}; you may hand on to {', '.join(others) or 'nobody'}"


def _recorded_policy(conversation: Conversation, agent: str) -> PolicyLike:
    """Return an agent's policy before it was changed at work; another process runs the agent."""
    found: PolicyLike = {}
    for entry in conversation.entries():
        if isinstance(entry.event, ModeSwitch) and (card := entry.event.cards.get(agent)):
            found = found if "policy" in card.patched else card.policy
    return found
