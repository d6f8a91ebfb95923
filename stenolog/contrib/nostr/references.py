"""`nostr:` references (NIP-19, NIP-21) in a text: what they refer to, and that in their place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATORS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_REFERENCE = re.compile(r"nostr:((?:npub|nprofile|note|nevent)1[02-9ac-hj-np-z]{6,5000})")
_BYTES = 32
LONGEST_QUOTE = 2000
"""The most characters of an event that replace a reference to it: any number of events may refer to it."""


class Referred(NamedTuple):
    """The target of a reference: the id of an event, or a person's key; the other one is empty."""

    event: str = ""
    pubkey: str = ""


def referred(reference: str) -> Referred | None:
    """Return the target of an `npub`, `nprofile`, `note` or `nevent`; None if it is none, or mistyped."""
    decoded = _bech32(reference)
    if decoded is None:
        return None
    kind, content = decoded
    if kind in ("nprofile", "nevent"):
        content = _first_special(content)
    if len(content) != _BYTES:
        return None
    match kind:
        case "npub" | "nprofile":
            return Referred(pubkey=content.hex())
        case "note" | "nevent":
            return Referred(event=content.hex())
        case _:
            return None


def resolved(text: str, event: Callable[[str], str | None], name: Callable[[str], str]) -> str:
    """The text with what an event says in the place of a reference to it, and `@name` for one to somebody.

    `event` gives what an event says, and by whom, as one text, and `name` somebody's name; None or nothing
    leaves the reference as it is. What is quoted stands behind `> `, line by line, once, cut at
    `LONGEST_QUOTE`, and the references in it are left: a chain of them could grow without end.
    """
    quoted: set[str] = set()

    def put(found: re.Match[str]) -> str:
        to = referred(found[1])
        if to is None:
            return found[0]
        if to.pubkey:
            return f"@{known}" if (known := name(to.pubkey)) else found[0]
        said = None if to.event in quoted else event(to.event)
        if said is None:
            return found[0]
        if len(said) > LONGEST_QUOTE:
            said = f"{said[:LONGEST_QUOTE]}…"
        quoted.add(to.event)
        before = "" if not text[: found.start()].rstrip(" ") or text[: found.start()].endswith("\n") else "\n"
        after = "" if found.end() == len(text) or text.startswith("\n", found.end()) else "\n"
        return before + "\n".join(f"> {line}" for line in said.splitlines()) + after

    return _REFERENCE.sub(put, text)


def _bech32(text: str) -> tuple[str, bytes] | None:
    """The prefix and the bytes of a bech32 text, of any length; None where it is none."""
    prefix, one, data = text.rpartition("1")
    if not (prefix and one) or not set(data) <= set(_LETTERS):
        return None
    values = [_LETTERS.index(letter) for letter in data]
    expanded = [ord(letter) >> 5 for letter in prefix] + [0] + [ord(letter) & 31 for letter in prefix]
    if len(values) < 6 or _checksum(expanded + values) != 1:
        return None
    content = _regrouped(values[:-6])
    return None if content is None else (prefix, content)


def _checksum(values: list[int]) -> int:
    check = 1
    for value in values:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate(_GENERATORS):
            check ^= generator if top >> bit & 1 else 0
    return check


def _regrouped(values: list[int]) -> bytes | None:
    """Groups of five bits as bytes; None where more than padding is left over."""
    bits = len(values) * 5
    number = 0
    for value in values:
        number = number << 5 | value
    left = bits % 8
    if left >= 5 or number & ((1 << left) - 1):
        return None
    return (number >> left).to_bytes(bits // 8, "big")


def _first_special(content: bytes) -> bytes:
    """The first value of type 0 in a list of type, length, value; empty where there is none."""
    at = 0
    while at + 2 <= len(content):
        kind, length = content[at], content[at + 1]
        value = content[at + 2 : at + 2 + length]
        if kind == 0:
            return value
        at += 2 + length
    return b""
