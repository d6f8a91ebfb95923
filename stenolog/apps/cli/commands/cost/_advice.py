"""`cost --advise`: what would have been cheaper, by a simulation of the provider's cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stenolog.adapters.providers.prices import prices_of, source, usd
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.views.advices import advice_data, per_cent, verdict
from stenolog.projections.messages.body_digest import compact

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation, Log

MOST = 5
"""The options that are shown of each agent; --verbose shows all."""


def advised(
    log: Log,
    conversations: Sequence[Conversation],
    *,
    agent: str | None,
    prices: Path | None,
    verbose: bool,
) -> CommandResult:
    """Show advice for each agent, or for one."""
    data = advice_data(log, conversations, prices_of(prices), agent or "")
    return CommandResult(data, lambda: _drawn(data, "" if prices else source(), verbose=verbose))


def _drawn(data: Mapping[str, Any], where: str, *, verbose: bool) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import table, wrapped

    for found in data["agents"]:
        bill, most = found["simulated_micro_usd"], None if verbose else MOST
        by = f", sent by {found['program']}" if found["program"] else ""
        numbers = f"{counted(found['calls'], 'call')} to {', '.join(found['models'])}{by}"
        bills = f"billed {usd(found['billed_micro_usd'])} USD, simulated {usd(bill)}"
        yield line((found["agent"], "cyan"), f": {numbers}; {bills}")
        yield wrapped((verdict(found), "bold"), hang=2)
        if found["ask"]:
            yield wrapped(found["ask"], hang=2)
        elif found["advice"] is not None:
            yield wrapped((compact(found["advice"]["patch"]), "green"), hang=2)
        rows = [
            (
                each["words"],
                usd(each["micro_usd"]),
                per_cent(each["saving_micro_usd"], bill),
                ("unsure" if each["is_unsure"] else "", "dim"),
            )
            for each in [option for option in found["options"] if option["saving_micro_usd"]][:most]
        ]
        if rows:
            unsure = any(row[-1][0] for row in rows)
            last = None if unsure else -1
            yield table(("~CHANGE", ">USD", ">BILL", "")[:last], [row[:last] for row in rows])
        yield line("")
    if not data["agents"]:
        yield wrapped("no request here was recorded with a known price; `stenolog tap` records requests")
    if data["unpriced"]:
        yield wrapped((f"no price is known for {', '.join(data['unpriced'])}: give one with --prices", "dim"))
    if where:
        yield wrapped((where, "dim"))
