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
from .tables import EntryTable, RequestTable

if TYPE_CHECKING:
    from stenolog.adapters.conversation.log import Conversation

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
