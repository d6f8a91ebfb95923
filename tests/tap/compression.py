"""Content codings as a provider uses them: a coding that the client accepts, flushed at each piece."""

from __future__ import annotations

import zlib

import brotli  # type: ignore[import-untyped]
import zstandard


class Encoder:
    """A coding of a stream whose pieces a client can read as they come; this one changes nothing."""

    coding = ""

    @property
    def headers(self) -> list[tuple[str, str]]:
        return [("content-encoding", self.coding)] if self.coding else []

    def part(self, content: bytes) -> bytes:
        """Return a piece, encoded and flushed."""
        return content

    def end(self) -> bytes:
        """Return the coding's end."""
        return b""


class Gzip(Encoder):
    """Deflate in the frame of gzip."""

    coding = "gzip"

    def __init__(self) -> None:
        self._inner = zlib.compressobj(6, zlib.DEFLATED, 31)

    def part(self, content: bytes) -> bytes:
        return self._inner.compress(content) + self._inner.flush(zlib.Z_SYNC_FLUSH)

    def end(self) -> bytes:
        return self._inner.flush()


class Zstd(Encoder):
    """Zstandard."""

    coding = "zstd"

    def __init__(self) -> None:
        self._inner = zstandard.ZstdCompressor(level=1).compressobj()

    def part(self, content: bytes) -> bytes:
        compressed = self._inner.compress(content)
        return compressed + self._inner.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    def end(self) -> bytes:
        return self._inner.flush()


class Brotli(Encoder):
    """Brotli."""

    coding = "br"

    def __init__(self) -> None:
        self._inner = brotli.Compressor(quality=4)

    def part(self, content: bytes) -> bytes:
        return bytes(self._inner.process(content) + self._inner.flush())

    def end(self) -> bytes:
        return bytes(self._inner.finish())


def encoder(accepted: str, seed: str) -> Encoder:
    """Return a coding that the client accepts, or none: another one for another seed."""
    names = {name.partition(";")[0].strip().lower() for name in accepted.split(",")}
    codings: tuple[type[Encoder], ...] = (Gzip, Zstd, Brotli)
    choices: list[type[Encoder]] = [Encoder, *(one for one in codings if one.coding in names)]
    return choices[int(seed[-4:], 16) % len(choices)]()


def inflate(content: bytes, coding: str) -> bytes:
    """Return a request's content without its coding."""
    match coding.lower():
        case "gzip":
            return zlib.decompress(content, 31)
        case "zstd":
            return zstandard.ZstdDecompressor().decompressobj().decompress(content)
        case "br":
            return bytes(brotli.decompress(content))
        case "deflate":
            return zlib.decompress(content)
        case _:
            return content
