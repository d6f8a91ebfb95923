"""The other views of `cost`: `--cache`, `--report` (what the page Cost shows) and `--plan`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stenolog.adapters.providers.prices import prices_of, source, usd
from stenolog.apps.cli.arguments.agent import agent_or_only
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.cli.terminal import progress
from stenolog.apps.views.caches import call_data, calls_of, cause_words, total_data, verdict_words
from stenolog.apps.views.conversations import short_name
from stenolog.apps.views.cost_table import CostTable
from stenolog.apps.views.costs import cost_report
from stenolog.apps.views.figures import known_usd
from stenolog.apps.views.lanes import lane, means, on_card, own_api
from stenolog.domain.policy import Policy
from stenolog.domain.policy_text import amount, policy_of
from stenolog.projections.analysis.budget import budget
from stenolog.projections.analysis.cache.calls import LEAST, CacheCall
from stenolog.projections.analysis.provider_bill import Unexplained
from stenolog.projections.prices import Prices

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log
    from stenolog.apps.cli.draw.layout import Cell


SAYS = "PROVIDER SAYS"


def cached(
    log: Log,
    conversations: Sequence[Conversation],
    *,
    agent: str | None,
    prices: Path | None,
    at: str | None,
    verbose: bool,
) -> CommandResult:
    """Show what requests read from the prompt cache: misses, or all."""
    table = prices_of(prices)
    found = [
        (each.name, calls_of(each, None if at is None else resolve(each, at), agent))
        for each in progress(conversations, "building requests again", len(conversations))
    ]
    calls = [call for _, of_one in found for call in of_one]
    data = {
        "conversations": [name for name, _ in found],
        "calls": [
            {"conversation": name, **call_data(call, table)}
            for name, of_one in found
            for call in of_one
            if verbose or _is_worth_a_line(call)
        ],
        "total": total_data(calls, table),
    }

    def draw() -> Iterable[Piece]:
        several = len(conversations) > 1
        rows = [(short_name(log, name) if several else "", of_one) for name, of_one in found]
        return _drawn(rows, table, "" if prices else source(), verbose=verbose)

    return CommandResult(data, draw)


def _drawn(
    found: Sequence[tuple[str, Sequence[CacheCall]]], prices: Prices, where: str, *, verbose: bool
) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import table, wrapped

    calls = [call for _, of_one in found for call in of_one]
    if not calls:
        why = "no request here was recorded, and no answer says what it read from a cache"
        yield line((f"{why}: none can be compared", "dim"))
        return
    rows = [
        (
            name,
            str(call.position),
            call.lane,
            f"{call.prompt:,}",
            "?" if call.read is None else f"{call.read:,}",
            (f"{call.missed:,}", "yellow") if call.is_miss else f"{call.missed:,}",
            _cost(call, prices),
            (call.cause.kind or "-", "dim"),
            (verdict_words(call) or "-", "dim"),
        )
        for name, of_one in found
        for call in of_one
        if verbose or _is_worth_a_line(call)
    ]
    columns = ("~CONVERSATION", ">AT", "~AGENT", ">TOKENS", ">READ", ">MISSED", ">USD", "WHY", SAYS)
    first = 0 if any(row[0] for row in rows) else 1
    last = None if any(call.verdict for call in calls) else -1
    if rows:
        yield table(columns[first:last], [row[first:last] for row in rows])
    for name, of_one in found:
        for call in of_one:
            if _is_worth_a_line(call) or (verbose and call.cause.kind):
                place = f"{name}@{call.position}" if first == 0 else f"{call.position}"
                odd = f" (the provider {call.agreement} than that)" if "read" in call.agreement else ""
                yield wrapped((place, "cyan"), f": {cause_words(call.cause)}", (odd, "dim"), hang=2)
    total = total_data(calls, prices)
    read = total["read"] * 100 // max(total["prompt"], 1)
    yield wrapped(
        (
            f"{counted(len(calls), 'request')}, {read}% of their tokens from the cache; {_missed(total)}",
            "bold",
        )
    )
    if total["verdicts"]:
        requests = counted(total["verdicts"], "request")
        yield wrapped(
            f"the provider names a cause for {requests}, the same one as above for {total['confirmed']}"
        )
    if where:
        yield wrapped((where, "dim"))


def _missed(total: Mapping[str, Any]) -> str:
    cost = f"{'≥' if total['cost_is_incomplete'] else ''}{usd(total['known_cost_micro_usd'])} USD"
    tokens = f"{total['missed']:,} tokens"
    if not total["missed"]:
        return "nothing missed"
    if not total["misses"]:
        return f"no miss of {LEAST:,} tokens or more; {tokens} in smaller ones, {cost}"
    return (
        f"{counted(total['misses'], 'miss', 'misses')} of {LEAST:,} tokens or more; {tokens} in all, {cost}"
    )


def _is_worth_a_line(call: CacheCall) -> bool:
    return call.is_miss or call.is_confirmed is not None


def _cost(call: CacheCall, prices: Prices) -> str:
    cost = call.cost(prices)
    return "-" if not call.missed else "?" if cost is None else usd(cost)


ROWS = 10
"""The rows that are shown of each axis; --by shows all."""
SPENT = (">CALLS", ">INPUT", ">CACHED", ">OUTPUT", ">USD")


def reported(
    log: Log, conversation: Conversation | None, *, agent: str, prices: Path | None
) -> CommandResult:
    """Show what a conversation cost, or all."""
    table = prices_of(prices)
    if conversation is not None:
        data = cost_report(conversation, table, agent)
    else:
        data = CostTable(log, table).update(lambda names: progress(names, "adding up", len(names))).data()
    return CommandResult(data, lambda: _report_drawn(log, data, "" if prices else source()))


def _report_drawn(log: Log, data: Mapping[str, Any], where: str) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import heading, table, wrapped

    for axis, rows in data["by"].items():
        if rows:
            shown = rows[-ROWS:] if axis == "day" else rows[:ROWS]
            more = f", {ROWS} of {len(rows):,}" if len(rows) > ROWS else ""
            yield heading(f"By {axis}{more}")
            none = "no tool" if axis == "tool" else f"no {axis}"
            cells: list[list[Cell]] = [
                [(row["name"] or f"({none})", "cyan"), f"{row['calls']:,}", *_spent(row)] for row in shown
            ]
            yield table((f"~{axis.upper()}", *SPENT), cells)
    if data["dearest"]:
        yield heading("The dearest requests")
        yield table(
            ("~CONVERSATION", ">AT", "~AGENT", "~MODEL", "~AFTER", *SPENT[1:], "~CACHE MISS"),
            [
                [
                    short_name(log, row["conversation"]),
                    f"{row['position']}",
                    (row["agent"], "cyan"),
                    row["model"],
                    (row["tool"] or "-", "dim"),
                    *_spent(row),
                    (row["why"] or "-", "dim"),
                ]
                for row in data["dearest"]
            ],
        )
    yield from _compactions(data.get("compactions", ()))
    yield heading("All")
    total = data["total"]
    calls = f"{counted(total['calls'], 'call')}, {known_usd(total)} USD"
    yield wrapped((f"{calls}{_cost_of_misses(data.get('cache'))}", "bold"))
    if (gone := data.get("unexplained")) and gone["tokens"]:
        words = (
            f"billed, but not in this log: {gone['tokens']:,} of {gone['billed']:,} tokens of {data['agent']}"
        )
        yield wrapped((f"{words}: {Unexplained(**gone).in_words}", "yellow"), hang=2)
    if where:
        yield wrapped((where, "dim"))


def _cost_of_misses(cache: Mapping[str, Any] | None) -> str:
    if not cache or not cache["misses"]:
        return ""
    cost = f"{'≥' if cache['cost_is_incomplete'] else ''}{usd(cache['known_cost_micro_usd'])} USD"
    return f", of them {cost} for what {counted(cache['misses'], 'cache miss', 'cache misses')} read anew"


def _compactions(found: Sequence[Mapping[str, Any]]) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import heading, table

    if found:
        yield heading("Compactions")
        columns = (">AT", "KIND", ">USD", ">READ ANEW", ">TOKENS LESS", ">SAVED A CALL", ">CALLS SINCE")
        rows = [
            [
                str(one["position"]),
                one["kind"],
                *(_usd(one[name]) for name in ("cost", "missed")),
                "-" if one["tokens"] is None else f"{one['tokens']:,}",
                _usd(one["saved"]),
                str(one["calls"]),
            ]
            for one in found
        ]
        yield table(columns, rows)


def _usd(cost: int | None) -> str:
    return "?" if cost is None else usd(cost)


def _spent(row: Mapping[str, Any]) -> list[str]:
    tokens = row["tokens"]
    read = tokens["cache_read"] * 100 // max(tokens["input"], 1)
    return [f"{tokens['input']:,}", f"{read}%", f"{tokens['output']:,}", known_usd(row)]


def planned(
    conversation: Conversation,
    *,
    agent: str | None,
    budgets: str | None,
    policies: tuple[str, ...],
    prices: Path | None,
    at: str,
    api: str | None,
) -> CommandResult:
    """Try policies and budgets on an agent's requests."""
    position = resolve(conversation, at)
    named = agent_or_only(conversation, agent, position)
    api = api or own_api(conversation, named)
    rows = list(
        progress(
            budget(
                conversation.entries(at=position),
                **lane(named)._asdict(),
                policies=_policies(policies) or [on_card(conversation, named, position)],
                tokens=[None] if budgets is None else [amount(one, "--budget") for one in budgets.split(",")],
                api=api,
                prices=prices_of(prices),
                **means(conversation),
            ),
            "building every request",
        )
    )
    data = {
        "conversation": conversation.name,
        "agent": named,
        "api": api,
        "rows": [{**row._asdict(), "policy": row.policy.json} for row in rows],
    }

    def draw() -> Iterable[Piece]:
        from stenolog.apps.cli.draw.policy import budget_drawn

        return budget_drawn(rows, "" if prices else source())

    return CommandResult(data, draw)


def _policies(written: Iterable[str]) -> list[Policy]:
    """Return all options' policies: separated by commas, or one as JSON."""
    pieces = (
        piece
        for option in written
        for piece in ([option] if option.lstrip().startswith("{") else option.split(","))
    )
    return [policy for piece in pieces if (policy := policy_of(piece)) is not None]
