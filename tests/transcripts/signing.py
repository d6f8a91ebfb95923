"""Nostr events made up for the tests, and signed."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from typing import Any

from coincurve import PrivateKey

Json = dict[str, Any]
NOON = 1_767_268_800
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


@cache
def _private(who: str) -> PrivateKey:
    return PrivateKey(sha256(who.encode()).digest())


def key(who: str) -> str:
    """Return a person's public key."""
    return _private(who).public_key_xonly.format().hex()


def event(
    who: str, content: str, *tags: list[str], kind: int = 1111, at: int = 0, under: str = "", to: str = ""
) -> Json:
    """Return a person's event, so many seconds after noon, `under` this root and `to` these people."""
    more = [["E", under], ["e", under]] if under else []
    more += [["p", key(name)] for name in to.split()]
    made = [0, key(who), NOON + at, kind, [*more, *tags], content]
    return signed(who, made)


def signed(who: str, made: list[Any], hashed: bytes = b"") -> Json:
    """Return the event of the list that is hashed, in its usual form unless another is given."""
    usual = json.dumps(made, separators=(",", ":"), ensure_ascii=False).encode()
    digest = sha256(hashed or usual).digest()
    names = ("pubkey", "created_at", "kind", "tags", "content")
    signature = _private(who).sign_schnorr(digest, bytes(32)).hex()
    return {"id": digest.hex(), **dict(zip(names, made[1:], strict=True)), "sig": signature}


def profile(who: str, *tags: list[str], name: str = "", at: int = -60, **fields: Any) -> Json:
    """Return a person's profile."""
    return event(who, json.dumps({"name": name or who, **fields}), *tags, kind=0, at=at)


def bot(who: str, **fields: Any) -> Json:
    """Return an agent's profile."""
    return profile(who, ["bot"], **fields)


def entity(prefix: str, *values: bytes) -> str:
    """Return a bech32 text (NIP-19): of one value, or of values each with a type (0, 1 …) and a length."""
    content = (
        values[0] if len(values) == 1 else b"".join(bytes([nth, len(v)]) + v for nth, v in enumerate(values))
    )
    if prefix in ("nevent", "nprofile") and len(values) == 1:
        content = bytes([0, len(values[0])]) + values[0]
    bits = "".join(f"{byte:08b}" for byte in content)
    bits += "0" * (-len(bits) % 5)
    data = [int(bits[at : at + 5], 2) for at in range(0, len(bits), 5)]
    head = [ord(c) >> 5 for c in prefix] + [0] + [ord(c) & 31 for c in prefix]
    check = _polymod([*head, *data, *[0] * 6]) ^ 1
    data += [check >> 5 * (5 - nth) & 31 for nth in range(6)]
    return f"{prefix}1" + "".join(_BECH32[value] for value in data)


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top, check = check >> 25, (check & 0x1FFFFFF) << 5 ^ value
        for bit, term in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= term * (top >> bit & 1)
    return check
