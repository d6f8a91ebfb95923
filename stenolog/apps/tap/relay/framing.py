"""Wrong or ambiguous framing of HTTP; messages quote no byte of it."""

from __future__ import annotations

import h11

from stenolog.apps.tap.heads import Headers

BOTH_LENGTHS = "Content-Length beside Transfer-Encoding"
FOLDED = "a header over several lines"
LINE_ENDS = "a line without its carriage return"
FAULTS = {
    "illegal chunk header": "a chunk without its size",
    "malformed chunk footer": "a chunk of another size",
    "illegal header line": "a line that is no header",
    "illegal request line": "a line that is no request",
    "illegal status line": "a line that is no status",
    "continuation line": FOLDED,
    "peer unexpectedly closed": "its end too early",
    "peer closed connection": "its end too early",
    "receive buffer too long": "too long a line",
    "conflicting content-length": "two lengths",
    "bad content-length": "a length that is no number",
    "multiple transfer-encoding": "two transfer encodings",
    "only transfer-encoding": "an unknown transfer encoding",
    "missing mandatory host": "no Host",
    "found multiple host": "two Hosts",
    BOTH_LENGTHS.lower(): BOTH_LENGTHS,
    FOLDED: FOLDED,
    LINE_ENDS: LINE_ENDS,
}
"""The beginnings of h11's words, in small letters, and ours: its own may quote what was sent."""


def fault(error: h11.RemoteProtocolError) -> str:
    """Return what is wrong with a message's framing."""
    words = str(error).lower()
    return next((ours for theirs, ours in FAULTS.items() if words.startswith(theirs)), "another framing")


def ambiguous(head: bytes, headers: Headers) -> str | None:
    """Return why two readers may find different messages in one head; None if they may not."""
    names = {name.lower() for name, _ in headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        return BOTH_LENGTHS
    if head.count(b"\n") != head.count(b"\r\n"):
        return LINE_ENDS
    return FOLDED if b"\n " in head or b"\n\t" in head else None
