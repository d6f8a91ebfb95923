"""Facts around the messages of a request: its tools, its parameters, its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic_core import to_json

from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.domain.entry import Entry
from stenolog.domain.errors import CallerError
from stenolog.projections.analysis.byte_ranges import byte_ranges
from stenolog.projections.messages.body_digest import SYSTEM
from stenolog.projections.messages.message import EMPTY_BLOBS
from stenolog.projections.messages.sizes import count_json
from stenolog.projections.requests import Request
from stenolog.projections.requests.transport import Transport

TOOLS = 40
"""The tools that a page shows."""
LONGEST = 6_000
"""The bytes of a range, and the characters of a schema, that a page shows."""
SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema", "inputSchema")
"""The keys of a tool that may hold the schema of its arguments, by API."""


class ToolFact(NamedTuple):
    """A tool as the model gets it."""

    name: str
    description: str
    schema: str
    tokens: int


class RangeLine(NamedTuple):
    """A range of the bytes sent: its bounds, pointer, source and text.

    `part` is the index of its first part, -1 for none; `more` bytes are not shown.
    """

    first: int
    end: int
    pointer: str
    source: str
    part: int
    text: str
    more: int


class ByteFold(NamedTuple):
    """Bytes that are not shown."""

    first: int
    end: int
    ranges: int
    start: int


def tools(request: Request) -> list[ToolFact]:
    """Return the tools of a request."""
    counter = COUNTERS[request.policy.counter]
    return [
        ToolFact(
            str(tool.get("name") or tool.get("type", "")),
            str(tool.get("description", "")),
            to_json(next((tool[key] for key in SCHEMAS if key in tool), {}), indent=2).decode()[:LONGEST],
            request.rate.of(count_json(tool, counter)),
        )
        for tool in _each(request.body.get("tools") or ())
    ]


def _each(given: Any) -> Iterator[dict[str, Any]]:
    for tool in given:
        if isinstance(tool, dict):
            if "functionDeclarations" in tool:
                yield from _each(tool["functionDeclarations"])
            else:
                inner = tool.get("function")
                yield inner if isinstance(inner, dict) else tool


def parameters(request: Request) -> dict[str, str]:
    """Return the fields of the body beside messages, tools and system text, each as JSON."""
    others = {request.messages_key, "tools", *SYSTEM}
    return {
        key: to_json(value).decode()[:LONGEST] for key, value in request.body.items() if key not in others
    }


def transport_of(answer: Entry | None) -> Transport:
    """Return the transport that an answer states, else a plain one."""
    receipt = getattr(answer.event, "receipt", None) if answer is not None else None
    if receipt is None:
        return Transport()
    try:
        return Transport.of(receipt.transport)
    except CallerError:  # of a later release: the body is shown as any would send it
        return Transport()


def raw_lines(
    request: Request,
    transport: Transport,
    start: int | None,
    end: int,
    blobs: Mapping[str, bytes] = EMPTY_BLOBS,
) -> list[Any]:
    """Return the ranges of the bytes sent: `end` at each end, or twice as many from number `start` on."""
    content = transport.render(request.body, blobs)
    ranges = byte_ranges(request, transport, blobs)
    number = len(ranges)
    chosen = [range(number)]
    if number > 2 * end:
        chosen = [range(end), range(number - end, number)]
        if start is not None:
            chosen = [range(min(start, number), min(start + 2 * end, number))]
    found: list[Any] = []
    done = 0
    for run in [*chosen, range(number, number)]:
        if run.start > done:
            first, last = ranges[done], ranges[run.start - 1]
            begin = max(0, run.start - 2 * end) if done == 0 and start else done
            found.append(ByteFold(first.first, last.end, run.start - done, begin))
        for at in run:
            one = ranges[at]
            cut = content[one.first : min(one.end, one.first + LONGEST)].decode("utf-8", "ignore")
            more = max(0, one.end - one.first - LONGEST)
            part = one.parts[0] if one.parts else -1
            found.append(RangeLine(one.first, one.end, one.pointer, one.source, part, cut, more))
        done = run.stop
    return found
