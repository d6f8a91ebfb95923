"""Command `retry`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stenolog.apps.cli.arguments.agent import takes_agent_else
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, open_log
from stenolog.apps.cli.arguments.options import names, takes_db, takes_format
from stenolog.apps.cli.draw.skipped_conversations import refusal
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic
from stenolog.apps.cli.terminal import FILE, PLAIN_FILE, STDOUT, progress
from stenolog.domain.card import AgentCard
from stenolog.domain.errors import StenologError
from stenolog.domain.policy_text import policy_of

from ._asking import AskOptions, ask_panel, takes_asking

if TYPE_CHECKING:
    from stenolog.adapters.asking import Panel
    from stenolog.adapters.conversation.log import Conversation
    from stenolog.apps.views.asked_again import AskedAgain, ToAsk
    from stenolog.apps.views.retries import Corpus
    from stenolog.projections.analysis.retry import Change, Team, Tried


@command("retry", example="stenolog retry --all --policy last:20 --sample 100")
@click.argument("targets", metavar="[CONVERSATION]...", nargs=-1, shell_complete=names)
@click.option("--all", "everything", is_flag=True, help="All conversations of the database.")
@click.option("--policy", metavar="POLICY", help="With this policy, such as last:50+tokens:16k.")
@click.option("--card", type=PLAIN_FILE, help="With the instructions, tools … of this file.")
@click.option("--team", type=PLAIN_FILE, help="With the agents of this team file.")
@click.option("--model", metavar="KIND:NAME", help="With another model, such as openai:gpt-5.2.")
@click.option("--sample", "size", type=click.IntRange(1), metavar="N", help="Try so many calls of all.")
@click.option("-o", "--output", "out", type=FILE, help="Write the requests' digests; - for stdout.")
@click.option("--against", type=PLAIN_FILE, help="Compare with digests that -o wrote.")
@takes_asking
@takes_agent_else("default: all")
@takes_format
@takes_db
def retry_command(
    db: Database,
    targets: tuple[str, ...],
    everything: bool,
    policy: str | None,
    card: Path | None,
    team: Path | None,
    model: str | None,
    agent: str | None,
    size: int | None,
    out: Path | None,
    against: Path | None,
    asking: AskOptions,
) -> CommandResult:
    """Build recorded model calls again, as they were or changed."""
    if everything and targets:
        raise click.UsageError("expected conversations or --all, found both")
    if asking.ask and (out or against):
        raise click.UsageError("--ask: expected neither --output nor --against")
    if against is not None and out == STDOUT:
        raise click.UsageError("with --against, say where the digests go: --output FILE")
    from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
    from stenolog.apps.cli.draw.retry import results_answer
    from stenolog.apps.views.asked_again import to_ask
    from stenolog.apps.views.retries import corpora, results, unproved_of
    from stenolog.projections.analysis.retry import Here, retried, tried

    log = open_log(db)
    meant = [find_conversation(log, target).name for target in targets or ("",)] if not everything else []
    chosen = sorted({*(log.names(archived=True) if everything else meant)})
    skipped: list[Diagnostic] = []

    def skip(name: str, error: StenologError) -> None:
        skipped.append(refusal(name, error))

    change, changes = _changes(policy, card, team, model, agent or "")
    calls = corpora(log, chosen, agent or "", size, skip)
    means = Here(blobs=log.blobs, counters=COUNTERS)
    if out is not None or against is not None:
        from . import _digests

        requests = _digests.Requests(progress(calls, "building requests"), changes, means)
        answer = _digests.answer(requests, change, out, against)
    elif asking.ask is not None:
        made = progress(calls, "building requests")
        built = (each for one in made for each in retried(one.cases, one.entries, changes(one)[0], means))
        answer = _ask_again(asking.ask, asking, db, to_ask(built, change.in_words), change.in_words, model)
        answer = answer._replace(checked=tuple(chosen))
    else:
        found: list[Tried] = []
        unproved = 0
        for corpus in progress(calls, "building requests"):
            changed, now = changes(corpus)
            found += tried(corpus.entries, corpus.cases, changed, means, now)
            unproved += unproved_of(corpus, changed)
        answer = results_answer(
            results(found, change.in_words, chosen, unproved), under_team=team is not None
        )
    failed = answer.failed or bool(skipped)
    notes, said = (*skipped, *answer.diagnostics), (*skipped, *(answer.messages or ()))
    return answer._replace(failed=failed, diagnostics=notes, messages=said)


def _ask_again(
    times: int, asking: AskOptions, db: Database, calls: ToAsk, change: str, model: str | None
) -> CommandResult:
    """Ask the calls again, and return the verdict."""
    from stenolog.apps.cli.draw.asked_again import asked_answer
    from stenolog.apps.views.asked_again import asked_again

    async def verdicts(panel: Panel) -> AskedAgain:
        found = await panel.verdicts(calls.questions, times)
        terms: dict[str, Any] = {"judge": panel.judge.name, "times": times, "confidence": asking.confidence}
        terms |= {"missing": panel.missing, "micro_usd": panel.asking.spent, "days_apart": panel.days_apart}
        return asked_again(calls, found, change=change, **terms)

    return asked_answer(
        ask_panel(asking, db, lambda panel: panel.estimate(calls.questions, times), verdicts, other=model)
    )


def _changes(
    policy: str | None, card: Path | None, team: Path | None, model: str | None, agent: str
) -> tuple[Change, Callable[[Corpus], tuple[Change, Team | None]]]:
    """Return the change that the options name, and as it is for a conversation."""
    from stenolog.adapters.engine.team_file import load, load_card
    from stenolog.adapters.models.model_names import model_from_string
    from stenolog.apps.views.retries import only_agent_of
    from stenolog.projections.analysis.retry import NO_CHANGE
    from stenolog.projections.formats import format_of

    change = NO_CHANGE._replace(policy=policy_of(policy))
    if card is not None:
        change = change._replace(card=load_card(card), agent=agent.partition("/")[0])
    if model is not None:
        other = model_from_string(model, keys=False)
        change = change._replace(model=other.name, provider=other.provider, api=format_of(other.api).name)
    file = load(team, keys=False).team if team else None

    def of(corpus: Corpus) -> tuple[Change, Team | None]:
        named = change._replace(agent=change.agent or only_agent_of(corpus)) if change.card else change
        if file is None:
            return named, None
        now = _as_recorded(file, corpus.conversation)
        return named._replace(cards=now.cards), now

    if file is not None:
        change = change._replace(cards=dict.fromkeys(file.agents, AgentCard()))  # for its words
    return change, of


def _as_recorded(team: Any, conversation: Conversation) -> Team:
    """Return a file's team, with MCP tools as recorded: no server is started."""
    from stenolog.adapters.engine.replay import Replay
    from stenolog.adapters.tools.base import BaseTool
    from stenolog.domain.lanes.turns import TurnRule
    from stenolog.projections.analysis.retry import Team

    recording = Replay(conversation)
    agents = {name: recording.agent(agent) for name, agent in team.agents.items()}
    cards = {
        name: agent.card([tool.spec for tool in agent.tools if isinstance(tool, BaseTool)])
        for name, agent in agents.items()
    }
    return Team(cards, team.turns.turns if isinstance(team.turns, TurnRule) else team.turns)
