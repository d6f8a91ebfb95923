"""OpenTelemetry: agents' work as spans of the conventions for generative AI.

The log is read, so past runs and other programs' can be traced. Only metrics of building requests are of this
process, once requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from stenolog._version import __version__
from stenolog.adapters.conversation.aio import AsyncLog
from stenolog.adapters.conversation.log import Conversation, Log
from stenolog.adapters.conversation.queries.requests.building import BuiltRequest
from stenolog.adapters.store.contract.values import Cursor
from stenolog.domain.entry import microseconds
from stenolog.domain.errors import ConversationNotFoundError, MissingExtraError, OperationalError
from stenolog.projections.otel_messages import InputMessages
from stenolog.projections.otel_spans import Span, inherited, spans

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

BATCH = 512
"""So many spans are exported at once, and those of the last entry among them."""


def export_spans(
    conversation: Conversation,
    exporter: SpanExporter,
    *,
    content: bool = False,
    tools: bool = False,
    name: str = "",
    resource: Resource | None = None,
) -> int:
    """Export a conversation's work; return the number of spans.

    With a `name`, only what that name has not exported: call it again after each run. A kill may repeat a
    batch, with the same span ids. A fork's inherited work belongs to its parent. `content` exports texts too:
    what was said, and what models were sent, with `tools` the definitions of tools as well. Raises
    `MissingExtraError`, and `OperationalError` if the exporter fails.
    """
    report, exported = ExportReport(conversation, name), 0
    after = max(report.position, inherited(conversation.settings()))
    for batch in _batches(conversation_spans(conversation, content=content, tools=tools, after=after)):
        _export(exporter, [readable(span, resource) for span in batch])
        report.advance(batch[-1].position)
        exported += len(batch)
    return exported


def conversation_spans(
    conversation: Conversation,
    *,
    content: bool,
    tools: bool = False,
    whole: bool = True,
    after: int = 0,
) -> Iterator[Span]:
    """Yield a conversation's spans; with `content`, what models were sent too.

    Unless `whole`, that is only what the call before in the same lane was not sent.
    """
    if not content:
        return spans(conversation.entries(), after=after)
    log = [*conversation.entries()]
    inputs = InputMessages(log, conversation.log.blobs, after=after, tools=tools, whole=whole)
    return spans(log, content=True, after=after, inputs=inputs)


UNITS = {"duration": "s", "messages": "{message}", "size": "By", "window": "{entry}"}
"""The histograms of `measure_requests`."""


def measure_requests(log: Log | AsyncLog, provider: MeterProvider | None = None) -> Callable[[], None]:
    """Measure each request built from this log; return a function that stops it.

    Histograms: `stenolog.request.duration` (seconds), `.messages`, `.size` (bytes of the body) and `.window`
    (entries), by agent, API, and `stenolog.request.source`: "memory" (a cache hit), "snapshot" or "log".
    `provider` None is the global one. Raises `MissingExtraError`.
    """
    try:
        from opentelemetry.metrics import get_meter_provider
    except ImportError:
        raise MissingExtraError("opentelemetry", "opentelemetry-sdk") from None
    meter = (provider or get_meter_provider()).get_meter("stenolog", __version__)
    histograms = {
        name: meter.create_histogram(f"stenolog.request.{name}", unit) for name, unit in UNITS.items()
    }
    measured = log.sync if isinstance(log, AsyncLog) else log

    def observe(built: BuiltRequest) -> None:
        request = built.request
        messages = request.body.get(request.messages_key)
        values = (built.seconds, len(messages or ()), len(request.bytes), built.entries)
        attributes = {
            "gen_ai.agent.name": request.agent,
            "stenolog.request.api": request.api,
            "stenolog.request.source": built.source,
        }
        for histogram, value in zip(histograms.values(), values, strict=True):
            histogram.record(value, attributes)

    def end() -> None:
        if measured.on_request is observe:
            measured.on_request = None

    measured.on_request = observe
    return end


def readable(span: Span, resource: Resource | None = None) -> ReadableSpan:
    """Return the span as exporters take it. Raises `MissingExtraError`."""
    try:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
    except ImportError:
        raise MissingExtraError("opentelemetry", "opentelemetry-sdk") from None

    def context(id: str) -> SpanContext:
        return SpanContext(
            int(span.trace, 16), int(id, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
        )

    error = {"error.type": span.error} if span.error else {}
    return ReadableSpan(
        name=span.name,
        context=context(span.id),
        parent=context(span.parent) if span.parent else None,
        resource=resource or _program(),
        attributes={**span.attributes, **error},
        kind=SpanKind.CLIENT if span.kind == "client" else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.message or None) if span.error else Status(StatusCode.UNSET),
        start_time=microseconds(span.start) * 1000,
        end_time=microseconds(span.end) * 1000,
        instrumentation_scope=InstrumentationScope("stenolog", __version__),
    )


@cache
def _program() -> Resource:
    """Return this program's default resource, created once: it has a random id."""
    from opentelemetry.sdk.resources import Resource

    return Resource.create()


class ExportReport:
    """A conversation's export progress under a name; stored only with a name."""

    def __init__(self, conversation: Conversation, name: str) -> None:
        self._recorder = conversation.log.recorder
        self._name = f"spans:{name}" if name else ""
        self._stream = conversation.key
        if self._stream is None:
            raise ConversationNotFoundError(f"{conversation.name!r}: no such conversation")
        self.position = 0
        if name:
            self.position = self._recorder.load_cursor(self._name, self._stream).position

    def advance(self, position: int) -> None:
        """Note how far that is now."""
        if self._name and self._stream is not None:
            self._recorder.save_cursor(self._name, Cursor(position), self._stream)


def _batches(found: Iterable[Span]) -> Iterator[list[Span]]:
    """Yield spans in batches; those of one entry stay together, so that a mark can follow them."""
    batch: list[Span] = []
    for span in found:
        if len(batch) >= BATCH and span.position != batch[-1].position:
            yield batch
            batch = []
        batch.append(span)
    if batch:
        yield batch


def _export(exporter: SpanExporter, batch: list[ReadableSpan]) -> None:
    from opentelemetry.sdk.trace.export import SpanExportResult

    if exporter.export(batch) is not SpanExportResult.SUCCESS:
        raise OperationalError(
            f"{type(exporter).__name__} has not taken {len(batch)} spans; its log says why"
        )
