"""Anchors of evidence packs: what an outside server or program answers to a pack's hash.

A time stamp of RFC 3161 by HTTP, or the output of a command.
"""

from __future__ import annotations

import shlex
import subprocess
from http.client import HTTPException
from typing import Literal, NamedTuple
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from stenolog.domain.errors import CallerError, OperationalError

QUERY = bytes.fromhex("3039020101 3031300d06096086480165030402010500 0420".replace(" ", ""))
"""A query for a time stamp of a SHA-256, up to the hash: version 1, the algorithm, the length."""
CERTIFICATE = bytes.fromhex("0101ff")
"""The end of a query: the answer shall have the certificate."""
GRANTED = (0, 1)
"""The states of an answer with a time stamp: granted, granted with changes."""
SEQUENCE, INTEGER = 0x30, 0x02
SECONDS = 60
LARGEST = 1 << 20
"""Bytes of an answer."""


class Anchor(NamedTuple):
    """An answer to a pack's hash; `name` is the address or the command's first word."""

    kind: Literal["rfc3161", "command"]
    name: str
    answer: bytes


def anchor(where: str, of: str) -> Anchor:
    """Return the answer to a hash (hexadecimal) of a time-stamping server (a URL), or of a command.

    The command gets the hash as its last argument. Raises `CallerError` for an invalid one, and
    `OperationalError` if it fails or does not stamp the hash.
    """
    address = urlsplit(where)
    if address.scheme in ("http", "https") and address.hostname:
        host = address.hostname if address.port is None else f"{address.hostname}:{address.port}"
        # The name is published: without user, password and query.
        name = f"{address.scheme}://{host}{address.path}"
        return Anchor("rfc3161", name, _time_stamp(where, name, bytes.fromhex(of)))
    try:
        words = shlex.split(where)
    except ValueError as error:
        raise CallerError(f"anchor: expected a URL or a command: {error}") from None
    if not words:
        raise CallerError("anchor: expected a URL or a command, found nothing")
    return Anchor("command", words[0], _output(words, of))


def _time_stamp(url: str, name: str, of: bytes) -> bytes:
    asked = Request(
        url, QUERY + of + CERTIFICATE, {"Content-Type": "application/timestamp-query"}, method="POST"
    )
    try:
        with urlopen(asked, timeout=SECONDS) as answer:
            content: bytes = answer.read(LARGEST + 1)
    except (URLError, HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise OperationalError(f"anchor: {name}: no time stamp: {reason}") from None
    status = _status(content)
    if status not in GRANTED:
        found = "an answer that is none" if status is None else f"status {status}"
        raise OperationalError(f"anchor: {name}: expected a time stamp, found {found}")
    if of not in content or len(content) > LARGEST:
        raise OperationalError(f"anchor: {name}: the time stamp is not of this hash")
    return content


def _status(answer: bytes) -> int | None:
    """Return the status of an answer; None if it is not DER of that form."""
    try:
        inner = _value(_value(answer, SEQUENCE), SEQUENCE)
        return int.from_bytes(_value(inner, INTEGER), "big")
    except (IndexError, ValueError):
        return None


def _value(der: bytes, tag: int) -> bytes:
    """Return the first value's bytes. Raises `ValueError`, IndexError for another tag or a cut."""
    if der[0] != tag:
        raise ValueError(f"expected the tag {tag}, found {der[0]}")
    size, begin = der[1], 2
    if size & 0x80:
        begin += size & 0x7F
        size = int.from_bytes(der[2:begin], "big")
    if len(der) < begin + size:
        raise ValueError("cut off")
    return der[begin : begin + size]


def _output(words: list[str], of: str) -> bytes:
    try:
        done = subprocess.run([*words, of], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise OperationalError(f"anchor: {words[0]}: {error}") from None
    if done.returncode:
        raise OperationalError(f"anchor: {words[0]} failed with {done.returncode}")
    if len(done.stdout) > LARGEST:
        raise OperationalError(f"anchor: {words[0]}: expected at most {LARGEST:,} bytes, found more")
    return done.stdout
