"""The agent that a command is about, and its request: options, and the request as data."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from stenolog.domain.errors import InvalidEventError
from stenolog.domain.events import AssistantMessage, ModeSwitch
from stenolog.domain.policy import Policy
from stenolog.projections.analysis.provider_bill import not_recorded, program_of, usual_api
from stenolog.projections.requests import APIS, LaneId, Request, lanes

from .lines import Diagnostic
from .options import RegisteredName
from .position_argument import backwards
from .terminal import say

if TYPE_CHECKING:
    from stenolog.adapters.log import Conversation

F = TypeVar("F", bound=Callable[..., Any])
AGENT = "agent, or agent/task"


def takes_agent_else(otherwise: str) -> Callable[[F], F]:
    """Add the option `--agent`: `agent` or `agent/task`, or None."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(agent: str | None, **given: Any) -> Any:
            return function(agent=address(agent, "--agent"), **given)

        return cast("F", click.option("--agent", metavar="NAME", help=f"The {AGENT}; {otherwise}.")(called))

    return decorate


takes_agent = takes_agent_else("else the only or main one")


def takes_api(function: F) -> F:
    """Add the option `--api`."""
    of_their_own = "The provider's API; else that of the agent's answers."
    return click.option("--api", type=RegisteredName(APIS), metavar="API", help=of_their_own)(function)


def takes_conditions(function: F) -> F:
    """Add the options `--api` and `--policy`: the conditions under which requests are built."""
    written = click.option(
        "--policy", metavar="POLICY", help="Such as last:50+tokens:16k, or JSON; else its own."
    )
    return takes_api(written(function))


def address(written: str | None, option: str) -> str | None:
    """Return the address that an option gives. Raises `UsageError` for an empty name in it."""
    if written is not None and not all(written.split("/", 1)):
        raise click.UsageError(f"{option}: expected an {AGENT}, found an empty name")
    return written


def lane(written: str) -> LaneId:
    """Return the lane of an address: `agent` or `agent/task`."""
    agent, _, task = written.partition("/")
    return LaneId(agent, task)


def only_agent(conversation: Conversation, position: int) -> str:
    """Return the one agent there is, or the main agent of a session that was imported.

    Raises `InvalidEventError` where there are none or several.
    """
    where = f"{conversation.name!r} at {position}"
    there = [each.address for each in lanes(conversation.entries(at=position))]
    there = there or [each.address for each in lanes(conversation.entries())]  # it answers later
    if len(there) == 1:
        return there[0]
    if main := _main_agent(conversation):
        return main
    if not there:
        raise InvalidEventError(
            f"{where}: no agent has answered yet, and none was asked by name. Say whose request you want: "
            "--agent NAME"
        )
    raise InvalidEventError(f"{where}: expected --agent, one of: {', '.join(there)}")


def _main_agent(conversation: Conversation) -> str:
    """Return the agent that an imported session begins with; empty where it does not begin with one."""
    opening = next((entry.event for entry in conversation.entries(at=min(1, conversation.position))), None)
    if not isinstance(opening, ModeSwitch) or opening.source is None:
        return ""
    # The opening of a chat among several agents joins them all, under the scope "open".
    has_main = len(opening.joins) == 1 or (opening.joins and opening.scope == "addressed")
    return opening.joins[0] if has_main else ""


def slip(conversation: Conversation, address: str) -> tuple[Diagnostic, ...]:
    """Return a warning if nobody in the whole conversation has the agent's name, and somebody has another."""
    known = list(dict.fromkeys(each.agent for each in lanes(conversation.entries())))
    agent = lane(address).agent
    if not known or agent in known:
        return ()
    words = f"nobody here is called {agent}; there is {', '.join(known)}"
    return (Diagnostic("warning", "unknown-agent", words, conversation.name),)


def lacking(conversation: Conversation, address: str) -> str:
    """Say what the log does not have of an agent's requests; empty where stenolog sent them."""
    where = lane(address)
    card = conversation.settings().cards.get(where.agent)
    program = program_of(backwards(conversation, conversation.position), where)
    return not_recorded(program, has_prompt=bool(card and card.persona), has_tools=bool(card and card.tools))


def unrecorded(conversation: Conversation, address: str) -> tuple[Diagnostic, ...]:
    """Return a note if the agent's answers came from another program, so that its requests are rebuilt."""
    words = lacking(conversation, address)
    return (Diagnostic("note", "rebuilt", words, conversation.name),) if words else ()


def say_on_stderr(notes: Iterable[Diagnostic]) -> None:
    """Print what is said beside an output that has to stay as it is."""
    for note in notes:
        say(note.message, mark="!", style="yellow")


def request_of(
    conversation: Conversation, address: str, position: int, api: str | None, policy: Policy | None = None
) -> Request:
    """Return the request of a lane, written as agent or agent/task."""
    agent, task = lane(address)
    _check_has_requests(conversation, agent)
    chosen = api or own_api(conversation, address)
    return conversation.request(agent, position, chosen, task=task, policy=policy)


def _check_has_requests(conversation: Conversation, agent: str) -> None:
    """Raise `InvalidEventError` for an agent whose answers are all for the timeline alone."""
    settings = conversation.settings()
    if agent in settings.members or agent in settings.cards:
        return
    said = (entry.event for entry in conversation.entries() if isinstance(entry.event, AssistantMessage))
    answers = [answer for answer in said if answer.agent == agent]
    if answers and not any(answer.in_context for answer in answers):
        raise InvalidEventError(
            f"{conversation.name!r}: {agent} has no request: its messages are for the timeline alone, as "
            "those of a subgraph with a message list of its own are"
        )


def own_api(conversation: Conversation, address: str) -> str:
    """Return the API that the agent's answers came by, wherever they stand in the log."""
    return usual_api(backwards(conversation, conversation.position), lane(address))


def request_data(request: Request) -> dict[str, Any]:
    """Return a request as JSON: the body, its digest, and the explanation."""
    fields = ("agent", "task", "at", "api", "sendable", "reason", "sha256", "pipeline", "counter", "cuts")
    shown = {name: getattr(request, name) for name in fields}
    shown |= {"policy": request.policy.json, "size": request.size._asdict()}
    return {**shown, "parts": request.parts, "omissions": request.omissions, "body": request.body}


def request_reference(request: Request) -> dict[str, Any]:
    """Return the fields that identify a request."""
    fields = ("agent", "task", "at", "api", "sendable", "reason", "sha256")
    return {**{name: getattr(request, name) for name in fields}, "policy": request.policy.json}


def print_raw(request: Request) -> None:
    """Print the exact bytes of the body into a pipe; on a terminal, the same JSON made safe for it."""
    from stenolog.projections.terminal_text import safe_json

    if sys.stdout.isatty():
        click.echo(safe_json(request.body))
    else:
        click.echo(request.bytes, nl=False)


def means(conversation: Conversation) -> dict[str, Any]:
    """Return the external inputs to this conversation's requests: its blobs, and every counter."""
    from stenolog.adapters.queries.token_counters import COUNTERS

    return {"blobs": conversation.log.blobs, "counters": COUNTERS}
