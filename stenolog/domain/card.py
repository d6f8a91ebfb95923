"""The card of an agent: its configuration, with the policy that chooses its context."""

from collections.abc import Collection
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from .base.model import Integer, Json, Many, frozen_value
from .errors import InvalidEventError
from .policy import Budget, Policy, policy
from .values import Tool


def from_shorthand(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields as they are stored. Raises `InvalidEventError` for tools of another type."""
    given = fields.get("tools")
    for nth, each in enumerate(given if isinstance(given, list | tuple) else ()):
        if not isinstance(each, Tool):
            raise InvalidEventError(
                f"AgentCard: /tools/{nth}: expected a Tool, found a {type(each).__name__}; "
                "conversation.join(name, tools=[…]) takes functions and dictionaries of OpenAI and Anthropic"
            )
    return with_policy(fields)


def with_policy(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with the policy as JSON."""
    if not fields.get("policy"):
        return fields
    return {**fields, "policy": policy(fields["policy"]).json}


@frozen_value
class AgentCard:
    """An agent's configuration: always a setting, never a message.

    `tools` None: not known; tools that it called get stubs. `parameters` are the provider's own (temperature,
    max_tokens …). `policy` chooses the context: a value of `stenolog.context`, stored as JSON.
    `context_limit` is the largest request, in tokens as its budget counts them, since a larger one was
    refused; 0: not known. `patched` are the fields that were set while the agent worked, such as "model"; a
    team that starts again leaves them as they are.
    """

    from_shorthand = staticmethod(from_shorthand)

    model: str = ""
    provider: str = ""
    persona: str = ""
    tools: Many[Tool] | None = None
    parameters: Json = field(default_factory=dict)
    if TYPE_CHECKING:
        policy: Any = {}
    else:
        policy: Json = field(default_factory=dict)
    context_limit: Integer = 0
    patched: Many[str] = ()


def with_patches(card: AgentCard, known: AgentCard | None, gone: Collection[str] = ()) -> AgentCard:
    """Return a card with the fields that were patched on the known one, except those in `gone`."""
    if known is None or not known.patched:
        return card
    kept = [name for name in known.patched if name not in gone]
    # The limit of one model says nothing of another.
    if "model" not in kept and (card.model, card.provider) != (known.model, known.provider):
        kept = [name for name in kept if name != "context_limit"]
    return replace(card, patched=kept, **{name: getattr(known, name) for name in kept})


def patched(card: AgentCard, own: AgentCard, **changes: Any) -> AgentCard:
    """Return a card with changed fields, marked as patched where they differ from the agent's own."""
    # Earlier marks stay: that of a model says that a session was another's (`triggers.ends_sessions`).
    fresh = (name for name, value in changes.items() if value != getattr(own, name))
    return replace(card, **changes, patched=[*dict.fromkeys((*card.patched, *fresh))])


def policy_of_card(card: AgentCard) -> Policy:
    """Return the policy of a card; one that cuts keeps requests within the known limit of the model."""
    chosen = policy(card.policy)
    if not card.context_limit or not may_cut(chosen):
        return chosen
    budget = chosen.budget or Budget(tokens=card.context_limit)
    tokens = min(card.context_limit, budget.tokens or card.context_limit)
    reserve = None if budget.reserve is None or budget.reserve >= tokens else budget.reserve
    return chosen | replace(budget, tokens=tokens, reserve=reserve)


def may_cut(chosen: Policy) -> bool:
    """Return whether a policy may leave out what is older; a backend that remembers is sent little anyway."""
    history = chosen.history
    return not history.delta and (chosen.budget is not None or history.window[0] is not None)
