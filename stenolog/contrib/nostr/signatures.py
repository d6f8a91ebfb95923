"""Check of Nostr events' Schnorr signatures over secp256k1 (BIP-340)."""

from __future__ import annotations

from collections.abc import Callable

from stenolog.errors import MissingExtraError

from .events import NostrEvent


def checker() -> Callable[[NostrEvent], bool]:
    """Return a function that tells whether an event's author signed it. Raises `MissingExtraError`.

    There is no way around it: whose words an unchecked event holds nobody knows, and an agent's context is
    no place for them.
    """
    try:
        from coincurve import PublicKeyXOnly
    except ImportError:
        raise MissingExtraError("nostr", "coincurve") from None

    def is_signed(event: NostrEvent) -> bool:
        try:
            author = PublicKeyXOnly(bytes.fromhex(event.pubkey))
        except ValueError:  # no point of the curve
            return False
        return author.verify(bytes.fromhex(event.sig), bytes.fromhex(event.id))

    return is_signed
