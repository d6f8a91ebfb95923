"""The page of an agent's request at a position: its parts with their reasons, and the omissions."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

from stenolog.adapters.conversation.queries.plain_json import plain
from stenolog.adapters.conversation.queries.requests.bills import bill_of
from stenolog.apps.inspect.page import File, Page, TextPage, has_request
from stenolog.apps.inspect.query import Query
from stenolog.apps.inspect.request_view import facts as request_facts
from stenolog.apps.inspect.request_view.lines import END, PartLine, lines, outline, read
from stenolog.apps.inspect.request_view.marks import RequestMarks
from stenolog.apps.inspect.request_view.sent import Sent, explained_and_sent
from stenolog.apps.views.asked_request import real_data, reasons_data
from stenolog.apps.views.differences import call_before
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.lanes import slip, unrecorded
from stenolog.domain.errors import PositionNotFoundError
from stenolog.domain.events import AssistantMessage, LlmError
from stenolog.projections.analysis.explain import described, left_out, why
from stenolog.projections.requests import Request

BESIDE = 30
"""The lines at each end of a request that are beside the entries of its conversation."""
COPIES = {"json": "JSON", "curl": "cURL", "python": "Python", "pytest": "pytest"}.items()
"""The forms that a request can be taken along in."""


class ExplainedRequest(NamedTuple):
    """A request, what was sent around it, and what it makes of each entry, by position."""

    request: Request
    sent: Sent
    marks: RequestMarks


def explained_request(query: Query) -> ExplainedRequest | None:
    """Return the request; None if no agent has one."""
    if not query.agent:
        return None
    request, sent = explained_and_sent(query)
    return ExplainedRequest(request, sent, RequestMarks(request))


def fields_of(query: Query, found: ExplainedRequest | None, end: int = BESIDE) -> dict[str, Any]:
    """Return the fields of the template for a request, with so many lines at each end of it."""
    form = "raw" if query.word("form") == "raw" else "read"
    place = {"name": query.conversation.name, "at": query.at, "agent": query.agent, "form": form}
    if found is None:
        return {**place, "request": None}
    request, sent = found.request, found.sent
    start = query.number("from", 0) if query.word("from") else None
    fields = ("api", "sendable", "reason", "sha256", "size", "policy", "counted_by")
    shown: list[Any]
    if form == "raw":
        shown = request_facts.raw_lines(
            request, request_facts.transport_of(sent.answer), start, 2 * end, query.log.blobs
        )
    else:
        shown = list(lines(query.conversation, request, sent.shared, start, end))
    tools = request_facts.tools(request)
    return {
        **place,
        "request": {name: plain(getattr(request, name)) for name in fields},
        "lines": shown,
        "conditions": _conditions(query),
        "copies": COPIES,
        "before": sent.before,
        "as_sent": request.patch is not None,
        "cache": sent.cache,
        "bill": sent.bill,
        "answer": _answer(sent),
        "is_before": _is_before(found),
        "places": request.places,
        "tools": tools[: request_facts.TOOLS],
        "more_tools": len(tools[request_facts.TOOLS :]),
        "tool_tokens": sum(tool.tokens for tool in tools),
        "parameters": request_facts.parameters(request),
    }


def _is_before(found: ExplainedRequest) -> bool:
    """Return whether the log begins in the middle, and nothing of this request is in it."""
    shown = (part for part in found.request.parts if part.message >= 0 and part.positions)
    return not found.sent.bill.is_whole and next(shown, None) is None


def _conditions(query: Query) -> str:
    given = {**query.conditions, **({"api": query.word("api")} if query.word("api") else {})}
    return f"&{urlencode(given, doseq=True)}" if given else ""


def _answer(sent: Sent) -> dict[str, Any] | None:
    if sent.answer is None:
        return None
    event = sent.answer.event
    assert isinstance(event, AssistantMessage | LlmError)
    failed = f"{event.category}: {event.message}" if isinstance(event, LlmError) else ""
    return {"position": sent.answer.position, "model": event.model, "usage": event.usage, "failed": failed}


def view(query: Query) -> dict[str, Any]:
    """Return an agent's request at a position; without one, the last that was sent if it has answered."""
    if not query.word("at") and (sent := _last_sent(query)):
        query.at = sent
    found = explained_request(query)
    fields = fields_of(query, found, END)
    turns = {row.position: row.words for row in query.index.turns}
    return {
        **fields,
        "agents": list(query.index.agents),
        "head": query.head,
        "outline": outline(found.request, turns) if found and fields["form"] == "read" else [],
        "shown_parts": {line.number for line in fields.get("lines", ()) if isinstance(line, PartLine)},
    }


def _last_sent(query: Query) -> int:
    """Return the position of the last request if it was answered, and nothing asked since; else 0."""
    if query.agent and query.conversation.state().lane(query.agent).status == "idle":
        return call_before(query.conversation, query.agent, query.head)
    return 0


def part(query: Query) -> dict[str, Any]:
    """Return the request as the page of its conversation shows it."""
    return fields_of(query, explained_request(query))


def twin(query: Query) -> Answer:
    """Return the data of `request --json`; with `why=1` those of `request --why --json`."""
    asked = query.asked_request
    request, notes = asked.request(), slip(asked.conversation, asked.agent)
    billed = bill_of(asked.conversation, request, list(asked.conversation.entries()))
    if query.word("why"):
        needed = list(read(asked.conversation, described(request.parts, request.omissions)))
        reasons, gone = why(request, needed), left_out(request, needed)
        return Answer(reasons_data(request, reasons, gone, billed), notes)
    return Answer(real_data(request, billed), (*notes, *unrecorded(asked.conversation, asked.agent)))


def text(query: Query) -> File:
    """Return the whole text of one part. Raises `PositionNotFoundError`."""
    request, at = query.asked_request.request(), query.number("part", 0)
    if at >= len(request.parts):
        raise PositionNotFoundError(f"part: expected a number below {len(request.parts)}, found {at}")
    [reason] = why(request, read(query.conversation, described([request.parts[at]], ())), [at])
    return File(reason.text.encode())


page = Page("request", view, twin, link="Request", rank=3, applies=has_request)
fragment = Page("part-request", part, template="request_part.html")
whole_text = TextPage("text", text)
