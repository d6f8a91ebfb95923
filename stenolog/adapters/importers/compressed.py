"""Compressed transcripts: decompressed into a temporary file, so that every importer can read them."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO, cast

from stenolog.domain.errors import MissingExtraError

ZSTD = b"\x28\xb5\x2f\xfd"
"""The first bytes of a Zstandard frame."""
GZIP = b"\x1f\x8b\x08"
"""The first bytes of a gzip member."""
_GZIP_BITS = 16 + zlib.MAX_WBITS
_CHUNK = 1024 * 1024


@contextmanager
def decompressed(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Yield the content of a stream, at its beginning: decompressed, or the stream itself.

    A file whose end is cut off yields what stands before the cut. Raises `MissingExtraError` where the
    package that reads Zstandard is not installed.
    """
    stream.seek(0)
    first = stream.read(len(ZSTD))
    stream.seek(0)
    if not first.startswith((ZSTD, GZIP)):
        yield stream
        return
    with TemporaryFile() as content:
        copy = _copy_zstd if first == ZSTD else _copy_gzip
        copy(stream, content)
        stream.seek(0)
        content.seek(0)
        yield cast("BinaryIO", content)


def plain_bytes(content: bytes) -> bytes:
    """Return the content of bytes that may be compressed, up to a cut. Raises `MissingExtraError`."""
    with decompressed(BytesIO(content)) as plain:
        return plain.read()


def _copy_gzip(stream: BinaryIO, content: IO[bytes]) -> None:
    """Copy the content of all members, as far as it can be decompressed."""
    member = zlib.decompressobj(_GZIP_BITS)
    while chunk := stream.read(_CHUNK):
        while chunk:
            try:
                content.write(member.decompress(chunk))
            except zlib.error:
                return
            chunk = member.unused_data
            if member.eof:
                member = zlib.decompressobj(_GZIP_BITS)


def _copy_zstd(stream: BinaryIO, content: IO[bytes]) -> None:
    """Copy the content of all frames: a program that appends to a file adds a frame each time."""
    try:
        zstd = importlib.import_module("compression.zstd")  # part of Python from 3.14 on
    except ModuleNotFoundError:
        try:
            zstd = importlib.import_module("zstandard")
        except ModuleNotFoundError:
            raise MissingExtraError("zstd", "zstandard") from None
        reader = zstd.ZstdDecompressor().stream_reader(stream, read_across_frames=True, closefd=False)
        _copy_readable(reader, content, (zstd.ZstdError,))
        return
    with zstd.open(stream) as packed:
        _copy_readable(packed, content, (EOFError, zstd.ZstdError))


def _copy_readable(packed: Any, content: IO[bytes], faults: tuple[type[Exception], ...]) -> None:
    """Copy up to the end, or to the place where the rest cannot be decompressed."""
    try:
        copyfileobj(packed, content, _CHUNK)
    except faults:
        return
