"""Options for an agent and its request."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from stenolog.adapters.conversation.queries import folds
from stenolog.apps.cli.lines import Diagnostic
from stenolog.apps.cli.terminal import say
from stenolog.apps.views.lanes import lane, only_agent
from stenolog.domain.errors import AgentNotFoundError
from stenolog.projections.formats import FORMATS
from stenolog.projections.requests import Request
from stenolog.projections.requests.sendable import no_agent

from .options import RegisteredName

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

F = TypeVar("F", bound=Callable[..., Any])
AGENT = "agent, or agent/task"


def takes_agent_else(otherwise: str) -> Callable[[F], F]:
    """Add the option `--agent`: `agent`, `agent/task`, or None."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def called(agent: str | None, **given: Any) -> Any:
            return function(agent=address(agent, "--agent"), **given)

        return cast("F", click.option("--agent", metavar="NAME", help=f"The {AGENT}; {otherwise}.")(called))

    return decorate


takes_agent = takes_agent_else("required if several")


def takes_api(function: F) -> F:
    """Add the option `--api`."""
    of_their_own = "Default: the API of the agent's last answer."
    return click.option("--api", type=RegisteredName(FORMATS), metavar="API", help=of_their_own)(function)


takes_apis = click.option(
    "--api",
    "apis",
    metavar="API",
    multiple=True,
    type=RegisteredName(FORMATS),
    help="A provider. Default: all.",
)


def takes_conditions(function: F) -> F:
    """Add the options `--api` and `--policy`."""
    written = click.option("--policy", metavar="POLICY", help="Such as last:50+tokens:16k. Default: its own.")
    return takes_api(written(function))


def address(written: str | None, option: str) -> str | None:
    """Return the address that an option gives. Raises `UsageError` for an empty name."""
    if written is not None and not all(written.split("/", 1)):
        raise click.UsageError(f"{option}: expected an {AGENT}, found an empty name")
    return written


def known_agent(conversation: Conversation, written: str) -> str:
    """Return the address if the conversation has such an agent, or none yet.

    Raises `AgentNotFoundError`.
    """
    named = lane(written).agent
    settings, state = folds.folds_at(conversation, (folds.SETTINGS, folds.STATE))
    working = (each.agent for each in state.lanes.values())
    known = [*dict.fromkeys([*settings.members, *settings.cards, *working])]
    if known and named not in known:
        raise AgentNotFoundError(f"{conversation.name!r}: {no_agent(named, known)}")
    return written


def agent_or_only(conversation: Conversation, written: str | None, position: int) -> str:
    """Return the named agent, or else the only or main one.

    Raises `AgentNotFoundError` for an unknown one, `InvalidEventError` for none or several.
    """
    return known_agent(conversation, written) if written else only_agent(conversation, position)


def say_on_stderr(notes: Iterable[Diagnostic]) -> None:
    """Print notes beside an output that must stay exact."""
    for note in notes:
        say(note.message, mark="!", style="yellow")


def print_raw(request: Request) -> None:
    """Print the exact bytes of the body; at a terminal its JSON, made safe."""
    from stenolog.projections.terminal_text import safe_json

    if sys.stdout.isatty():
        click.echo(safe_json(request.body))
    else:
        click.echo(request.bytes, nl=False)
