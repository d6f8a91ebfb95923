"""Decisions of people about calls, as they are signed."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple, Protocol

from .values import Control, Signature

BEGINNING = "stenolog decision 1"


class SigningKey(Protocol):
    """A private Ed25519 key: its public key, 32 bytes, and signatures of texts."""

    @property
    def key(self) -> bytes: ...
    def sign(self, text: bytes, /) -> bytes: ...


class DecidedCall(NamedTuple):
    """A call to decide about: its conversation's name, its tool, its arguments as made, and its question."""

    conversation: str
    tool: str
    arguments: str
    question: str = ""


def signed_text(control: Control, call: DecidedCall, at: int) -> bytes:
    """Return what is signed: a line, and a JSON array.

    Of conversation, entry and index of the call, tool, sha256 of the arguments that it may run with, verdict,
    identity, and time; of an answer also the question and the answer.
    """
    assert control.call is not None, "a decision names a call"
    arguments = sha256((control.arguments or call.arguments).encode(errors="surrogatepass")).hexdigest()
    place = (call.conversation, control.call.entry, control.call.index)
    fields: tuple[object, ...] = (*place, call.tool, arguments, control.action, control.identity, at)
    if control.action == "answer":
        fields = (*fields, call.question, control.answer)
    words = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return f"{BEGINNING}\n{words}".encode(errors="surrogatepass")


def signed(control: Control, call: DecidedCall, signer: SigningKey, at: int) -> Control:
    """Return a decision with its signature at a time (microseconds since 1970, UTC)."""
    value = signer.sign(signed_text(control, call, at)).hex()
    return replace(control, signature=Signature(key=signer.key.hex(), value=value, at=at))
