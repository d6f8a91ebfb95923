"""Requests one after another with their explanations, or their sizes: only what is new is explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stenolog.projections.formats.base import Format
from stenolog.projections.formats.writer import Writer
from stenolog.projections.messages.explanation import Explanation, tokens_of
from stenolog.projections.messages.message import EMPTY_BLOBS, Body, Rendered
from stenolog.projections.requests.sendable import check_askable

from .session import ExplainedLater, Inputs, RequestSession
from .window import Window


class ExplainedSession(RequestSession):
    """Gives the requests of a `RequestSession`, for somebody who asks each of them for its explanation.

    A session explains a request only when it is asked, and then writes all of it again.
    """

    explaining = True

    def _written_down(
        self, inputs: Inputs, explain: ExplainedLater
    ) -> tuple[Body, Callable[[], Explanation]]:
        if self.api.writer is None:
            return super()._written_down(inputs, explain)
        writer = self._at_work(inputs, self.api.writer)
        builder = writer.builder
        self._write_frozen(writer, inputs.told)
        parts, omitted = len(builder.parts), len(builder.omitted)
        body = writer.body(inputs.rest)
        rendered = Rendered(body, tuple(builder.parts), tuple(builder.omitted))
        del builder.parts[parts:], builder.omitted[omitted:]
        if builder.missing:
            self.writer = None
        return body, lambda: explain(rendered)


class TokenMeter(RequestSession):
    """Counts the tokens of a window's request now: the `size.tokens` of the request that a session makes.

    A request counts its tokens part by part, so for each of a long conversation all of it would be explained.
    `is_missing`: a blob was not there, and the line that stands for it was counted.
    """

    explaining = True

    def __init__(self, window: Window, api: str | Format, blobs: Mapping[str, bytes] = EMPTY_BLOBS) -> None:
        super().__init__(window, api, blobs)
        self._counted: Writer | None = None
        self._parts = self._frozen = 0
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
        self._frozen += tokens_of(builder.parts[self._parts :])
        self._parts = len(builder.parts)
        writer.body(inputs.rest)
        tail = tokens_of(builder.parts[self._parts :])
        del builder.parts[self._parts :]
        builder.omitted.clear()
        found = self._frozen + tail
        # What stands for a missing blob must not be frozen: the blob may be there by the next request.
        if builder.missing:
            self.writer, self.is_missing = None, True
        return found
