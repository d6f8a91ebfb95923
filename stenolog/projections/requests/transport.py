"""Bytes of a request as they are sent: its body, and what the transport adds to it.

>>> Transport(add={"stream": True}).render({"model": "m"})
b'{"model":"m","stream":true}'
>>> Transport.of({"style": "text"}).render({"prompt": "User: hi"})
b'User: hi'
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple

from stenolog.domain.errors import CallerError
from stenolog.projections.messages.body_digest import PROMPT
from stenolog.projections.messages.message import Body

NOTHING: Mapping[str, Any] = MappingProxyType({})
# No other header is recorded, since it may be a secret.
BEHAVIOUR = ("anthropic-beta", "anthropic-version", "openai-beta")
"""Headers that change what a provider does with a body."""
DEFAULT_STYLE = "compact"
LARGEST_RAW = 256 << 20
"""Bytes of a request that is kept as it is."""


class Transport(NamedTuple):
    """The changes of a transport to a body before it is sent, so that the log can rebuild the bytes.

    `add` are the fields appended to the body, `remove` the keys that it loses because they are in the `path`.
    `style` is how the body is written:

    - `compact`: JSON without blanks, in UTF-8
    - `spaced`: JSON as Python's `json.dumps` writes it, in ASCII
    - `text`: the prompt of a program, as UTF-8
    - `string`: the prompt as a JSON text in ASCII
    - `lines`: the prompt as UTF-8; a backslash marks each line that equals the end line in `after`
    - `html`: as compact, with `<`, `>`, `&` and the two line separators escaped, as Go writes JSON
    - `raw`: the bytes as they were, deflated in `blob`, if no other style gives them

    `before` and `after` surround it. `headers` are those of `BEHAVIOUR` that were sent. `redacted` names what
    was taken out of the body before it was kept: such bytes cannot be proved.
    """

    method: str = ""
    path: str = ""
    add: Mapping[str, Any] = NOTHING
    remove: tuple[str, ...] = ()
    style: str = DEFAULT_STYLE
    before: str = ""
    after: str = ""
    headers: Mapping[str, str] = NOTHING
    blob: str = ""
    redacted: tuple[str, ...] = ()

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Transport:
        """Return the transport that a receipt names. Raises `CallerError` for a later release's."""
        # With a field that is not understood, other bytes would come out than those that were sent.
        if strange := sorted({*stored} - {*cls._fields}):
            raise CallerError(f"transport: {strange[0]!r} is not known here")
        lists = {name: tuple(stored.get(name, ())) for name in ("remove", "redacted")}
        return cls(**{**stored, **lists})

    @property
    def json(self) -> dict[str, Any]:
        """The transport as a receipt holds it, without defaults."""
        plain = {
            "add": dict(self.add),
            "remove": list(self.remove),
            "headers": dict(self.headers),
            "redacted": list(self.redacted),
        }
        fields = {**self._asdict(), **plain}
        return {name: value for name, value in fields.items() if value and value != DEFAULT_STYLE}

    def patched(self, body: Body) -> Body:
        kept = {key: value for key, value in body.items() if key not in self.remove}
        return {**kept, **self.add}

    def render(self, body: Body, blobs: Mapping[str, bytes] = NOTHING) -> bytes:
        """Return the bytes that are sent. Raises `CallerError` for a body that cannot be written so."""
        if self.style == "raw":
            if self.blob not in blobs:
                raise CallerError(f"blob {self.blob[:12]}… is gone")
            try:
                raw = zlib.decompressobj().decompress(blobs[self.blob], LARGEST_RAW + 1)
            except zlib.error as error:
                raise CallerError(f"blob {self.blob[:12]}…: {error}") from None
            if len(raw) > LARGEST_RAW:
                raise CallerError(
                    f"blob {self.blob[:12]}…: expected at most {LARGEST_RAW:,} bytes, found more"
                )
            return raw
        return self.before.encode() + self._written(body) + self.after.encode()

    def _written(self, body: Body) -> bytes:
        try:
            match self.style:
                case "compact":
                    separators = (",", ":")
                    text = json.dumps(
                        self.patched(body), ensure_ascii=False, separators=separators, allow_nan=False
                    )
                    return text.encode()
                case "html":
                    return _as_go(self.patched(body))
                case "spaced":
                    return json.dumps(self.patched(body), allow_nan=False).encode()
                case "text":
                    return str(body[PROMPT]).encode("utf-8", "replace")
                case "string":
                    return json.dumps(body[PROMPT]).encode()
                case "lines":
                    return self._escaped(body[PROMPT]).encode("utf-8", "replace")
                case _:
                    raise CallerError(f"transport: the style {self.style!r} is not known here")
        except (ValueError, TypeError, KeyError) as error:
            raise CallerError(f"the body cannot be sent as {self.style}: {error}") from None

    def _escaped(self, prompt: str) -> str:
        # Else a line of the prompt that equals the end line would end it early.
        end = self.after.strip("\n")
        return "\n".join(f"\\{row}" if row.rstrip("\r") == end else row for row in prompt.split("\n"))


# What Go's encoder escapes so that JSON can stand in a page. None of them stands outside of a string in JSON.
_ESCAPED = {sign: f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def _as_go(body: Body) -> bytes:
    return as_go(json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)).encode()


def as_go(text: str) -> str:
    """Return JSON with those signs escaped that Go's encoder escapes."""
    for sign, escaped in _ESCAPED.items():
        text = text.replace(sign, escaped)
    return text


class Outgoing(NamedTuple):
    """A request's bytes before sending, and their transport."""

    content: bytes
    transport: Transport

    @property
    def sha256(self) -> str:
        return sha256(self.content).hexdigest()
