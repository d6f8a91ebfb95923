"""Rows of a log's tables, read from its file's bytes without SQLite.

For a file that SQLite cannot read. Each leaf page is read by itself; one with a damaged header is searched
for cells byte by byte. Only a row's form is checked: digests show what was written. Layout:
https://sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from stenolog.adapters.store.sqlite.statements import schema

Values: TypeAlias = tuple[Any, ...]
LEAF_TABLE = 0x0D
PAGE_KINDS = (0x02, 0x05, 0x0A, LEAF_TABLE)
"""The first byte of every page of a b-tree: an index or a table, inside or at a leaf."""
FILE_HEADER = 100
LEAF_HEADER = 8
WAL_HEADER = 32
FRAME_HEADER = 24
# No table of ours has as many columns as would need more.
LONGEST_HEADER = 64
"""Bytes that a row's header may have."""
SIZES = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
"""Bytes of a value by its serial type; from 12 on the type gives the length."""
FLOAT = 7
# A leaf does not say which table it is of; each of these has another number of columns.
TABLES: Mapping[int, tuple[str, str]] = {
    11: ("stored_events", "niititbbIBb"),
    9: ("history", "nitiibtbB"),
    5: ("conversations", "ntIII"),
    3: ("blobs", "nbb"),
}
"""A table's name and the types of its columns, by their number: null (the row's number), integer, text, blob;
a capital letter allows null too."""
KINDS: Mapping[str, type] = {"n": type(None), "i": int, "t": str, "b": bytes}


class RawRow(NamedTuple):
    """A row in a page. `carved`: its page is damaged, and it was found byte by byte.

    `ranges` are its bytes' places in the file.
    """

    table: str
    rowid: int
    values: Values
    carved: bool
    ranges: tuple[tuple[int, int], ...] = ()


class Cell(NamedTuple):
    """A leaf's cell: the row's number, content, and overflow pages."""

    rowid: int
    content: bytes
    end: int
    overflow: tuple[int, ...]


class BadCellError(ValueError):
    """Bytes that are no cell."""


class PageFile:
    """Pages of a database file and its write-ahead log.

    A page may have several versions: the file's, and each later commit's.
    """

    def __init__(self, content: bytes, wal: bytes = b"") -> None:
        self.content = content
        self.page_size, self.usable = _sizes(content)
        self.frames = dict[int, list[bytes]]()
        for number, page in _frames(wal, self.page_size):
            self.frames.setdefault(number, []).append(page)

    @property
    def count(self) -> int:
        """The number of pages, with those that only the write-ahead log has."""
        return max(-(-len(self.content) // self.page_size), *self.frames, 0)

    def versions(self, number: int) -> list[bytes]:
        """Return a page, newest version first. Bytes after a truncated file's end are zero."""
        start = (number - 1) * self.page_size
        page = bytes(self.content[start : start + self.page_size])
        there = [page.ljust(self.page_size, b"\0")] if page else []
        return [*reversed(self.frames.get(number, ())), *there]

    def rows(self) -> Iterator[RawRow]:
        """Yield every row found in any version of a page; rows may repeat."""
        # SQLite's free pages hold rows that were deleted: they must not come back.
        free = self._free_pages()
        chained: set[int] = set()
        damaged: list[tuple[int, bytes]] = []
        for number in range(1, self.count + 1):
            for version in self.versions(number) if number not in free else ():
                found, is_whole = self._leaf(number, version)
                for cell, row in found:
                    chained.update(cell.overflow)
                    yield row
                if not is_whole:
                    damaged.append((number, version))
        # Only now is it known which pages hold the rest of long rows: those have no header of their own.
        for number, version in damaged:
            if number not in chained:
                yield from self._carved(number, version)

    def _leaf(self, number: int, page: bytes) -> tuple[list[tuple[Cell, RawRow]], bool]:
        """Return a page's rows, and whether all of it could be read."""
        # The first page begins with the header of the file.
        start = FILE_HEADER if number == 1 else 0
        if page[start] not in PAGE_KINDS:
            return [], not any(page)
        if page[start] != LEAF_TABLE:
            return [], True
        (count,) = struct.unpack_from(">H", page, start + 3)
        pointers = range(start + LEAF_HEADER, start + LEAF_HEADER + 2 * count, 2)
        found: list[tuple[Cell, RawRow]] = []
        is_whole = pointers.stop <= len(page)
        for pointer in pointers if is_whole else ():
            try:
                (at,) = struct.unpack_from(">H", page, pointer)
                cell = self._cell(page, at)
                row = self._row(number, at, cell, carved=False)
            except (BadCellError, struct.error, IndexError):
                is_whole = False
                continue
            if row is not None:
                found.append((cell, row))
        return found, is_whole

    def _carved(self, number: int, page: bytes) -> Iterator[RawRow]:
        """Yield all that looks like a row of ours anywhere in a page."""
        for at in range(len(page) - 4):
            try:
                _, after = _varint(page, at)
                _, after = _varint(page, after)
                # Every table of ours begins with the row's number, which is stored as null.
                if not 4 <= page[after] <= LONGEST_HEADER or page[after + 1]:
                    continue
                row = self._row(number, at, self._cell(page, at), carved=True)
            except (BadCellError, struct.error, IndexError):
                continue
            if row is not None:
                yield row

    def _cell(self, page: bytes, at: int) -> Cell:
        size, after = _varint(page, at)
        rowid, start = _varint(page, after)
        local = self._local(size)
        if start + local > self.usable:
            raise BadCellError
        content = page[start : start + local]
        if local == size:
            return Cell(_signed(rowid), content, start + local, ())
        (following,) = struct.unpack_from(">I", page, start + local)
        rest, chain = self._overflow(following, size - local)
        return Cell(_signed(rowid), content + rest, start + local + 4, chain)

    def _local(self, size: int) -> int:
        """Return how much of a cell's content is in the leaf itself."""
        most = self.usable - 35
        if size <= most:
            return size
        # The thresholds are those of the file format for a leaf of a table.
        least = (self.usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (self.usable - 4)
        return local if local <= most else least

    def _overflow(self, number: int, size: int) -> tuple[bytes, tuple[int, ...]]:
        # A damaged length: no row is longer than the file.
        if size > self.count * self.page_size:
            raise BadCellError
        pieces: list[bytes] = []
        chain: list[int] = []
        while size > 0:
            versions = self.versions(number) if number else []
            # A damaged link may lead nowhere, or round in a circle.
            if not versions or number in chain:
                raise BadCellError
            chain.append(number)
            piece = versions[0][4 : 4 + min(size, self.usable - 4)]
            pieces.append(piece)
            size -= len(piece)
            (number,) = struct.unpack_from(">I", versions[0])
        return b"".join(pieces), tuple(chain)

    def _row(self, number: int, at: int, cell: Cell, *, carved: bool) -> RawRow | None:
        values = _values(cell.content)
        if len(values) not in TABLES:
            return None
        table, kinds = TABLES[len(values)]
        for kind, value in zip(kinds, values, strict=True):
            if not isinstance(value, KINDS[kind.lower()]) and not (kind.isupper() and value is None):
                return None
        start = (number - 1) * self.page_size
        whole = [((page - 1) * self.page_size, page * self.page_size) for page in cell.overflow]
        return RawRow(table, cell.rowid, values, carved, ((start + at, start + cell.end), *whole))

    def _free_pages(self) -> set[int]:
        """Return the pages that SQLite does not use, whose old rows were deleted."""
        free: set[int] = set()
        first = self.versions(1)
        number = struct.unpack_from(">I", first[0], 32)[0] if first and len(first[0]) >= FILE_HEADER else 0
        while 0 < number <= self.count and number not in free:
            free.add(number)
            trunk = self.versions(number)[0]
            number, count = struct.unpack_from(">II", trunk)
            # The list is damaged: better no page at all is taken for free.
            if count > self.usable // 4 - 2:
                return set()
            free.update(struct.unpack_from(f">{count}I", trunk, 8))
        return free


def read(path: Path) -> PageFile:
    """Return the pages of a file and its write-ahead log. Raises OSError."""
    wal = Path(f"{path}-wal")
    return PageFile(path.read_bytes(), wal.read_bytes() if wal.exists() else b"")


def _sizes(content: bytes) -> tuple[int, int]:
    """Return a page's size and used part; a log's own if the header is damaged."""
    header = content[:FILE_HEADER].ljust(FILE_HEADER, b"\0")
    (size,) = struct.unpack_from(">H", header, 16)
    # Two bytes cannot hold 65536, which is written as 1.
    size = 65536 if size == 1 else size
    if size < 512 or size & (size - 1) or not header.startswith(b"SQLite format 3\0"):
        size = schema.PAGE_SIZE
    return size, size - header[20] if header[20] <= 32 else size


def _frames(wal: bytes, page_size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the pages of a write-ahead log in order."""
    # Checksums are passed over: behind a damaged frame there are good ones, and digests tell which rows are.
    if len(wal) < WAL_HEADER or wal[8:12] != page_size.to_bytes(4, "big"):
        return
    salts = wal[16:24]
    for at in range(WAL_HEADER, len(wal) - FRAME_HEADER - page_size + 1, FRAME_HEADER + page_size):
        (number,) = struct.unpack_from(">I", wal, at)
        # Frames with other salts are left from an earlier round of the log.
        if number and wal[at + 8 : at + 16] == salts:
            yield number, wal[at + FRAME_HEADER : at + FRAME_HEADER + page_size]


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return SQLite's variable-length integer, and the place after it."""
    value = 0
    for nth in range(8):
        byte = content[at + nth]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + nth + 1
    # The ninth byte gives all of its eight bits.
    return value << 8 | content[at + 8], at + 9


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _values(content: bytes) -> Values:
    """Return a row's values. Raises `BadCellError` if header and length do not fit."""
    size, at = _varint(content, 0)
    if size > min(len(content), LONGEST_HEADER):
        raise BadCellError
    types: list[int] = []
    while at < size:
        kind, at = _varint(content, at)
        types.append(kind)
    return tuple(_content(content, size, types))


def _content(content: bytes, at: int, types: Sequence[int]) -> Iterator[Any]:
    for kind in types:
        # SQLite writes none of these into a file.
        if kind in (10, 11):
            raise BadCellError
        length = SIZES[kind] if kind < 12 else (kind - 12) // 2
        piece, at = content[at : at + length], at + length
        if len(piece) < length:
            raise BadCellError
        if kind >= 12:
            yield _text(piece) if kind % 2 else piece
        elif kind == FLOAT:
            yield struct.unpack(">d", piece)[0]
        else:
            # Types 8 and 9 are the numbers 0 and 1, which take no bytes.
            yield None if kind == 0 else kind - 8 if kind >= 8 else int.from_bytes(piece, "big", signed=True)
    # The header tells the length of the whole row, so bytes left over are damage.
    if at != len(content):
        raise BadCellError


def _text(piece: bytes) -> str:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        raise BadCellError from None
