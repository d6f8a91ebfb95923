"""The file: one HTML page that loads nothing, with the log in it and a script that shows it."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import IO, TYPE_CHECKING, Any

from stenolog.adapters.conversation.queries.overviews import title_of
from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.projections.terminal_text import safe
from stenolog.projections.views.timeline import timeline
from stenolog.projections.views.transcript import html_items

from .redaction import Redaction
from .sent import sent_requests

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from stenolog.domain.entry import Entry
from stenolog.domain.events import AssistantMessage, Event, LlmError, ToolResult
from stenolog.domain.parts import FilePart, ImagePart, Part, ReasoningPart, TextPart, ToolCall
from stenolog.projections.messages.rules import RULES
from stenolog.projections.requests import Omission, Request, RequestPart
from stenolog.projections.requests.part_texts import part_text
from stenolog.projections.views.calls import of_result
from stenolog.projections.views.lines import describe, in_words, kind_word
from stenolog.projections.views.tool_pairs import Pair, ToolCallIndex

from .sent import SentRequest

FORMAT = 1
WIDTH = 8_190
"""Characters in a line of base64: some editors stumble over a line of a megabyte."""
MOST_ITEMS, MOST_CHARACTERS = 200, 60_000
"""So much of the timeline is in the page as plain HTML, for a reader without JavaScript."""
HEAD = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'">
<title>{title}</title>
<style>{css}</style>
<div id="page" hidden></div>
<main id="plain">
<h1>{title}</h1>
<p class="aside" id="note">Each agent's requests are shown with JavaScript alone. This is the timeline.</p>
"""
FOOT = """\
</main>
<script type="application/gzip" id="log">
{data}
</script>
<script>{script}</script>
"""


def write_page(conversation: Conversation, stream: IO[str], redaction: Redaction | None = None) -> None:
    """Write the conversation as one HTML page that opens from disk, and loads and sends nothing.

    `redaction` says afterwards what it took out; the keys that the log was opened to redact are taken out
    too. Raises `StoredDataError` for entries that cannot be read.
    """
    taking = Redaction() if redaction is None else redaction
    taking.look_for(conversation.log.edge.redact)
    entries = list(conversation.entries())
    shown = taking.entries(entries)
    title = taking.clean(title_of(conversation) or conversation.name, "the title")
    table = EntryTable(shown, taking.clean)
    requests = RequestTable(table.said, taking.changed, taking.clean, digests=not taking)
    for sent in sent_requests(entries, conversation.log.blobs, COUNTERS):
        requests.add(sent)
    data: dict[str, Any] = {
        "format": FORMAT,
        "name": taking.clean(conversation.name, "the name"),
        "title": title,
        "digest": conversation.digest,
        "entries": table.data,
        **requests.data,
    }
    if taking:
        # Whatever was forgotten above is found here.
        data = taking.clean_all(data, "elsewhere")
    script, css = _static("viewer.js"), _static("viewer.css")
    stream.write(HEAD.format(title=escape(safe(title)), css=css, script=_hash(script), style=_hash(css)))
    items = html_items(timeline(shown), lambda words: taking.clean(words, "the timeline"))
    for piece in _some(items, len(entries)):
        stream.write(piece)
    packed = gzip.compress(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(), 9, mtime=0)
    written = base64.b64encode(packed).decode()
    lines = "\n".join(written[at : at + WIDTH] for at in range(0, len(written), WIDTH))
    stream.write(FOOT.format(data=lines, script=script))


def _some(items: Iterator[str], entries: int) -> Iterator[str]:
    left = MOST_CHARACTERS
    for number, piece in enumerate(items):
        left -= len(piece)
        if left < 0 or number >= MOST_ITEMS:
            yield f'<p class="aside">The rest of {entries:,} entries is shown with JavaScript alone.</p>\n'
            return
        yield piece


@cache
def _static(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash by which the page's policy names its script or its style."""
    return base64.b64encode(sha256(text.encode()).digest()).decode()


Clean = Callable[[str, str], str]
LETTERS: dict[type, str] = {TextPart: "t", ToolCall: "c", ReasoningPart: "r"}
"""The letter of a part's type; any other is "x"."""
NO_RECEIPT, SAME_BYTES, DIFFERS, NOT_PROVABLE = range(4)
"""Verdicts on a request that was built again."""
BESIDE, NEXT, SAME = 0, 1, 2
"""Places of a part of a request: beside the messages, in the next one, in the same as the part before."""


class Index:
    """Distinct values in the order of their arrival, with their numbers."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """Return the number of a value, which is added if it is new."""
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
        return found


class EntryTable:
    """The entries by columns: kind, author, time, and the words, part by part."""

    def __init__(self, entries: Sequence[Entry], clean: Clean) -> None:
        self.kinds, self.whos, self.models = Index(), Index(), Index()
        self.said: list[str] = [""]
        """The words of each entry, by its position, as the page puts them together from its parts."""
        self._columns: dict[str, list[Any]] = {
            name: [] for name in ("kind", "who", "time", "head", "parts", "more")
        }
        before, pairing = 0, ToolCallIndex()
        for entry in entries:
            where = f"entry {entry.position}"
            at = int(entry.time.timestamp() * 1000)
            parts = [
                (LETTERS.get(type(part), "x"), clean(words, where))
                for part in getattr(entry.event, "parts", ())
                if (words := _in_words(part))
            ]
            self.said.append(" ".join(words for _, words in parts))
            row = (
                self.kinds.number(kind_word(entry.event)),
                self.whos.number(clean(describe(entry).who, where)),
                at - before,
                clean(_head(entry, pairing.take(entry)), where),
                [each for part in parts for each in part],
                self._more(entry.event, where, clean),
            )
            before = at
            for column, value in zip(self._columns.values(), row, strict=True):
                column.append(value)

    @property
    def data(self) -> dict[str, Any]:
        """The table as JSON."""
        names = {"kinds": self.kinds.values, "whos": self.whos.values, "models": self.models.values}
        return {**names, **self._columns}

    def _more(self, event: Event, where: str, clean: Clean) -> list[int] | int:
        """Return model, tokens and milliseconds of an answer, an error or a result; 0 for none."""
        if not isinstance(event, AssistantMessage | LlmError | ToolResult):
            return 0
        usage = getattr(event, "usage", None)
        model = getattr(event, "model", "")
        more = [
            self.models.number(clean(model, where)) + 1 if model else 0,
            event.duration_ms or 0,
            *((usage.input, usage.output, usage.cache_read, usage.cost or 0) if usage else ()),
        ]
        return more if any(more) else 0


def _in_words(part: Part) -> str:
    words = in_words([part])
    blob = part.blob if isinstance(part, ImagePart | FilePart) else ""
    return f"{words[:-1]} sha256 {blob[:12]}…]" if blob else words


def _head(entry: Entry, pair: Pair | None) -> str:
    """Return what an entry says beside its parts: the error, the change of settings, ✓ or ✗."""
    event: Any = entry.event
    note = of_result(event, pair).note if isinstance(event, ToolResult) else ""
    if getattr(event, "parts", ()):
        event = replace(event, parts=())
    words = describe(entry._replace(event=event)).what
    return f"{words} [{note}]" if note else words


class RequestTable:
    """The requests: parts and omissions in tables, each as a difference to the one before."""

    def __init__(self, said: Sequence[str], changed: set[int], clean: Clean, *, digests: bool) -> None:
        # A short secret could be guessed by the digest of a body that has it.
        self._said, self._changed, self._clean, self._has_digests = said, changed, clean, digests
        self.lanes, self.apis, self.reasons = Index(), Index(), Index()
        self.rules, self.roles, self.texts, self.wraps = Index(), Index(), Index(), Index()
        self.rows, self.gone = Index(), Index()
        self.requests: list[list[Any]] = []
        self._before = _Before()

    def add(self, sent: SentRequest) -> None:
        """Add the request of a call."""
        call, request = sent.call, sent.request
        lane = self.lanes.number(self._clean(call.lane.address, "an agent's name"))
        first = [lane, self.apis.number(call.api), call.view, call.answer]
        if request is None:
            self.requests.append([*first, self.reasons.number(self._clean(sent.why, "a reason"))])
            return
        where = f"request of {call.lane.address} at {call.view}"
        same = NO_RECEIPT
        if call.sha256:
            same = (
                SAME_BYTES if call.sha256 == request.sha256 else DIFFERS if call.is_provable else NOT_PROVABLE
            )
        goes_on = self._before.lane == lane
        before = self._before if goes_on else _Before()
        rows = self._rows(request, before, where)
        gone = [self.gone.number(self._omission(each)) for each in request.omissions]
        why = self.reasons.number(self._clean(request.reason, where)) if request.reason else -1
        self.requests.append(
            [
                *first,
                why,
                request.sha256[:12] if self._has_digests else "",
                same,
                int(goes_on),
                *_difference(before.rows, rows),
                *_difference(before.gone, gone),
            ]
        )
        self._before = _Before(lane, request.parts, rows, gone)

    @property
    def data(self) -> dict[str, Any]:
        """The tables as JSON."""
        does = [[rule, RULES.get(rule, "")] for rule in self.rules.values]
        return {
            "lanes": self.lanes.values,
            "apis": self.apis.values,
            "reasons": self.reasons.values,
            "rules": does,
            "roles": self.roles.values,
            "texts": self.texts.values,
            "wraps": self.wraps.values,
            "rows": _columns(
                self.rows.values, ("place", "role", "what", "rule", "in", "more", "from", "text")
            ),
            "gone": _columns(self.gone.values, ("first", "last", "rule", "tokens")),
            "requests": self.requests,
        }

    def _rows(self, request: Request, before: _Before, where: str) -> list[int]:
        parts = request.parts
        same = _shared(before.parts, parts)
        rows = before.rows[:same]
        counts = _counts(parts)
        last = parts[same - 1].message if same else -1
        for part in parts[same:]:
            place = BESIDE if part.message < 0 else SAME if part.message == last else NEXT
            last = part.message if part.message >= 0 else last
            text = self._text(request, part, counts[part.message] == 1, where)
            row = (
                place,
                self.roles.number(part.role),
                "kra".index(part.disposition[0]),
                self.rules.number(part.rule),
                part.tokens_in,
                part.tokens_out - part.tokens_in,
                part.positions[0] if len(part.positions) == 1 else part.positions,
                text,
            )
            rows.append(self.rows.number(row))
        return rows

    def _text(self, request: Request, part: RequestPart, alone: bool, where: str) -> int:
        """Return where a part's text comes from: 0, its entry; -n, that in wrap n; n, text n of the table."""
        first = part.positions[0] if part.positions else 0
        hidden = any(position in self._changed for position in part.positions)
        text = "" if hidden else self._clean(part_text(request, part, alone), where)
        said = self._said[first]
        if not text or text == said:
            return 0
        begin = text.find(said) if said else -1
        if begin >= 0:
            return -1 - self.wraps.number((text[:begin], text[begin + len(said) :]))
        return 1 + self.texts.number(text)

    def _omission(self, each: Omission) -> tuple[int, int, int, int]:
        return each.first, each.last, self.rules.number(each.rule), each.tokens


class _Before(NamedTuple):
    """The request before, on which the next one is built."""

    lane: int = -1
    parts: Sequence[RequestPart] = ()
    rows: list[int] = []  # noqa: RUF012  (never changed)
    gone: list[int] = []  # noqa: RUF012


def _shared(before: Sequence[RequestPart], now: Sequence[RequestPart]) -> int:
    most = min(len(before), len(now))
    return next((nth for nth in range(most) if before[nth] != now[nth]), most)


def _counts(parts: Sequence[RequestPart]) -> Mapping[int, int]:
    counts: dict[int, int] = {}
    for part in parts:
        counts[part.message] = counts.get(part.message, 0) + 1
    return counts


def _difference(before: list[int], now: list[int]) -> Iterator[Any]:
    """Yield how many numbers are shared at the beginning and at the end, and those between."""
    most = min(len(before), len(now))
    first = next((nth for nth in range(most) if before[nth] != now[nth]), most)
    most -= first
    last = next((nth for nth in range(most) if before[-1 - nth] != now[-1 - nth]), most)
    yield from (first, last, now[first : len(now) - last])


def _columns(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    return {name: [row[nth] for row in rows] for nth, name in enumerate(names)}
