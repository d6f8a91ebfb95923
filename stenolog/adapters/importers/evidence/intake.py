"""Import of evidence packs: verified completely, then written in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from stenolog.adapters.importers.formats import Importer
from stenolog.adapters.importers.intake.whole_file import WholeFile
from stenolog.adapters.importers.own.jsonl import LONGEST_LINE, Header, Piece, Withheld, import_pieces
from stenolog.adapters.store.contract.values import BlobContent
from stenolog.domain.errors import CorruptLogError
from stenolog.projections.evidence.reading import BEGINNING, Blob, PackReader, Shown, Stated

from .signing import is_signed


def _import(file: WholeFile) -> None:
    import_pieces(file.log, file.stream, _pieces, file.report, file.naming.name, file.moved)


def _pieces(stream: BinaryIO) -> Iterator[Piece]:
    """Yield the pieces of a pack. Raises `CorruptLogError` as soon as a check fails."""
    stream.seek(0)
    reader = PackReader(is_signed)
    while raw := stream.readline(LONGEST_LINE + 1):
        if len(raw) > LONGEST_LINE:
            raise CorruptLogError(f"expected lines of at most {LONGEST_LINE:,} bytes, found a longer one")
        match reader.take(raw):
            case Stated() as stated:
                yield Header(*stated)
            case Blob() as blob:
                yield BlobContent(*blob)
            case Shown(record, is_withheld):
                yield Withheld(record) if is_withheld else record
            case None:
                pass
    reader.end()


EVIDENCE = Importer("evidence", write=_import, is_start=lambda first, _: first.startswith(BEGINNING))
