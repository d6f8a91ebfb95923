"""Command `cost`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import click

from stenolog.adapters.conversation.queries.folds import fold_at
from stenolog.adapters.conversation.queries.overviews import OVERVIEW, title_of
from stenolog.adapters.conversation.queries.requests.lanes import origin_of
from stenolog.adapters.providers.prices import prices_of, source
from stenolog.apps.cli.arguments.agent import known_agent, takes_agent_else, takes_api
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_conversation, find_conversations, open_log
from stenolog.apps.cli.arguments.options import OneOf, takes_conversation
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.arguments.time import Period, in_zone, period
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Diagnostic, Piece
from stenolog.apps.cli.terminal import PLAIN_FILE, width
from stenolog.apps.views.conversations import short_name
from stenolog.projections.prices import Prices
from stenolog.projections.views import usage as usages

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.domain.entry import Entry

OF_PLAN = {"agent": "--agent", "budgets": "--budget", "policies": "--policy", "api": "--api"}
DAYS = {"day": "%Y-%m-%d", "week": "%G-W%V"}
"""The forms of a day and a week, which sort in the order of time."""
BY = ("agent", "task", "run", "model", "tool", "conversation", "project", *DAYS)


Row: TypeAlias = tuple[str, usages.UsageTotals]
"""A row of the table: its name and its totals."""


@command("cost", example="stenolog cost demo --plan --agent coder --budget 8k,16k")
@click.option(
    "--by", metavar="WHAT", type=OneOf(BY), default="agent", help=f"A line for each {', '.join(BY)}."
)
@click.option("--prices", type=PLAIN_FILE, help="Your prices, TOML or JSON.")
@click.option("--at", metavar="ENTRY", help="Up to this entry or time.")
@click.option("--since", metavar="TIME", help="Only from this time on.")
@click.option("--until", metavar="TIME", help="Only up to this time.")
@click.option("--plan", is_flag=True, help="What other policies would cost and lose. Calls no model.")
@click.option("--cache", is_flag=True, help="What missed the prompt cache, and why.")
@click.option("--advise", is_flag=True, help="What would have been cheaper, simulated.")
@click.option("--report", is_flag=True, help="By each axis; misses, compactions, the dearest requests.")
@click.option("--context", is_flag=True, help="How an agent's context grew, and what cut it.")
@click.option("--plot", metavar="FILE", type=PLAIN_FILE, help="With --context: draw it as SVG.")
@click.option("--project", metavar="FOLDER", default="", help="With --advise: of this folder only.")
@click.option("-v", "--verbose", is_flag=True, help="With --cache and --advise: all rows.")
@takes_agent_else("with a view, such as --plan")
@click.option("--budget", "budgets", metavar="N,N…", help="With --plan: tokens, 8k,16k.")
@click.option(
    "--policy",
    "policies",
    metavar="POLICY",
    multiple=True,
    help="With --plan: full,last:50; repeatable.",
)
@takes_api
@takes_conversation
def cost_command(
    db: Database,
    target: str,
    by: str,
    prices: Path | None,
    at: str | None,
    since: str | None,
    until: str | None,
    plot: Path | None,
    project: str,
    verbose: bool,
    plan: bool,
    context: bool,
    cache: bool,
    advise: bool,
    report: bool,
    **of_plan: Any,
) -> CommandResult:
    """Count calls, tokens, tools, errors, times and costs."""
    log, times = open_log(db), period(since, until)
    views = {"plan": plan, "context": context, "cache": cache, "advise": advise, "report": report}
    _check_views(views, verbose=verbose, has_times=any(times), has_plot=plot is not None, has_project=project)
    if plan:
        from ._cost_views import planned

        conversation = find_conversation(log, target)
        return planned(conversation, at=at or "@", prices=prices, **of_plan)
    agent = of_plan.pop("agent") if any(views.values()) else None
    if given := [option for name, option in OF_PLAN.items() if of_plan.get(name)]:
        raise click.UsageError(f"{', '.join(given)}: only with --plan")
    if context:
        from ._context import grown

        return grown(find_conversation(log, target), agent=agent, at=at or "@", plot=plot)
    conversations = find_conversations(log, target)
    if at is not None and len(conversations) != 1:
        raise click.UsageError("--at is a position of one conversation: name it")
    if advise:
        from ._advice import advised

        if at is not None:
            raise click.UsageError("--advise is of all entries: leave out --at")
        if agent and len(conversations) == 1:
            known_agent(conversations[0], agent)
        chosen = [each for each in conversations if not project or _is_in(each, project)]
        return advised(log, chosen, agent=agent, prices=prices, verbose=verbose)
    if cache:
        from ._cost_views import cached

        if agent and len(conversations) == 1:
            known_agent(conversations[0], agent)
        return cached(log, conversations, agent=agent, prices=prices, at=at, verbose=verbose)
    if report:
        from ._cost_views import reported

        only = conversations[0] if target else None
        if at is not None or (agent and only is None):
            raise click.UsageError("--report is of all entries, and --agent of one conversation")
        named = known_agent(only, agent) if agent and only is not None else ""
        return reported(log, only, agent=named, prices=prices)
    return _summed(log, conversations, by, at=at, times=times, prices=prices)


def _summed(
    log: Log,
    conversations: Sequence[Conversation],
    by: str,
    *,
    at: str | None,
    times: Period,
    prices: Path | None,
) -> CommandResult:
    """Count what the conversations used in a time, a line for each agent, model, day or so."""
    if times.first is not None:
        active = set(log.names(archived=True, active_since=times.first))
        conversations = [conversation for conversation in conversations if conversation.name in active]
    shared = _shared if len(conversations) > 1 else lambda _: 0
    used = [
        found
        for each in conversations
        for found in (
            _used_by_day(each, at, times, shared(each), DAYS[by])
            if by in DAYS
            else [(_row_name(each, by), _used(each, at, times, after=shared(each)))]
        )
    ]
    rows = _rows([one for one in used if not any(times) or one[1].total != usages.NOTHING], by)
    table = prices_of(prices)
    rows = _newest_first(log, rows) if by == "conversation" else _in_order(rows, by, table)
    data = {
        "conversations": [conversation.name for conversation in conversations],
        "by": by,
        "rows": [_data(name, tally, table) for name, tally in rows],
        "total": _data("", usages.together(tally for _, tally in rows), table),
    }

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.views import drawn

        is_short = by == "conversation" and width() is not None
        shown = [(short_name(log, name), tally) for name, tally in rows] if is_short else rows
        titles = [title_of(log[name]) for name, _ in rows] if by == "conversation" else []
        return drawn(shown, by, table, "" if prices else source(), titles=titles)

    notes = _imported(conversations) if any(tally.sum.input for _, tally in rows) else ()
    return CommandResult(data, draw, diagnostics=notes)


def _imported(conversations: Sequence[Conversation]) -> tuple[Diagnostic, ...]:
    """Return a note if other programs sent the requests: more was billed than the log has."""
    systems = {each.name: system for each in conversations if (system := _program(each))}
    if not systems:
        return ()
    of = f" in {len(systems):,} of these conversations" if len(conversations) > 1 else ""
    programs = ", ".join(sorted(set(systems.values())))
    words = (
        f"the requests{of} were sent by {programs}: tokens are as billed; `cost --context` counts those that "
        "the log does not explain"
    )
    return (Diagnostic("note", "rebuilt", words, next(iter(systems)) if len(conversations) == 1 else ""),)


def _program(conversation: Conversation) -> str:
    origin = origin_of(conversation)
    return origin.system if origin is not None else ""


def _is_in(conversation: Conversation, project: str) -> bool:
    folder = fold_at(conversation, OVERVIEW).folder
    return project in (folder, PurePath(folder).name)


def _check_views(
    views: Mapping[str, bool], *, verbose: bool, has_times: bool, has_plot: bool, has_project: str
) -> None:
    chosen = [f"--{name}" for name, is_chosen in views.items() if is_chosen]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} are different views: choose one")
    if has_times and chosen:
        raise click.UsageError(f"--since and --until: not with {chosen[0]}")
    if verbose and not (views["cache"] or views["advise"]):
        raise click.UsageError("--verbose: only with --cache and --advise")
    if has_plot and not views["context"]:
        raise click.UsageError("--plot: only with --context")
    if has_project and not views["advise"]:
        raise click.UsageError("--project: only with --advise")


def _newest_first(log: Log, rows: Sequence[Row]) -> Sequence[Row]:
    places = {name: at for at, name in enumerate(log.names(archived=True, order="latest"))}
    return sorted(rows, key=lambda row: places.get(row[0], len(places)))


def _in_order(rows: Sequence[Row], by: str, table: Prices | None) -> Sequence[Row]:
    if by in DAYS:
        return sorted(rows, key=lambda row: row[0])
    return sorted(rows, key=lambda row: (-(row[1].known_cost(table) if table else 0), -row[1].calls))


def _shared(conversation: Conversation) -> int:
    return conversation.log.recorder.lineage(conversation.stream)[-1].after


def _used(conversation: Conversation, at: str | None, times: Period, after: int) -> usages.Usage:
    position = None if at is None else resolve(conversation, at)
    if not any(times) and not after:
        return conversation.fold(usages.usage, position)
    entries = conversation.entries(at=position)
    found = usages.usage_by(entries, lambda entry: (entry.time in times and entry.position > after) or None)
    return found.get(True, usages.usage.initial)


def _used_by_day(
    conversation: Conversation, at: str | None, times: Period, after: int, form: str
) -> Iterator[tuple[str, usages.Usage]]:
    position = None if at is None else resolve(conversation, at)

    def day(entry: Entry) -> str | None:
        is_counted = entry.time in times and entry.position > after
        return f"{in_zone(entry.time):{form}}" if is_counted else None

    yield from usages.usage_by(conversation.entries(at=position), day).items()


def _row_name(conversation: Conversation, by: str) -> str:
    return fold_at(conversation, OVERVIEW).folder if by == "project" else conversation.name


def _rows(used: Iterable[tuple[str, usages.Usage]], by: str) -> Sequence[Row]:
    rows: dict[str, list[usages.UsageTotals]] = {}
    for name, tally in _each(used, by):
        rows.setdefault(name, []).append(tally)
    return [(name, usages.together(tallies)) for name, tallies in rows.items()]


def _each(used: Iterable[tuple[str, usages.Usage]], by: str) -> Iterator[Row]:
    for name, each in used:
        if by in ("conversation", "project", *DAYS):
            yield name, each.total
        else:
            yield from each.by(cast("usages.By", "lane" if by == "task" else by))


def _data(name: str, tally: usages.UsageTotals, prices: Prices) -> dict[str, Any]:
    """Return a tally as JSON: tokens, milliseconds, and millionths of a dollar."""
    shown = {
        "name": name,
        "calls": tally.calls,
        "answers": tally.answers,
        "answers_without_usage": tally.untold,
        "answers_understated": tally.understated,
        "errors": tally.errors,
        "retries": tally.retries,
        "tools": tally.tools,
        "tool_errors": tally.tool_errors,
        "tokens": {kind: used for kind, used in tally.sum._asdict().items() if kind != "cost"},
        "took_ms": _times(tally.took),
        "first_token_ms": _times(tally.first),
        "tools_took_ms": _times(tally.tools_took),
    }
    return (
        shown
        if prices is None
        else {
            **shown,
            "cost_micro_usd": tally.cost(prices),
            "known_cost_micro_usd": tally.known_cost(prices),
        }
    )


def _times(times: usages.Histogram) -> dict[str, int | None]:
    return {"median": times.percentile(50), "p95": times.percentile(95)}
