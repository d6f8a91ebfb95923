"""Requests one after another with their explanations: each explains what is new since the one before it."""

from __future__ import annotations

from collections.abc import Callable

from stenolog.projections.messages.explanation import Explanation
from stenolog.projections.messages.message import Body, Rendered

from .session import ExplainedLater, Inputs, RequestSession


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
