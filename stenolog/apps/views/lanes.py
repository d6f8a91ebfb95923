"""The agent that a question is about, and its request under the named conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stenolog.adapters.conversation.queries.backwards import backwards
from stenolog.adapters.conversation.queries.requests.lanes import api_of, opening_of
from stenolog.adapters.conversation.queries.requests.rates import as_billed
from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.domain.card import policy_of_card
from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import AssistantMessage, ModeSwitch
from stenolog.domain.policy import Policy
from stenolog.projections.analysis.provider_bill import not_recorded, program_of
from stenolog.projections.requests import LaneId, Request, lanes
from stenolog.projections.requests.sendable import no_agent

from .envelope import Diagnostic

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation


def lane(written: str) -> LaneId:
    """Return the lane of an address: `agent` or `agent/task`."""
    agent, _, task = written.partition("/")
    return LaneId(agent, task)


def only_agent(conversation: Conversation, position: int) -> str:
    """Return the only agent, or the main agent of an imported session.

    Raises `InvalidEventError` if there is none, or several.
    """
    where = f"{conversation.name!r} at {position}"
    agents = [each.address for each in lanes(conversation.entries(at=position))]
    agents = agents or [each.address for each in lanes(conversation.entries())]  # it answers later
    if len(agents) == 1:
        return agents[0]
    if main := _main_agent(conversation):
        return main
    if not agents:
        raise InvalidEventError(
            f"{where}: no agent has answered yet, and none was asked by name. Say whose request you want: "
            "--agent NAME"
        )
    raise InvalidEventError(f"{where}: expected --agent, one of: {', '.join(agents)}")


def _main_agent(conversation: Conversation) -> str:
    opening = opening_of(conversation)
    if not isinstance(opening, ModeSwitch) or opening.source is None:
        return ""
    # The opening of a chat among several agents joins them all, under the scope "open".
    has_main = len(opening.joins) == 1 or (opening.joins and opening.scope == "addressed")
    return opening.joins[0] if has_main else ""


def slip(conversation: Conversation, address: str) -> tuple[Diagnostic, ...]:
    """Return a warning if the conversation has agents, and none of this name."""
    known = list(dict.fromkeys(each.agent for each in lanes(conversation.entries())))
    agent = lane(address).agent
    if not known or agent in known:
        return ()
    return (Diagnostic("warning", "unknown-agent", no_agent(agent, known), conversation.name),)


class Sender(NamedTuple):
    """The program that sent an agent's requests, empty for stenolog, and what the log has of them."""

    program: str
    has_prompt: bool
    has_tools: bool


def sender(conversation: Conversation, address: str) -> Sender:
    """Return who sent an agent's requests."""
    where = lane(address)
    card = conversation.settings().cards.get(where.agent)
    program = program_of(backwards(conversation, conversation.position), where)
    return Sender(program, bool(card and card.persona), bool(card and card.tools))


def lacking(conversation: Conversation, address: str) -> str:
    """Say what the log lacks of an agent's requests; empty if stenolog sent them."""
    program, has_prompt, has_tools = sender(conversation, address)
    return not_recorded(program, has_prompt=has_prompt, has_tools=has_tools)


def unrecorded(conversation: Conversation, address: str) -> tuple[Diagnostic, ...]:
    """Return a note if another program sent the agent's requests, so that they are rebuilt."""
    words = lacking(conversation, address)
    return (Diagnostic("note", "rebuilt", words, conversation.name),) if words else ()


def request_of(
    conversation: Conversation, address: str, position: int, api: str | None, policy: Policy | None = None
) -> Request:
    """Return the request of a lane, written as agent or agent/task, with its tokens as billed."""
    agent, task = lane(address)
    _check_has_requests(conversation, agent)
    chosen = api or own_api(conversation, address)
    return as_billed(conversation, conversation.request(agent, position, chosen, task=task, policy=policy))


def _check_has_requests(conversation: Conversation, agent: str) -> None:
    settings = conversation.settings()
    if agent in settings.members or agent in settings.cards:
        return
    answers = (entry.event for entry in conversation.entries() if isinstance(entry.event, AssistantMessage))
    in_context = (answer.in_context for answer in answers if answer.agent == agent)
    # Mostly the first answer tells.
    if not next(in_context, True) and not any(in_context):
        raise InvalidEventError(
            f"{conversation.name!r}: {agent} has no request: its messages are for the timeline alone, as "
            "those of a subgraph with a message list of its own are"
        )


def own_api(conversation: Conversation, address: str) -> str:
    """Return the API of the agent's answers."""
    return api_of(conversation, lane(address))


def means(conversation: Conversation) -> dict[str, Any]:
    """Return the external inputs to this conversation's requests: its blobs, and every counter."""
    return {"blobs": conversation.log.blobs, "counters": COUNTERS}


def on_card(conversation: Conversation, address: str, position: int) -> Policy:
    """Return the policy on the agent's card at a position."""
    return policy_of_card(conversation.settings(at=position).card_of(lane(address).agent))
