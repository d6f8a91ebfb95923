"""Export of a conversation as OTLP JSON: its spans, with what models were sent, and the remainder.

Of the messages that a model was sent, a span has those that the call before it in its lane did not have.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

import stenolog
from stenolog.frameworks import conversation_spans
from stenolog.importers import Exporter, JsonObject, with_remainder

from .spans import conversation_of
from .wire import CLIENT, ERROR, INTERNAL, nanoseconds, pairs_of, spans_in

if TYPE_CHECKING:
    from stenolog import Conversation

SCOPE = {"name": "stenolog", "version": stenolog.__version__}


def write(conversation: Conversation, stream: TextIO, agent: str) -> None:
    """Write the conversation as one line."""
    json.dump(document(conversation), stream, ensure_ascii=False, separators=(",", ":"))
    stream.write("\n")


def document(conversation: Conversation) -> JsonObject:
    """Return the export request."""
    found: list[JsonObject] = []
    for span in conversation_spans(conversation, content=True, tools=True, whole=False):
        error = {"error.type": span.error} if span.error else {}
        message = {"message": span.message} if span.message else {}
        found.append(
            {
                "traceId": span.trace,
                "spanId": span.id,
                **({"parentSpanId": span.parent} if span.parent else {}),
                "name": span.name,
                "kind": CLIENT if span.kind == "client" else INTERNAL,
                "startTimeUnixNano": nanoseconds(span.start),
                "endTimeUnixNano": nanoseconds(span.end),
                "attributes": pairs_of({**span.attributes, **error}),
                "status": {"code": ERROR, **message} if span.error else {},
            }
        )
    resource = {"attributes": pairs_of({"service.name": "stenolog"})}
    spans = {"resource": resource, "scopeSpans": [{"scope": SCOPE, "spans": found}]}
    made: JsonObject = json.loads(json.dumps({"resourceSpans": [spans]}))
    with_remainder(made, made, conversation, conversation_of([*spans_in(made)], conversation.name))
    return made


TO_OTLP = Exporter("otlp", "OTLP JSON, spans for a collector", write)
