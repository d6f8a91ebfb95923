"""ZIP archives of others: their members, within one budget for the whole file."""

from __future__ import annotations

import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from io import BytesIO
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from stenolog.domain.errors import UnknownFormatError

from .files import Budget, from_zstd

ZIP = b"PK\x03\x04"
"""The first bytes of an archive."""
MOST_MEMBERS = 100_000
ZSTD_METHOD = 93
_CHUNK = 1024 * 1024
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_ENCRYPTED = 1
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, struct.error)


def zip_names(stream: BinaryIO) -> list[str]:
    """Return the names of an archive's members, in order; none if it is no archive."""
    try:
        with zipfile.ZipFile(stream) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError):
        return []
    finally:
        stream.seek(0)


def zip_members(stream: BinaryIO, *prefixes: str) -> Iterator[tuple[str, BinaryIO]]:
    """Yield each member whose name begins with one of the prefixes, and its content.

    Raises `UnknownFormatError` for an archive that is broken, encrypted or of an unknown method, or that
    holds more than its budget; `MissingExtraError` without the package for Zstandard.
    """
    budget = Budget(stream.seek(0, os.SEEK_END))
    try:
        with zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
            if len(members) > MOST_MEMBERS:
                raise UnknownFormatError(
                    f"expected at most {MOST_MEMBERS:,} members in an archive, found {len(members):,}"
                )
            for member in members:
                if member.filename.startswith(prefixes):
                    with TemporaryFile(prefix="stenolog-") as content:
                        for piece in _pieces(stream, archive, member):
                            budget.spend(len(piece))
                            content.write(piece)
                        content.seek(0)
                        yield member.filename, cast("BinaryIO", content)
    except (*_BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's; that of bz2 has no number
            raise
        raise UnknownFormatError(
            f"expected an archive that can be read, found a broken one: {error}"
        ) from None


def _pieces(stream: BinaryIO, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    if member.flag_bits & _ENCRYPTED:
        raise UnknownFormatError(f"expected a plain archive, found an encrypted one ({member.filename:.60})")
    if member.compress_type != ZSTD_METHOD:
        with archive.open(member) as content:
            while piece := content.read(_CHUNK):
                yield piece
        return
    stream.seek(member.header_offset)
    _, name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    stream.seek(name + extra, os.SEEK_CUR)
    yield from from_zstd(BytesIO(stream.read(member.compress_size)))
