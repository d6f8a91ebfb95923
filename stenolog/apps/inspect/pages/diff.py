"""The page of a difference of two requests: what changed, where a cache ends, and why.

By default it compares with the call before; `before=` names another position, `other=` another agent, `fork=`
a fork or its parent; conditions alone (`policy=`, `without=`) are compared with the real request.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stenolog.adapters.conversation.log import Conversation
from stenolog.apps.inspect.page import Page, has_request
from stenolog.apps.inspect.query import Query
from stenolog.apps.inspect.request_view.sent import explained_and_sent
from stenolog.apps.views.caches import cause_words
from stenolog.apps.views.differences import Difference, at_call_before, difference, difference_data
from stenolog.apps.views.envelope import Answer
from stenolog.apps.views.lanes import lacking, slip, unrecorded
from stenolog.domain.errors import InvalidEventError
from stenolog.projections.analysis.cache.changes import PartChange
from stenolog.projections.analysis.word_diff import Span, word_diff
from stenolog.projections.messages.rules import RULES
from stenolog.projections.terminal_text import one_line
from stenolog.projections.views.lines import describe

WIDTH = 1_000
"""The width of the bar, in units of its own."""
MOST = 200
"""The most changes that are shown."""
MOST_SPANS = 300
"""The most stretches of a text that are shown, over all changes; further texts are shown old and new."""
LONGEST = 8_000
"""The most characters of one text that are shown."""
SAME = 240
"""The characters around a change that are shown of what stayed the same."""
IN_RUN = 40
"""The most entries of a run that are listed."""


class ShownChange(NamedTuple):
    """A change as the page shows it: its words, and the entries of a run one by one."""

    change: PartChange
    does: str
    spans: tuple[Span, ...]
    entries: tuple[tuple[int, str, str], ...]


class Bar(NamedTuple):
    """The widths of one request's bar: the common beginning, and the rest."""

    shared: int
    rest: int
    tokens: int


def asked_difference(query: Query) -> Difference:
    """Return the difference. Raises `InvalidEventError` if there was no call before."""
    after = query.asked_request
    before = after
    if fork := query.word("fork"):
        conversation = query.log[fork]
        at = query.number("before", min(after.at, conversation.position))
        before = after._replace(conversation=conversation, at=conversation.checked(at, least=1))
    elif query.word("before") not in ("", "call"):
        before = after._replace(at=query.conversation.checked(query.number("before", 0), least=1))
    elif not query.word("other") and not query.conditions:
        before = at_call_before(after)
    if other := query.word("other"):
        before = before._replace(agent=other)
    if before == after and query.conditions:
        before = after.real()
    return difference(before, after)


def view(query: Query) -> dict[str, Any]:
    """Return what differs between two requests."""
    place = {
        "name": query.conversation.name,
        "at": query.at,
        "agent": query.agent,
        "agents": list(query.index.agents),
        "asked": {name: query.word(name) for name in ("before", "other", "policy", "fork")},
    }
    try:
        found = asked_difference(query)
    except InvalidEventError as error:
        return {**place, "found": None, "message": str(error)}
    diff, fork = found.diff, query.word("fork")
    earlier = query.log[fork] if fork else query.conversation
    return {
        **place,
        "found": found,
        "message": "",
        "lacking": _lacking(query),
        "first": cause_words(diff.first) if diff.first else "",
        "bars": bars(found),
        "earlier": earlier.name,
        "lines": shown_changes(found, earlier, query.conversation),
        "more": max(0, len(diff.changes) - MOST),
        "width": WIDTH,
    }


def _lacking(query: Query) -> str:
    """Say what the log lacks of the later request; empty if stenolog sent it."""
    if query.conditions or not lacking(query.conversation, query.agent):
        return ""
    return explained_and_sent(query)[1].bill.note


def bars(found: Difference) -> tuple[Bar, Bar]:
    """Return the bars of both requests, on one scale."""
    before, after, shared = found.diff.tokens_before, found.diff.tokens_after, found.diff.shared.tokens
    scale = WIDTH / max(before, after, 1)
    sizes = [(min(shared, tokens), tokens) for tokens in (before, after)]
    one, other = (Bar(round(s * scale), round((t - s) * scale), t) for s, t in sizes)
    return one, other


def shown_changes(found: Difference, before: Conversation, after: Conversation) -> list[ShownChange]:
    """Return the changes as a page shows them, between requests of these conversations."""
    left, made = MOST_SPANS, []
    for change in found.diff.changes[:MOST]:
        conversation = before if change.sign == "-" else after
        spans = _spans(_with_words(conversation, change), left)
        left -= len(spans)
        rule = change.rule or change.was
        made.append(ShownChange(change, RULES.get(rule, ""), spans, _run(conversation, change)))
    return made


def _with_words(conversation: Conversation, change: PartChange) -> PartChange:
    if change.text or change.parts > 1 or not change.first or change.sign == "-":
        return change
    found = conversation.entries(change.first - 1, change.first)
    return change._replace(text=next((describe(entry)[1] for entry in found), ""))


def _spans(change: PartChange, left: int) -> tuple[Span, ...]:
    if change.sign != "~" or change.text_before == change.text:
        return (Span("=", _shortened(change.text)),) if change.parts == 1 and change.text else ()
    spans = word_diff(change.text_before, change.text)
    if len(spans) > max(left, 3):
        spans = (Span("-", change.text_before), Span("+", change.text))
    return tuple(span._replace(text=_unchanged_ends(span, i, len(spans))) for i, span in enumerate(spans))


def _unchanged_ends(span: Span, index: int, number: int) -> str:
    text = span.text
    if span.sign != "=":
        return _shortened(text)
    if len(text) <= 2 * SAME:
        return text
    head = text[:SAME] if index else ""
    tail = text[-SAME:] if index < number - 1 else ""
    return f"{head} … {len(text) - len(head) - len(tail):,} characters are the same … {tail}"


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} … {len(text) - LONGEST:,} characters more"


def _run(conversation: Conversation, change: PartChange) -> tuple[tuple[int, str, str], ...]:
    if change.parts == 1 or not change.first:
        return ()
    last = min(change.last, change.first + IN_RUN - 1)
    found = conversation.entries(change.first - 1, last)
    return tuple((entry.position, *_who_and_words(describe(entry))) for entry in found)


def _who_and_words(line: tuple[str, str]) -> tuple[str, str]:
    who, what = line
    return who, one_line(what)[:200]


def twin(query: Query) -> Answer:
    """Return the data of `request --diff --json`."""
    asked = query.asked_request
    notes = (*slip(asked.conversation, asked.agent), *unrecorded(asked.conversation, asked.agent))
    return Answer(difference_data(asked_difference(query)), notes)


page = Page("diff", view, twin, link="Diff", rank=4, applies=has_request)
