"""A corpus of requests of many programs through a tap, and what the log has of it.

    python -m benchmarks tap_corpus [--requests N]

Scripted programs and SDKs of four APIs send N requests (10,000) through `stenolog tap` to a local provider:
loops of up to 280 turns, forks, retries, sub-agents, titles, compactions, edits, pictures, unusual JSON. Half
of the sessions of programs that have ids send them. Compared are the bytes at both ends, the bodies built
again from the log, the conversations, and the size on disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

import stenolog
from benchmarks._ratio import Row
from tests.file_bytes import files_with
from tests.tap.corpus import Unique, Verdict, altered, judged, performed, recorded
from tests.tap.plays import plays
from tests.tap.raw_client import Sent
from tests.tap.running_tap import Running, bytes_below, running_tap
from tests.tap.sdk_clients import run_sdks

SEED = 1
WRONG = Path(gettempdir()) / "stenolog-tap-corpus-wrong.txt"
"""What was wrong, request by request."""
PLANTED = (b"sk-ant-planted", b"sk-planted", b"AIzaPlanted")
RAW_SHARE, RIGHT_SHARE, KIND_SHARE = 0.01, 0.995, 0.99
EXPLAINED, DERIVED_SHARE = ("claude", "codex"), 0.9
DISK, SMALLER = 1.3, 20.0
SDK_SHARE = 0.15
"""The part of the requests that real SDKs send."""
LONG_MEGABYTES = 3.0


def run(requests: int = 10_000) -> Iterable[Row]:
    """Send a corpus through a tap, and count what is not as it was sent."""
    with TemporaryDirectory() as name:
        folder, unique, begun = Path(name), Unique(), time.perf_counter()
        with running_tap(folder) as running:
            scripted = round(requests * (1 - SDK_SHARE))
            sent = asyncio.run(performed(plays(SEED, scripted), running.urls, unique.observe))
            sent += run_sdks(running.urls, SEED, requests - scripted, unique.observe)
            forwarded = time.perf_counter() - begun
        took = f"sent in {forwarded:.0f} s, recorded after {time.perf_counter() - begun:.0f} s"
        yield from of_bytes(sent, running, took)
        begun = time.perf_counter()
        with stenolog.open(running.database) as log:
            verdict = judged(sent, recorded(log))
        WRONG.write_text("\n".join(verdict.wrong))
        yield from of_log(verdict, f"judged in {time.perf_counter() - begun:.0f} s")
        beside = bytes_below(folder, f"{running.database.name}-checkpoints")
        yield from of_size(bytes_below(folder, running.database.name), beside, unique)
    with TemporaryDirectory() as name:
        yield from long_loop(Path(name))


def of_bytes(sent: Sequence[Sent], running: Running, note: str) -> Iterator[Row]:
    """Compare both ends, and look for what must not be on disk."""
    clients = len({one.client for one in sent})
    wrong = altered(sent, running.exchanges)
    seen = f"{len(sent):,} requests of {clients} clients, {note}{first(wrong)}"
    yield Row("tap corpus: exchanges with altered bytes", len(wrong), 0, "", seen)
    folder = running.database.parent
    found = [name for secret in PLANTED for name in files_with(folder, secret, ("provider.jsonl",))]
    yield Row("tap corpus: files with a planted key", len(found), 0, "", first(found))
    remaining = [*running.journal.rglob("*")] if running.journal.exists() else []
    yield Row("tap corpus: files of the journal left behind", len(remaining), 0, "", printed(running))


def printed(running: Running) -> str:
    """Return what a tap has warned of."""
    lines = [line for line in running.printed.splitlines() if line.startswith("!")]
    return " ".join(lines)[:200]


def of_log(verdict: Verdict, note: str) -> Iterator[Row]:
    """Count what the log does not have as it was."""
    total = max(verdict.requests, 1)
    yield Row("tap corpus: requests that the log does not have", verdict.missing, 0, "", note)
    differs = first([one for one in verdict.wrong if one.startswith(("differs", "not-provable"))])
    yield Row("tap corpus: requests not rebuilt as sent", verdict.differs, 0, "", differs)
    explained = 1 - verdict.derived(*EXPLAINED)
    yield Row("tap corpus: share of Claude Code and Codex not derived", explained, 1 - DERIVED_SHARE, "")
    yield Row("tap corpus: share of raw bodies", verdict.raw / total, RAW_SHARE, "", f"{verdict.raw}")
    merges = first([one for one in verdict.wrong if one.startswith("merged")])
    yield Row("tap corpus: requests in another session's conversation", verdict.merged, 0, "", merges)
    off = verdict.merged + verdict.split + verdict.missing
    by = ", ".join(f"{name} {number}" for name, number in sorted(verdict.by.items()))
    note = f"{verdict.sessions} sessions; {by}"
    yield Row("tap corpus: share in the wrong conversation", off / total, 1 - RIGHT_SHARE, "", note)
    yield Row("tap corpus: share in the wrong lane", verdict.lanes / total, 1 - RIGHT_SHARE, "")
    yield Row("tap corpus: share of the wrong kind", verdict.kinds / total, 1 - KIND_SHARE, "")


def of_size(disk: int, beside: int, unique: Unique) -> Iterator[Row]:
    """Compare the size on disk with what is different in the bodies."""
    sent = f"{unique.raw / 1e6:.1f} MB sent, {unique.bytes / 1e6:.1f} MB of it unique"
    note = f"{disk / 1e6:.1f} MB, of which {beside / 1e6:.1f} MB are disposable, of {sent}"
    yield Row("tap corpus: disk by unique content", disk / unique.bytes, DISK, "x", note)


def long_loop(folder: Path) -> Iterator[Row]:
    """Record one session of 280 requests alone."""
    (play,) = (one for one in plays(SEED, 10_000) if one.name == f"{SEED}-long-0")
    unique = Unique()
    with running_tap(folder) as running:
        asyncio.run(performed([play], running.urls, unique.observe))
    disk = bytes_below(folder, running.database.name)
    note = f"{unique.raw / 1e6:.1f} MB sent"
    yield Row("tap corpus: 280 requests of Claude on disk", disk / 1e6, LONG_MEGABYTES, "MB", note)
    yield Row("tap corpus: the same, by the bytes sent", disk / unique.raw, 1 / SMALLER, "x", "")


def first(found: Sequence[str]) -> str:
    """Return the first of what was found, as a note."""
    return f"; first: {found[0][:200]}" if found else ""
