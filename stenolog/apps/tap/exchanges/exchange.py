"""One exchange as it went over the wire: a client's request, and its provider's answer."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from io import BytesIO
from typing import Any, NamedTuple

from stenolog.domain.errors import ModelError
from stenolog.domain.parts import AssistantPart
from stenolog.domain.values import Usage
from stenolog.projections.messages.json_fields import as_list

IDENTITY = ("", "identity")
LARGEST_CONTENT = 128 << 20
"""Bytes that a body may be decoded to: a few hundred may hold thousands of millions."""
_PART = 64 << 10


class Answered(NamedTuple):
    """Outcome of an exchange. `failure` is None for a whole answer.

    `id` is the response's at the provider, `model` the one that answered. `unread` says what is not recorded.
    """

    parts: tuple[AssistantPart, ...]
    model: str = ""
    finish_reason: str = ""
    usage: Usage | None = None
    id: str = ""
    failure: ModelError | None = None
    unread: str = ""


@dataclass
class RecordedExchange:
    """A request, and its answer as far as it has come.

    `id` is unique over all taps. `headers` have names in lower case, and no secret. `content` and `answer`
    are the bodies as sent, without HTTP framing. `status` is 0 before an answer. `reason` says why the answer
    ended early; empty if whole or under way. `redacts`: secrets are removed; `redacted` are their kinds.
    `blobs` are the content, in order, if it is too large for memory. `is_parsed`: only the content's JSON is
    known, not the bytes that were sent. `answered` is an outcome that was read before.
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
    is_parsed: bool = False
    answered: Answered | None = None

    @property
    def body(self) -> bytes:
        """The request's decoded content. Raises `ValueError` for an unknown encoding."""
        return decoded(self.content, self.headers.get("content-encoding", ""))

    @property
    def sent_sha256(self) -> str:
        """The sha256 of the request's decoded content, before redaction."""
        if self.redacted and self.sha256:
            return self.sha256
        return sha256(self.body).hexdigest()


def headers_in(given: Any) -> dict[str, str]:
    """Return headers by lower-case name; the first of several."""
    headers: dict[str, str] = {}
    for pair in as_list(given):
        if isinstance(pair, list) and len(pair) == 2:
            headers.setdefault(str(pair[0]).lower(), str(pair[1]))
    return headers


def without_encoding(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of decoded content."""
    return {name: value for name, value in headers.items() if name != "content-encoding"}


def decoded(content: bytes, encoding: str) -> bytes:
    """Return content without its Content-Encoding, as far as it has come.

    Raises `ValueError` for an unknown encoding, for content that is not in it, and above `LARGEST_CONTENT`
    bytes.
    """
    found = content
    for name in reversed([each.strip().lower() for each in encoding.split(",")]):
        if name not in IDENTITY:
            found = _decoded(found, name)
    return found


def _decoded(content: bytes, name: str) -> bytes:
    most = LARGEST_CONTENT + 1
    try:
        match name:
            case "gzip" | "x-gzip":
                found = _all_members(content, most)
            case "deflate":
                found = _inflated(content, most)
            case "br":
                found = _brotli(content, most)
            case "zstd":
                found = _zstd(content, most)
            case _:
                raise ValueError(f"Content-Encoding: expected gzip, deflate, br or zstd, found {name:.40}")
    except (zlib.error, EOFError) as error:
        raise ValueError(f"Content-Encoding {name}: {error}") from None
    if len(found) > LARGEST_CONTENT:
        raise ValueError(f"Content-Encoding {name}: expected at most {LARGEST_CONTENT:,} bytes, found more")
    return found


def _all_members(content: bytes, most: int) -> bytes:
    """Return the content of a gzip stream that may have several members, or be cut."""
    decoded, member = bytearray(), None
    # In parts: what follows a member is copied, and each may have a few bytes only.
    for at in range(0, len(content), _PART):
        rest = content[at : at + _PART]
        while rest := rest if member else rest.lstrip(b"\0"):
            member = member or zlib.decompressobj(wbits=31)
            decoded += member.decompress(rest, most - len(decoded))
            if len(decoded) == most:
                return bytes(decoded)
            rest, member = member.unused_data, None if member.eof else member
    return bytes(decoded)


def _inflated(content: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(content, most)
    except zlib.error:
        # Some servers leave out the two bytes of the zlib header.
        return zlib.decompressobj(wbits=-15).decompress(content, most)


def _brotli(content: bytes, most: int) -> bytes:
    brotli = _library("brotli", "br")
    try:
        return bytes(brotli.Decompressor().process(content, output_buffer_limit=most))
    except brotli.error as error:
        raise ValueError(f"Content-Encoding br: {error}") from None


def _zstd(content: bytes, most: int) -> bytes:
    zstandard, decoded = _library("zstandard", "zstd"), bytearray()
    packed = zstandard.ZstdDecompressor().stream_reader(BytesIO(content), read_across_frames=True)
    try:
        while len(decoded) < most and (piece := packed.read(_PART)):
            decoded += piece
    except zstandard.ZstdError as error:
        raise ValueError(f"Content-Encoding zstd: {error}") from None
    return bytes(decoded)


def _library(name: str, encoding: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise ValueError(
            f"Content-Encoding {encoding}: {name} is not installed (pip install 'stenolog[tap]')"
        ) from None
