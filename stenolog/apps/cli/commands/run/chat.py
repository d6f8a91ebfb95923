"""Command `chat`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.adapters.providers.prices import prices_of
from stenolog.apps.chats.channels import CHANNELS
from stenolog.apps.cli.arguments.approver import takes_approver
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import open_log
from stenolog.apps.cli.arguments.options import SUMMARY_OVER, RegisteredName, names, takes_db
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult
from stenolog.apps.cli.terminal import PLAIN_FILE, say

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.adapters.engine.team.team import Team
    from stenolog.adapters.engine.upkeep.auto_context import AutoSummary
    from stenolog.adapters.models.base import Model
    from stenolog.domain.card import AgentCard
    from stenolog.domain.policy import Policy

NAME, AGENT = "chat", "assistant"
ALONE = ("model", "cli", "agent", "persona", "tools")
"""The options that describe a single agent."""


@command("chat", example="stenolog chat parser --model openai:gpt-5.2")
@click.argument("target", metavar="[CONVERSATION]", required=False, default="", shell_complete=names)
@click.option("--model", metavar="MODEL", help="Who answers. Default: $STENOLOG_MODEL.")
@click.option("--cli", metavar="COMMAND", help="A program that answers.")
@click.option("--team", type=PLAIN_FILE, help="A team, from its file.")
@click.option("--agent", metavar="NAME", help=f"Default: the only one, or {AGENT}.")
@click.option("--persona", metavar="TEXT", help="Who the agent is.")
@click.option("--tools", multiple=True, metavar="MODULE:NAME", help="A function to call; repeatable.")
@click.option("--to", metavar="NAME", multiple=True, help="Whom the messages are for; repeatable.")
@click.option("--prices", type=PLAIN_FILE, help="Your prices, TOML or JSON.")
@click.option(
    "--channel",
    metavar="NAME",
    type=RegisteredName(CHANNELS),
    help="Answer on telegram or nostr.",
)
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE", help="An option of the channel; repeatable."
)
@click.option("--summary-over", type=click.IntRange(1), metavar="TOKENS", help=SUMMARY_OVER)
@click.option("--yes", is_flag=True, help="Approve every call.")
@takes_approver
@takes_db
def chat_command(
    db: Database,
    target: str,
    team: Path | None,
    to: tuple[str, ...],
    prices: Path | None,
    yes: bool,
    summary_over: int | None,
    channel: str | None,
    options: tuple[str, ...],
    identity: str,
    sign: str | None,
    **alone: Any,
) -> CommandResult | None:
    """Talk with an agent, or with a team.

    \b
    In a pipe every line is a message.
    Models: openai:NAME, openai-responses:NAME, anthropic:NAME, gemini:NAME,
    http://HOST/v1#NAME, cli:COMMAND, acp:COMMAND, scripted:FILE
    """
    from stenolog.apps.cli.chat.run import open_session, summary_of
    from stenolog.apps.cli.chat.session import Chat, loop
    from stenolog.apps.cli.chat.status import Hints

    name, title, opened_team, summary = target or NAME, "", None, summary_of(summary_over)
    if team is not None:
        from stenolog.adapters.engine.team_file import load

        if given := [f"--{option}" for option in ALONE if alone[option]]:
            raise click.UsageError(f"the agents are those of --team: leave out {', '.join(given)}")
        described = load(team, summary=summary)
        name, title, opened_team = target or described.conversation, described.title, described.team
    llm = None if opened_team else _model(alone["model"], alone["cli"])
    table = prices_of(prices) if prices else None
    log = open_log(db, create=True)
    conversation = log[name]
    if opened_team is None:
        assert llm is not None, "somebody answers"
        opened_team, to = _single(conversation, llm, to, summary, **alone)
        if conversation.position and not target:
            say(f"{name} goes on; `stenolog chat NAME` begins another conversation", mark="·", style="cyan")
    if table is not None:
        opened_team.options = replace(opened_team.options, prices=table)
    if channel is not None:
        _serve(channel, opened_team, log, options)
        return None
    with open_session(conversation, opened_team, Hints(), yes=yes, cancels=True, leave=False) as at:
        at.entitle(title)
        loop(Chat(at, to))
        return at.outcome()


def _serve(channel: str, team: Team, log: Log, options: tuple[str, ...]) -> None:
    """Serve a channel until it ends or is interrupted. Options are read as JSON if possible."""
    import asyncio
    import json
    from contextlib import suppress

    from stenolog.adapters.models.model_names import create

    given: dict[str, object] = {}
    for option in options:
        key, is_there, written = option.partition("=")
        if not (key and is_there):
            raise click.UsageError(f"--option: expected KEY=VALUE, found {option!r}")
        given[key] = written
        with suppress(ValueError):
            given[key] = json.loads(written)

    async def serve() -> None:
        async with team:
            await create(CHANNELS[channel], team, log, options=given).serve()

    asyncio.run(serve())


def _model(model: str | None, cli: str | None) -> Model:
    import os

    from stenolog.adapters.models.model_names import model_from_string

    if model and cli:
        raise click.UsageError("--model or --cli: choose one")
    if cli:
        from stenolog.adapters.agents.output_formats import split_command

        command, form = split_command(cli)
        return model_from_string(f"cli:{command}", folder=Path.cwd(), format=form)
    written = model or os.environ.get("STENOLOG_MODEL")
    if not written:
        raise click.UsageError(
            "say who answers: --model openai:gpt-5.2 (or anthropic:…, gemini:…, http://…), --cli or --team"
        )
    return model_from_string(written, folder=Path.cwd())


def _policy(card: AgentCard, llm: Model) -> Policy | None:
    """Return the card's policy.

    `SinceLastTurn`, once the default of models that remember their session, stays only with those.
    """
    from stenolog.domain.policy import policy

    if not card.policy:
        return None
    kept = policy(card.policy)
    return replace(kept, chosen=None) if kept.history.delta and not llm.remembers else kept


def _single(
    conversation: Conversation,
    llm: Model,
    to: tuple[str, ...],
    summary: AutoSummary | None,
    *,
    agent: str | None,
    persona: str | None,
    tools: tuple[str, ...],
    **_: Any,
) -> tuple[Team, tuple[str, ...]]:
    """Return a team of one, and whom messages are for: only it, if absent agents take part.

    Its card's persona and policy stay, unless given.
    """
    from stenolog.adapters.engine.agent import Agent
    from stenolog.adapters.engine.team.team import Team
    from stenolog.adapters.engine.team_file.load import tools_of

    settings = conversation.settings()
    members = settings.members
    name = agent or (members[0] if len(members) == 1 else AGENT)
    card = settings.card_of(name)
    own = [one for written in tools for one in tools_of(written, Path.cwd(), {})]
    persona = card.persona if persona is None else persona
    one = Agent(name, llm, persona=persona, tools=own, policy=_policy(card, llm))
    others = [member for member in members if member != name]
    mode = "agent" if persona or own else "chat"
    return Team([one], mode=mode, summary=summary), to or ((name,) if others else ())
