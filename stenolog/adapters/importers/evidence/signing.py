"""Ed25519 signatures of evidence packs and decisions, by a key in a file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from stenolog.domain.errors import CallerError, MissingExtraError

PASSPHRASE = "STENOLOG_SIGN_PASSPHRASE"
"""The variable with the passphrase of a key."""
OPENSSH = b"-----BEGIN OPENSSH PRIVATE KEY-----"
LONGEST_KEY = 65_536
HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")


class Signer(NamedTuple):
    """A signer: its name in the pack, its public key (32 bytes), and `sign`, which returns a signature."""

    by: str
    key: bytes
    sign: Callable[[bytes], bytes]


def read_signer(path: str | os.PathLike[str], *, by: str = "", passphrase: str | None = None) -> Signer:
    """Return the signer whose Ed25519 private key is in a file: PEM (PKCS #8) or OpenSSH.

    `passphrase` defaults to the variable STENOLOG_SIGN_PASSPHRASE. Raises `CallerError` for any other file or
    key, and a wrong or missing passphrase, `MissingExtraError`, OSError.
    """
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key
    except ImportError:
        raise MissingExtraError("evidence", "cryptography") from None
    if "\n" in by:
        raise CallerError("evidence: expected a signer's name on one line")
    with Path(path).open("rb") as file:
        content = file.read(LONGEST_KEY)
    words = os.environ.get(PASSPHRASE) if passphrase is None else passphrase
    load = load_ssh_private_key if OPENSSH in content else load_pem_private_key
    # The messages of the library are left out: nothing of a key shall be printed.
    try:
        key = load(content, words.encode() if words else None)
    except TypeError:
        how = f"set {PASSPHRASE}" if not words else f"it has none: unset {PASSPHRASE}"
        raise CallerError(f"{path}: the key's passphrase: {how}") from None
    except (ValueError, UnsupportedAlgorithm):
        wrong = " (or another passphrase)" if words else ""
        raise CallerError(
            f"{path}: expected a private key in PEM or of OpenSSH, found something else{wrong}"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        found = type(key).__name__.removesuffix("PrivateKey").strip("_") or "another"
        raise CallerError(f"{path}: expected an Ed25519 key, found one of {found}")
    return Signer(by, key.public_key().public_bytes_raw(), key.sign)


def is_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    """Return whether a public key signed a text. Raises `MissingExtraError`."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise MissingExtraError("evidence", "cryptography") from None
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_public_key(written: str) -> bytes:
    """Return an Ed25519 public key, 32 bytes: 64 hexadecimal digits, or a file in PEM or of OpenSSH.

    Raises `CallerError`, `MissingExtraError`, OSError.
    """
    if HEX_KEY.fullmatch(written):
        return bytes.fromhex(written)
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_public_key
    except ImportError:
        raise MissingExtraError("evidence", "cryptography") from None
    with Path(written).open("rb") as file:
        content = file.read(LONGEST_KEY)
    try:
        key = (load_pem_public_key if content.startswith(b"-----") else load_ssh_public_key)(content)
    except (ValueError, UnsupportedAlgorithm):
        raise CallerError(
            f"{written}: expected a public key in PEM or of OpenSSH, found something else"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise CallerError(f"{written}: expected an Ed25519 key, found one of another kind")
    return key.public_bytes_raw()
