"""Copies of an entry's words in blobs of receipts, of requests that a recorded program sent in its own form.

What a receipt cannot say by reference stands in a blob: a text of the program's own, or the bytes of a
whole request. Words of an entry may be in it. Without the blob such a request can no longer be proved.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence

from stenolog.adapters.store.blob_shas import shas_in
from stenolog.adapters.store.handle import StreamHandle
from stenolog.adapters.store.store_values import Stream
from stenolog.domain.entry import Entry
from stenolog.domain.errors import StoredDataError
from stenolog.domain.events import AssistantMessage, LlmError, Unknown
from stenolog.domain.parts import FilePart, ImagePart
from stenolog.domain.values import Receipt

SHORTEST = 4
"""Characters of a text that is looked for."""


def blobs_with(conversation: StreamHandle, positions: Sequence[int]) -> set[str]:
    """Return the blobs in receipts of the conversation and its forks that hold words of these entries."""
    log = conversation.log
    entries = (each for at in positions for each in conversation.entries(at - 1, at))
    words = {form for entry in entries for text in _texts(entry) for form in _forms(text)}
    holders = log.recorder.conversations_with(conversation.stream, positions[0])
    named = {
        sha
        for holder, name in holders.items()
        for receipt in _receipts(StreamHandle(log, log.remembered(Stream(name, holder))), positions[0])
        for sha in shas_in(json.dumps([receipt.plan.get("patch"), receipt.transport.get("blob")]).encode())
    }
    return {sha for sha in named if any(word in _content(conversation, sha) for word in words)}


def _receipts(conversation: StreamHandle, after: int) -> Iterator[Receipt]:
    for entry in conversation.entries(after):
        if isinstance(entry.event, AssistantMessage | LlmError) and entry.event.receipt is not None:
            yield entry.event.receipt


def _content(conversation: StreamHandle, sha: str) -> bytes:
    """Return what a blob says; nothing for one that is gone."""
    try:
        content = conversation.log.blobs[sha]
    except (KeyError, StoredDataError):
        return b""
    try:
        return zlib.decompress(content)  # the bytes of a whole request
    except zlib.error:
        return content


def _texts(entry: Entry) -> Iterator[str]:
    if isinstance(entry.event, Unknown):
        return
    for part in getattr(entry.event, "parts", ()):
        if not isinstance(part, ImagePart | FilePart):
            yield from (getattr(part, name, "") for name in ("text", "arguments", "raw"))


def _forms(text: str) -> Iterator[bytes]:
    """Yield a text as it may stand in a body: as it is, and as JSON writes it."""
    if len(text.strip()) >= SHORTEST:
        yield text.encode("utf-8", "replace")
        yield json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "replace")
        yield json.dumps(text)[1:-1].encode()
