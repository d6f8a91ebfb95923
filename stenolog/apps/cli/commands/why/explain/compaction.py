"""Command `explain compaction`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from stenolog.apps.cli.arguments.agent import agent_or_only, takes_agent, takes_api
from stenolog.apps.cli.arguments.database import Database
from stenolog.apps.cli.arguments.lookup import find_both, open_log
from stenolog.apps.cli.arguments.options import takes_conversation_and
from stenolog.apps.cli.arguments.position import resolve
from stenolog.apps.cli.framework import command
from stenolog.apps.cli.lines import CommandResult, Piece, counted, line
from stenolog.apps.views.compactions import (
    chosen_compaction,
    compacted_request,
    compaction_data,
    compactions_of,
)

if TYPE_CHECKING:
    from stenolog.projections.analysis.compaction import CompactedRequest, Compaction

FATES = {"kept": "green", "new": "cyan", "only in the summary": "yellow", "gone": "red"}


@command("compaction", example="stenolog explain compaction demo --agent coder")
@takes_agent
@click.option("--with", "restore", metavar="ENTRY", help="With this entry put back.")
@takes_api
@takes_conversation_and("[ENTRY]")
def explain_compaction_command(
    db: Database, words: tuple[str, ...], agent: str | None, restore: str | None, api: str | None
) -> CommandResult:
    """Say what a compaction removed from an agent's requests.

    The last compaction up to ENTRY. Each entry is kept, only in the summary, or gone.
    """
    conversation, written = find_both(open_log(db), words, "@")
    at = resolve(conversation, written)
    named = agent_or_only(conversation, agent, at)
    found = compactions_of(conversation, named)
    position = chosen_compaction(found, at)
    back = None if restore is None else resolve(conversation, restore)
    chosen = compacted_request(conversation, named, position, restore=back, api=api) if position else None

    def draw() -> Iterable[Piece]:
        return _drawn(named, found, chosen)

    return CommandResult(compaction_data(conversation, named, found, chosen), draw)


def _drawn(agent: str, found: list[Compaction], chosen: CompactedRequest | None) -> Iterator[Piece]:
    from stenolog.apps.cli.draw.layout import table, wrapped
    from stenolog.apps.cli.draw.views import spans

    if chosen is None:
        yield line((f"nothing was ever taken out of the requests of {agent}", "dim"))
        return
    removal = chosen.compaction
    if len(found) > 1:
        yield wrapped(("compactions  ", "dim"), spans([one.position for one in found]))
    before, after = (f"{tokens:,}" for tokens in (chosen.tokens_before, chosen.tokens_after))
    yield wrapped(
        (f"{removal.kind} at {removal.position}", "bold cyan"), f"  {before} → {after} tok of {agent}"
    )
    if not removal.is_readable:
        yield wrapped(("what the summary says only its provider can read", "yellow"))
    rows = [
        (
            spans(range(run.first, run.last + 1)),
            (run.fate, FATES[run.fate]),
            run.rule,
            f"{run.tokens_before:,}",
            f"{run.tokens_after:,}",
            (run.text if run.entries == 1 else f"{run.entries} entries, the first: {run.text}", "dim"),
        )
        for run in chosen.runs
    ]
    beside = ("", "beside them", "", f"{chosen.beside_before:,}", f"{chosen.beside_after:,}", "")
    yield table((">ENTRIES", "NOW", "RULE", ">BEFORE", ">AFTER", "*TEXT"), [*rows, beside])
    if chosen.restored is not None:
        back, more = chosen.restored, chosen.restored.tokens - chosen.tokens_after
        size = f"{back.tokens:,} tok ({more:+,}), {back.bytes:,} bytes"
        yield wrapped((f"with {counted(len(back.positions), 'entry', 'entries')} put back  ", "dim"), size)
