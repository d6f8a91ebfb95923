"""The file: the page of a conversation that is read, the log that answers it, and nothing to load."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import zip_longest
from typing import IO, TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from markupsafe import Markup

from stenolog.adapters.conversation.queries.folds import SETTINGS
from stenolog.adapters.conversation.queries.requests.token_counters import COUNTERS
from stenolog.apps.inspect.conversation_index import ConversationIndex
from stenolog.apps.inspect.reading import markup
from stenolog.apps.inspect.reading.items import LONGEST, LONGEST_OUTPUT, Reader, ReadItem
from stenolog.apps.inspect.reading.turns import marked, marks_in, turn_rows
from stenolog.apps.inspect.templating import environment
from stenolog.apps.views.caches import calls_of, why_words
from stenolog.domain.entry import Entry
from stenolog.domain.lanes.step import fold
from stenolog.domain.parts import FilePart, ImagePart, Part
from stenolog.projections.analysis.cache.calls import CacheCall
from stenolog.projections.terminal_text import safe
from stenolog.projections.views.calls import open_calls
from stenolog.projections.views.lines import describe, in_words
from stenolog.projections.views.overview import overview

from .redaction import Redaction
from .request_table import RequestTable
from .sent import sent_requests

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

FORMAT = 2
WIDTH = 8_190
"""Characters in a line of base64: some editors stumble over a line of a megabyte."""
MOST_ITEMS, MOST_CHARACTERS = 100, 200_000
"""So many items, and characters of HTML, are in the page as such, for a reader without JavaScript."""
MOST_ROWS = 80
"""Rows of the outline that are."""
SCRIPTS = ("static/inspector.js", "static/rows.js", "one_file/answers.js", "static/read.js")
STYLES = ("static/style.css", "static/blocks.css", "static/read.css", "static/request.css")
OURS = frozenset(("kind", "status", "sign"))
"""The fields of an item with words of ours, by which it is drawn."""
MODULE = re.compile(r"^import .*\n|^export ", re.MULTILINE)
Value = TypeVar("Value")


def write_page(conversation: Conversation, stream: IO[str], redaction: Redaction | None = None) -> None:
    """Write the conversation as one HTML page that opens from disk, and loads and sends nothing.

    `redaction` says afterwards what it took out; the keys that the log was opened to redact are taken out
    too. Raises `StoredDataError` for entries that cannot be read.
    """
    taking = Redaction() if redaction is None else redaction
    taking.look_for(conversation.log.edge.redact)
    entries = list(conversation.entries())
    read = ReadFile(conversation, [*map(taking.without_words, taking.entries(entries))], taking)
    requests = RequestTable(["", *read.said], taking, digests=not taking)
    for sent in sent_requests(entries, conversation.log.blobs, COUNTERS):
        requests.add(sent)
    data = {"format": FORMAT, "name": conversation.name, "title": read.title, **requests.data}
    if taking:
        # Whatever was forgotten above is found here.
        data = taking.clean_all(data, "elsewhere")
    data |= {"digest": conversation.digest, **read.data()}
    packed = gzip.compress(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(), 9, mtime=0)
    written = base64.b64encode(packed).decode()
    for piece in read.page("\n".join(written[at : at + WIDTH] for at in range(0, len(written), WIDTH))):
        stream.write(piece)


class Entries:
    """Entries by position, for a reader."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def entry(self, position: int) -> Entry:
        """Return one entry."""
        return self._entries[position - 1]

    def entries(self, after: int = 0, at: int | None = None) -> Iterable[Entry]:
        """Return the entries after a position, up to another."""
        return self._entries[after:at]


class ReadFile:
    """The page of a conversation that is read: drawn as the inspector draws it, with links into the file.

    `entries` have no words that must not be in the file; what else is drawn goes through `taking`.
    """

    def __init__(self, conversation: Conversation, entries: Sequence[Entry], taking: Redaction) -> None:
        self._taking, self._size, self._templates = taking, len(entries), environment()
        title = SETTINGS.fold(entries).title or overview(entries).words or conversation.name
        self.title = taking.clean(title, "the title")
        self.said = [taking.clean(_words_of(entry), f"entry {entry.position}") for entry in entries]
        self._index = index = ConversationIndex()
        for entry in entries:
            index.take(entry)
        open = open_calls(fold(entries))
        self._kinds = marked(index, open)
        workers = {row.lane for row in index.outline.rows if row.lane}
        self._lists = {of: index.readable(of) for of in ("", *sorted(workers))}
        causes = {call.position: self._why(call) for call in calls_of(conversation)} if index.missed else {}
        reader = Reader(index, Entries(entries), open, None, lambda entry: causes.get(entry.position, ""))
        self._items: list[ReadItem] = []
        """The first ones of the conversation."""
        self._html: dict[int, str] = {}
        for of, listed in self._lists.items():
            for item in reader.items(listed):
                clean = self._clean(item, f"entry {item.position}")
                self._html[item.position] = self._article(clean, of)
                if not of and len(self._items) < MOST_ITEMS:
                    self._items.append(clean)

    def _why(self, call: CacheCall) -> str:
        # Of what must not be in the file they quote a piece, which no pattern finds.
        return why_words(call._replace(cause=call.cause._replace(words="")) if self._taking else call)

    def _clean(self, value: Value, where: str) -> Value:
        cleaned: Value = _cleaned(value, lambda text: safe(self._taking.clean(text, where)))
        return cleaned

    def _article(self, item: ReadItem, of: str) -> str:
        text = self._drawn("read_items.html", items=[item], of=of, earlier=0, later=0, at=0)
        return text[text.index("<article") : text.rindex("</article>") + len("</article>")]

    def _drawn(self, template: str, **given: object) -> str:
        return "".join(self._pieces(template, **given))

    def _pieces(self, template: str, **given: object) -> Iterator[str]:
        fixed = {"name": "", "root": "", "link": _link, "longest": LONGEST, "longest_output": LONGEST_OUTPUT}
        drawn = {"markdown": markup.markdown, "code": markup.code}
        return self._templates.get_template(template).generate({**fixed, **drawn, **given})

    def data(self) -> dict[str, Any]:
        """Return what the page asks for: the items, the outline, the marks."""
        index = self._index
        rows = [*map(self._row, turn_rows(index, self._kinds, 0, len(index.outline.rows)))]
        return {
            # An entry's words are beside its HTML, so that they pack each other.
            "entries": [(said, self._html.get(at, "")) for at, said in enumerate(self.said, 1)],
            "shown": [index.shown_in(at, "") - at for at in range(1, self._size + 1)],
            "lists": {self._taking.clean(of, "an agent's name"): [*at] for of, at in self._lists.items()},
            "outline": [(row.position, self._drawn("outline.html", rows=[row], row=0)) for row in rows],
            "marks": marks_in(index, self._kinds, "", 1)[1],
        }

    def _row(self, row: Value) -> Value:
        return self._clean(row, "the outline")

    def page(self, data: str) -> Iterator[str]:
        """Yield the page piece by piece; `data` is the packed log."""
        index, listed, left, count = self._index, self._lists[""], MOST_CHARACTERS, 0
        for item in self._items:
            left -= len(self._html[item.position])
            count += left > 0
        at = next((row.position for row in index.turns), listed[0] if listed else 1)
        script, style = MODULE.sub("", _joined(SCRIPTS)), _joined(STYLES)
        return self._pieces(
            "file.html",
            is_file=True,
            title=safe(self.title),
            style=Markup(style),
            script=Markup(script),
            hashes={"script": _hash(script), "style": _hash(style)},
            data=data,
            items=self._items[:count],
            rows=[*map(self._row, turn_rows(index, self._kinds, 0, MOST_ROWS))],
            marks=marks_in(index, self._kinds, "", at)[0],
            files=self._clean(index.files(), "the files"),
            total=len(index.outline.rows),
            head=self._size,
            row=at,
            at=at,
            later=listed[count] if count < len(listed) else 0,
            **dict.fromkeys(("of", "words"), ""),
            **dict.fromkeys(("earlier", "called_at"), 0),
        )


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """Return a value with clean texts, but for those by which it is drawn."""
    match value:
        case str():
            return clean(value)
        case tuple():
            names = getattr(value, "_fields", ())
            pairs = zip_longest(names, value)
            found = (each if name in OURS else _cleaned(each, clean) for name, each in pairs)
            return type(value)(*found) if names else tuple(found)
        case _:
            return value


def _words_of(entry: Entry) -> str:
    """Return all words of an entry, or else what it did."""
    parts = getattr(entry.event, "parts", ())
    return " ".join(filter(None, map(_in_words, parts))) or describe(entry).what


def _in_words(part: Part) -> str:
    words = in_words([part])
    blob = part.blob if isinstance(part, ImagePart | FilePart) else ""
    return f"{words[:-1]} sha256 {blob[:12]}…]" if blob else words


def _link(page: str, **parameters: object) -> str:
    """Return the address of a place in the file; empty for a page that it has not."""
    given = urlencode({name: value for name, value in parameters.items() if value})
    return {"read": f"#{given}", "entry": f"#entry={parameters.get('at', '')}"}.get(page, "")


@cache
def _joined(names: Sequence[str]) -> str:
    folder = files("stenolog.apps.inspect")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    """Return the hash by which the page's policy names its script or its style."""
    return base64.b64encode(sha256(text.encode()).digest()).decode()
