"""`cost --cache`: what each request read from the prompt cache, what it missed, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stenolog.adapters.providers.prices import prices_of, source, usd
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.cli.terminal import progress
from stenolog.apps.views.caches import call_data, calls_of, cause_words, total_data, verdict_words
from stenolog.apps.views.conversations import short_name
from stenolog.projections.analysis.cache.calls import LEAST, CacheCall
from stenolog.projections.prices import Prices

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log


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
