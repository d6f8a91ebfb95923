"""What is shown at the terminal: bars while agents are at work, the account before and after, tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from stenolog import AssistantMessage, Conversation, Delta, Log, Recorded
from stenolog.domain.limits import Tokens
from stenolog.engine import Happening
from stenolog.projections.prices import Prices, cost
from stenolog.projections.usage import By, together, usage

from .workflow import quality_of

LENGTH = 380
"""How many characters a mail has, by and large: where a bar is full."""
console = Console(highlight=False)


async def bars(happening: AsyncIterator[Happening]) -> None:
    """A bar for each lane that is at work, and what came of it."""
    columns = TextColumn("  {task.description:<14}"), BarColumn(30), TextColumn("{task.fields[end]}")
    with Progress(*columns, console=console) as progress:
        lanes: dict[str, TaskID] = {}
        async for happened in happening:
            match happened:
                case Delta(lane, text=text):
                    if lane not in lanes:
                        lanes[lane] = progress.add_task(lane, total=LENGTH, end="")
                    progress.advance(lanes[lane], len(text))
                case Recorded(entry) if isinstance(entry.event, AssistantMessage):
                    lane = f"{entry.event.agent}/{entry.event.task}".rstrip("/")
                    if lane in lanes:
                        progress.update(lanes.pop(lane), completed=LENGTH, end=_end(entry.event))
                case _:
                    pass


def _end(answer: AssistantMessage) -> str:
    quality = quality_of(answer)
    return f"quality {quality['score']:.0%}" if quality else answer.text.replace("\n", " ")[:44]


def estimate(talk: Conversation, prices: Prices) -> None:
    """What the mails that are still to be written will cost: their requests are built, and none is sent."""
    lanes = [lane for lane in talk.state().lanes.values() if lane.task and lane.status != "idle"]
    sent = sum(talk.request(lane.agent, task=lane.task).size.tokens for lane in lanes)
    out = len(lanes) * LENGTH // 4
    price = usd(cost({talk.settings().card_of("writer").model: Tokens(sent, out)}, prices))
    console.print(f"before: {len(lanes)} mails, {sent:,} tokens in, some {out:,} out, {price}")


def account(log: Log, prices: Prices) -> None:
    """What was used, by agent and by run, in the conversation and its forks; of what a fork shares, once."""
    own = {name: log[name].settings().parent for name in log}
    used = [usage(log[name].entries(after=link.position if link else 0)) for name, link in own.items()]
    rows = []
    by: By
    for by in ("agent", "run"):
        for name in dict.fromkeys(name for each in used for name, _ in each.by(by)):
            tally = together(tally for each in used for other, tally in each.by(by) if other == name)
            tokens = f"{tally.sum.input:,}", f"{tally.sum.output:,}"
            rows.append((f"{by} {name}", tally.calls, *tokens, usd(tally.cost(prices))))
    table(("after", "calls", "tokens in", "out", "cost"), rows)


def usd(micro: int | None) -> str:
    """Money in words; a model without a price has an unknown cost."""
    return "no price" if micro is None else f"${micro / 1_000_000:.4f}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under a header."""
    drawn = Table(*header, box=None, show_header=bool(header), header_style="bold", pad_edge=False)
    for row in rows:
        drawn.add_row(*(str(value).replace("\n", " ")[:56] for value in row))
    console.print(drawn)
