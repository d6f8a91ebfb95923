"""Full-text search: making the index against FTS5 alone, its size, and looking in 1,000,000 entries."""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median

from benchmarks._ratio import Row, compared, cpu_seconds
from stenolog import AssistantMessage, Event, Log, ToolCall, ToolResult, UserMessage
from stenolog.adapters.conversation import log as logs
from stenolog.adapters.store.sidecar.search_index import TOKENIZER
from stenolog.projections.views.lines import searchable_text

INDEXED, SHORT, LONG = 100_000, 10_000, 1_000_000
TEXTS = 5_000
VOCABULARY = 20_000
BATCH = 1_000
RARE, COMMON = "needle", "w0"


def run() -> Iterable[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from indexing(Path(folder))
        with filled(Path(folder, "short.db"), SHORT) as short, filled(Path(folder, "long.db"), LONG) as long:
            yield from looking(short, long)


def indexing(folder: Path) -> Iterator[Row]:
    """Measure the first search of a log, in CPU, against inserts of the same words into a table of FTS5."""
    with filled(folder / "talks.db", INDEXED) as log:
        words = [searchable_text(entry.event) for entry in log["talk"].entries()]
        beside = folder / "talks.db-search"
        times = []
        for number in range(3):
            beside.unlink(missing_ok=True)
            log.index.close()
            floor_s = cpu_seconds(lambda number=number: plain(folder / f"plain{number}.db", words))  # type: ignore[misc]
            times.append((cpu_seconds(lambda: log.search(RARE)), floor_s))
        ours_s, floor_s = (median(each) for each in zip(*times, strict=True))
        note = f"{ours_s / INDEXED * 1e6:.0f} against {floor_s / INDEXED * 1e6:.0f} µs of CPU an entry"
        yield Row(
            f"first index of {INDEXED:,} entries, against FTS5 alone", ours_s / floor_s, 1.75, note=note
        )
        log.index.close()
        payloads = sum(record.size for record in log["talk"].records())
        note = f"{payloads / 1e6:.0f} MB of payloads, of which {sum(map(len, words)) / 1e6:.0f} MB are words"
        yield Row("bytes of the index against the payloads", beside.stat().st_size / payloads, 0.8, note=note)


def looking(short: Log, long: Log) -> Iterator[Row]:
    """Measure the same searches in a long log and in a short one; the rare word stands in both as often."""
    for log in (short, long):
        log["talk"].extend([UserMessage(text=f"the {RARE} in hay")] * 10)
        log.search(RARE)
    lengths = f"in {LONG:,} entries against {SHORT:,}"
    for name, work, limit in (
        (f"a word that stands ten times, {lengths}", lambda log: log.search(RARE), 1.5),
        (f"the newest uses of a common word, {lengths}", lambda log: log.search(COMMON, newest=True), 1.5),
        (f"the best uses of a common word, {lengths}", lambda log: log.search(COMMON), 10.0),
        (f"an append and a search, {lengths}", after_an_append, 1.5),
    ):
        yield against(name, work, short, long, limit)


def against(name: str, work: Callable[[Log], object], short: Log, long: Log, limit: float) -> Row:
    long_s, short_s = compared(lambda: work(long), lambda: work(short), rounds=21)
    return Row(name, long_s / short_s, limit, note=f"{long_s * 1e3:.1f} against {short_s * 1e3:.1f} ms")


def after_an_append(log: Log) -> object:
    log["talk"].append(UserMessage(text="hay"))
    return log.search(RARE)


def filled(path: Path, entries: int) -> Log:
    """Return a log of so many entries: 5,000 different ones, again and again."""
    log = logs.open(path, synchronous="normal")
    different = turns(min(entries, TEXTS))
    for _ in range(0, entries, TEXTS):
        log["talk"].extend(different)
    return log


def turns(entries: int) -> list[Event]:
    """Return so many events; some words are a thousand times as frequent as others."""
    chance = random.Random(7)
    words = [f"w{number}" for number in range(VOCABULARY)]
    weights = [1 / (number + 1) for number in range(VOCABULARY)]

    def text(length: int) -> str:
        return " ".join(chance.choices(words, weights, k=length))

    events: list[Event] = []
    while len(events) < entries:
        call = ToolCall(id="c1", name="shell", arguments=f'{{"cmd": "{text(6)}"}}')
        events += (
            UserMessage(text=text(20)),
            AssistantMessage(agent="coder", tool_calls=[call]),
            ToolResult(call_id="c1", text=text(80)),
            AssistantMessage(agent="coder", text=text(40)),
        )
    return events[:entries]


def plain(path: Path, words: list[str]) -> None:
    """Index as one would by hand: the words go into a table of FTS5, a thousand a transaction."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"CREATE VIRTUAL TABLE words USING fts5 (said, {TOKENIZER})")
        for first in range(0, len(words), BATCH):
            rows = enumerate(words[first : first + BATCH], first + 1)
            with connection:
                connection.executemany("INSERT INTO words (rowid, said) VALUES (?, ?)", rows)
