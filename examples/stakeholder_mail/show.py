"""The terminal: bars while agents are at work, the account before and after, tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack

from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from stenolog import AssistantMessage, Conversation, Log
from stenolog.analysis import By, Prices, cost, together, usage
from stenolog.engine import EntryAppended, RunEvent, StreamDelta, Tokens

from ..shell import Terminal
from .workflow import firsts, in_words, mails, quality_of, scores

LENGTH = 380
"""How many characters a mail has, by and large: where a bar is full."""
SHORT = 20
"""A column of a table that has so many characters at most is never shortened."""
console = Terminal(highlight=False)


async def bars(happening: AsyncIterator[RunEvent]) -> None:
    """Draw a bar for each working lane, with its result."""
    columns = TextColumn("  {task.description:<14}"), BarColumn(30), TextColumn("{task.fields[end]}")
    with ExitStack() as shown:
        progress, lanes = Progress(*columns, console=console), dict[str, TaskID]()
        async for happened in happening:
            match happened:
                case StreamDelta(lane, text=text):
                    if not progress.live.is_started:  # where nothing is to be done, nothing is drawn
                        shown.enter_context(progress)
                    if lane not in lanes:
                        lanes[lane] = progress.add_task(lane, total=LENGTH, end="")
                    progress.advance(lanes[lane], len(text))
                case EntryAppended(entry) if isinstance(entry.event, AssistantMessage):
                    lane = f"{entry.event.agent}/{entry.event.task}".rstrip("/")
                    if lane in lanes:
                        progress.update(lanes.pop(lane), completed=LENGTH, end=_end(entry.event))
                case _:
                    pass


def _end(answer: AssistantMessage) -> str:
    quality = quality_of(answer)
    return in_words(quality) if quality else _shortened(answer.text, console.width - 50)


def _shortened(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: max(most, 9) - 1]}…"


def estimate(conversation: Conversation, prices: Prices) -> None:
    """Print the cost of the mails yet to be written: their requests are built, and none is sent."""
    every = conversation.state().lanes.values()
    lanes = [lane for lane in every if lane.agent == "email_writer" and lane.task and lane.status != "idle"]
    if not lanes:
        console.print(f"all {len(mails(conversation))} mails are written")
        return
    sent = sum(conversation.request(lane.agent, task=lane.task).size.tokens for lane in lanes)
    out = len(lanes) * LENGTH // 4
    price = usd(cost({conversation.settings().card_of("email_writer").model: Tokens(sent, out)}, prices))
    console.print(f"before: {len(lanes)} mails, {sent:,} tokens in, some {out:,} out, {price}")


def spent(conversation: Conversation, prices: Prices) -> None:
    """Print the cost of the mails: the same requests as before, and their answers."""
    first = [*firsts(conversation, "email_writer")]
    tally = together(tally for _, tally in usage(first).by("agent"))
    used = f"{tally.sum.input:,} tokens in, {tally.sum.output:,} out"
    console.print(f"after:  {len(first)} mails, {used}, {usd(tally.cost(prices))}")


def compared(whole: Conversation, alone: Conversation) -> None:
    """Print the score of each mail with the conversation in sight, and with the brief alone."""
    with_it, without = scores(whole, anew=False), scores(alone)
    rows = [
        (task, f"{with_it[task]['score']:.0%}", f"{without[task]['score']:.0%}", without[task]["lacks"])
        for task in with_it
        if with_it[task] and without.get(task)
    ]
    table(("context", "with", "without", "lacks without it"), rows)


def account(log: Log, prices: Prices) -> None:
    """Print the usage by agent and by run, in the conversation and its forks; shared entries count once."""
    own = {name: log[name].settings().parent for name in log}
    used = [usage(log[name].entries(after=link.position if link else 0)) for name, link in own.items()]
    rows = []
    by: By
    for by in ("agent", "run"):
        for name in dict.fromkeys(name for each in used for name, _ in each.by(by)):
            tally = together(tally for each in used for other, tally in each.by(by) if other == name)
            tokens = f"{tally.sum.input:,}", f"{tally.sum.output:,}"
            rows.append((f"{by} {name}", tally.calls, *tokens, usd(tally.cost(prices))))
    table(("all in all", "calls", "tokens in", "out", "cost"), rows)


def usd(micro: int | None) -> str:
    """Return money in words; a model without a price has an unknown cost."""
    return "no price" if micro is None else f"${micro / 1_000_000:.4f}"


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a header; long columns are shortened to the terminal."""
    lines = [[" ".join(str(value).split()) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    room = console.width - 2 * len(widths) - sum(width for width in widths if width <= SHORT)
    most = max(SHORT, room // max(1, sum(width > SHORT for width in widths)))
    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for name in header:
        drawn.add_column(name, no_wrap=True, overflow="ellipsis", max_width=most)
    for line in lines:
        drawn.add_row(*map(escape, line))
    console.print(drawn)
