"""The card of an agent: its configuration, with the policy that chooses its context."""

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from .base.model import Integer, Json, Many, frozen_value
from .errors import InvalidEventError
from .policy import policy
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


def with_patches(card: AgentCard, known: AgentCard | None) -> AgentCard:
    """Return a card with the fields that were patched on the known one."""
    if known is None or not known.patched:
        return card
    return replace(card, patched=known.patched, **{name: getattr(known, name) for name in known.patched})
