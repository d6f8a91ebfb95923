"""The words in the files of a log: those that can be read at once, and those that are compressed."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stenolog.adapters.store.repair.raw_pages import PageFile
from stenolog.adapters.store.sqlite.statements.event_rows import decompressed

BEGINNING = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
"""The first bytes of what zlib compressed, at any of its levels."""
STEP = 16


def words_in(path: Path) -> bytes:
    """Return the bytes of a file, and behind them all that is compressed in it.

    In a database a long value lies on several pages. Those of entries are put together. Of others, and of
    rows that were deleted, the beginning counts.
    """
    content = path.read_bytes()
    return b"\n".join((content, *_payloads(path, content), *_inflated(content)))


def files_with(folder: Path, word: bytes, but: tuple[str, ...] = ()) -> list[str]:
    """Return the names of the files in and below a folder in which a word stands."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in but)
    return [path.name for path in files if word in words_in(path)]


def _payloads(path: Path, content: bytes) -> Iterator[bytes]:
    if not content.startswith(b"SQLite format 3\0"):
        return
    ahead = Path(f"{path}-wal")
    for row in PageFile(content, ahead.read_bytes() if ahead.exists() else b"").rows():
        if row.table == "stored_events" and row.values[8] is not None:
            yield decompressed(row.values[-1], row.values[8])


def _inflated(content: bytes) -> Iterator[bytes]:
    for found in BEGINNING.finditer(content):
        reading = zlib.decompressobj()
        with suppress(zlib.error):
            # In small steps: what came before the first byte of another page is kept.
            for at in range(found.start(), len(content), STEP):
                yield reading.decompress(content[at : at + STEP])
                if reading.eof:
                    break
