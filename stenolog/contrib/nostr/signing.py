"""Secret keys of agents, and events signed with them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from stenolog.errors import CallerError, MissingExtraError

from .events import NostrEvent, forms_of, is_hex
from .participants import bech32

if TYPE_CHECKING:
    from coincurve import PrivateKey

USER = "user"
"""The name under which the key of the conversation's user is given."""


class Signer:
    """The key of one author: `pubkey` is the public one, and no text shows the secret one."""

    def __init__(self, secret: str, name: str) -> None:
        try:
            from coincurve import PrivateKey
        except ImportError:
            raise MissingExtraError("nostr", "coincurve") from None
        try:
            self._key: PrivateKey = PrivateKey(_secret_bytes(secret))
        except ValueError:
            raise CallerError(
                f"keys: {name}: expected a secret key (64 hexadecimal digits, or nsec1…)"
            ) from None
        self.pubkey = self._key.public_key_xonly.format().hex()

    def __repr__(self) -> str:
        return f"<Signer {self.pubkey[:8]}…>"

    def signed(self, created_at: int, kind: int, tags: Sequence[Sequence[str]], content: str) -> NostrEvent:
        """Return a signed event; the same one for the same values."""
        made = NostrEvent("", self.pubkey, created_at, kind, tuple(map(tuple, tags)), content, "")
        digest = sha256(forms_of(made)[0].encode()).digest()
        # No randomness: the same event has the same signature, wherever and whenever it is made.
        return made._replace(id=digest.hex(), sig=self._key.sign_schnorr(digest, bytes(32)).hex())


def signers(keys: Mapping[str, str] | str | os.PathLike[str]) -> dict[str, Signer]:
    """Return the signers by the names of agents; `user` is the conversation's user.

    `keys` are secret keys by name, or the path of a JSON file with them. Raises `CallerError`, which shows
    no key, and `MissingExtraError`.
    """
    told = keys if isinstance(keys, Mapping) else _read(Path(keys))
    if not told or not all(isinstance(each, str) for pair in told.items() for each in pair):
        raise CallerError("keys: expected secret keys by the names of agents")
    return {name: Signer(secret, name) for name, secret in told.items()}


def _read(path: Path) -> Mapping[str, str]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise CallerError(f"keys: {path}: {error.strerror or error}") from None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CallerError(f"keys: {path}: expected a JSON object of secret keys by the names of agents")
    return found


def _secret_bytes(secret: str) -> bytes:
    if is_hex(secret, 64):
        return bytes.fromhex(secret)
    kind, content = bech32(secret) or ("", b"")
    if kind != "nsec" or len(content) != 32:
        raise ValueError
    return content
