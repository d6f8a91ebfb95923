"""One exchange as it went over the wire: a request of a client, and what its provider answered."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

IDENTITY = ("", "identity")


@dataclass
class RecordedExchange:
    """A request, and its answer as far as it has come.

    `id` is unique over all taps. `headers` have names in lower case, and no secret. `content` and `answer`
    are the bytes of the bodies, without the framing of HTTP, as they went over the wire. `status` 0: no
    answer has begun. `reason` says why the answer ended early; empty: it is whole, or has not ended.
    `redacts`: secrets are taken out of it, and `redacted` are the kinds of those that were. `blobs` are the
    content, in order, where it is too large to be held in memory.
    """

    id: str
    time: datetime
    method: str
    path: str
    upstream: str
    host: str = ""
    run: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    blobs: tuple[str, ...] = ()
    sha256: str = ""
    redacted: tuple[str, ...] = ()
    redacts: bool = False
    unproven: bool = False
    status: int = 0
    answer_headers: Mapping[str, str] = field(default_factory=dict)
    answer: bytearray = field(default_factory=bytearray)
    first_ns: int = 0
    begun_ns: int = 0
    ended_ns: int = 0
    reason: str = ""

    @property
    def body(self) -> bytes:
        """The request's content, decoded. Raises `ValueError` for an encoding that is not known here."""
        return decoded(self.content, self.headers.get("content-encoding", ""))

    @property
    def sent_sha256(self) -> str:
        """The sha256 of the request's decoded content, before anything was redacted in it."""
        if self.redacted and self.sha256:
            return self.sha256
        return sha256(self.body).hexdigest()


def decoded(content: bytes, encoding: str) -> bytes:
    """Return content without its Content-Encoding, as far as it has come.

    Raises `ValueError` for an encoding that is not known here, and for content that is not in it.
    """
    found = content
    for name in reversed([each.strip().lower() for each in encoding.split(",")]):
        if name not in IDENTITY:
            found = _decoded(found, name)
    return found


def _decoded(content: bytes, name: str) -> bytes:
    try:
        match name:
            case "gzip" | "x-gzip":
                return _all_members(content)
            case "deflate":
                return _inflated(content)
            case "br":
                return _brotli(content)
            case "zstd":
                return _zstd(content)
            case _:
                raise ValueError(f"Content-Encoding: expected gzip, deflate, br or zstd, found {name:.40}")
    except (zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise ValueError(f"Content-Encoding {name}: {error}") from None


def _all_members(content: bytes) -> bytes:
    """Return the content of a gzip stream that may have several members, or end in the middle of one."""
    made, rest = bytearray(), content
    while rest:
        member = zlib.decompressobj(wbits=31)
        made += member.decompress(rest)
        if not member.eof:
            break
        rest = member.unused_data.lstrip(b"\0")
    return bytes(made)


def _inflated(content: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(content)
    except zlib.error:
        # Some servers leave out the two bytes of the zlib header.
        return zlib.decompressobj(wbits=-15).decompress(content)


def _brotli(content: bytes) -> bytes:
    brotli = _library("brotli", "br")
    stream = brotli.Decompressor()
    try:
        return bytes(stream.process(content))
    except brotli.error as error:
        raise ValueError(f"Content-Encoding br: {error}") from None


def _zstd(content: bytes) -> bytes:
    zstandard = _library("zstandard", "zstd")
    try:
        made, rest = bytearray(), content
        while rest:
            frame = zstandard.ZstdDecompressor().decompressobj()
            made += frame.decompress(rest)
            rest = frame.unused_data
        return bytes(made)
    except zstandard.ZstdError as error:
        raise ValueError(f"Content-Encoding zstd: {error}") from None


def _library(name: str, encoding: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise ValueError(
            f"Content-Encoding {encoding}: {name} is not installed (pip install 'stenolog[tap]')"
        ) from None
