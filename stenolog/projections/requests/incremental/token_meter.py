"""Sizes of a lane's requests in tokens, one after another: only what is new in each is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stenolog.projections.requests.apis import Api
from stenolog.projections.requests.apis.writer import Writer
from stenolog.projections.requests.explanation import RequestPart
from stenolog.projections.requests.request import EMPTY_BLOBS, Body, pictures
from stenolog.projections.requests.sendable import check_askable
from stenolog.projections.requests.tokens import IMAGE_TOKENS, OVERHEAD

from ..body_digest import conversation
from .session import RequestSession
from .window import Window


class TokenMeter(RequestSession):
    """Counts the tokens of a window's request now: the `size.tokens` of the request that a session makes.

    A request counts its tokens part by part, so for each of a long conversation all of it would be explained.
    `is_missing`: a blob was not there, and the line that stands for it was counted.
    """

    explaining = True

    def __init__(self, window: Window, api: str | Api, blobs: Mapping[str, bytes] = EMPTY_BLOBS) -> None:
        super().__init__(window, api, blobs)
        self._counted: Writer | None = None
        self._parts = self._frozen = 0
        self._drawn = self._pictures = 0
        self.is_missing = False

    def tokens(self) -> int:
        """Return the tokens of the request. Raises as `request`."""
        if self.api.writer is None:
            return self.request().size.tokens
        check_askable(self.window)
        inputs = self._inputs()
        writer = self._at_work(inputs, self.api.writer)
        self._write_frozen(writer, inputs.told)
        builder = writer.builder
        if self._counted is not writer:
            self._counted, self._parts, self._frozen = writer, 0, 0
            self._drawn = self._pictures = 0
        self._frozen += _tokens(builder.parts[self._parts :])
        self._parts = len(builder.parts)
        body = writer.body(inputs.rest)
        tail = _tokens(builder.parts[self._parts :])
        del builder.parts[self._parts :]
        builder.omitted.clear()
        found = self._frozen + tail + IMAGE_TOKENS * self._pictures_in(body, writer)
        # What stands for a missing blob must not be frozen: the blob may be there by the next request.
        if builder.missing:
            self.writer, self.is_missing = None, True
        return found

    def _pictures_in(self, body: Body, writer: Writer) -> int:
        """Count the pictures of a body; those in messages that stay are counted once."""
        messages = conversation(body, self.api.messages)
        if not isinstance(messages, list):
            return pictures(body)
        stays = max(len(writer.builder.messages) - 1, self._drawn)
        self._pictures += pictures(messages[self._drawn : stays])
        self._drawn = stays
        around = {name: value for name, value in body.items() if value is not messages}
        return self._pictures + pictures(messages[stays:]) + pictures(around)


def _tokens(parts: Sequence[RequestPart]) -> int:
    """Return the tokens of parts; those that continue a message have no frame of their own."""
    return sum(part.tokens_out + (0 if part.continues else OVERHEAD) for part in parts)
