"""ChatGPT's export of a user's data: `conversations.json`, and the pictures beside it.

The form is as described in mitkury/chatgpt-export-parser, `docs/chatgpt-data-export-format.md`, and in
TomzxCode/llm-conversations-viewer, `docs/formats.md`.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from functools import cached_property, partial
from hashlib import sha256
from heapq import heappop, heappush
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

from stenolog import ModeSwitch, importers
from stenolog.importers import Blobs, Json, JsonLinesReader, JsonObject, Record, as_dict, as_list, as_str
from stenolog.parts import AssistantPart, ProviderPart, ReasoningPart, TextPart, ToolCall, UserPart

LARGEST = 32 * 1024 * 1024
"""Bytes of a picture that is taken in."""
TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
}
_FOLDERS = ("dalle-generations", "user-*")
"""The folders of pictures in that of an export."""
_NAME = attrgetter("name")
_FILE_ID = re.compile(r"[a-z-]+://(file[-_][\w-]{4,80})")
_TEXTS = (
    "title",
    "url",
    "text",
    "result",
    "summary",
    "user_profile",
    "user_instructions",
    "model_set_context",
    "content",
)
"""The fields of a content, other than `parts`, that somebody said."""
_BY_PERSON = ("text", "multimodal_text", "code")


class Media:
    """The files in an export's folder, by the ids that messages have for them."""

    def __init__(self, export: Path | None) -> None:
        self._folder = export.parent if export is not None and export.is_file() else None

    @cached_property
    def _pictures(self) -> list[os.DirEntry[str]]:
        """The pictures by name; what is only linked there is none."""
        if self._folder is None:
            return []
        inner = (path for each in _FOLDERS for path in self._folder.glob(each))
        folders = (self._folder, *(path for path in inner if path.is_dir() and not path.is_symlink()))
        return sorted(
            (each for folder in folders for each in os.scandir(folder) if _is_picture(each)), key=_NAME
        )

    def keep(self, pointer: str, blobs: Blobs) -> UserPart | None:
        """Return a picture's part with its bytes among the blobs; None if it is not beside the export."""
        if not (named := _FILE_ID.match(pointer)):
            return None
        at = bisect_left(self._pictures, named[1], key=_NAME)
        for found in self._pictures[at : at + 1]:
            if found.name.startswith(named[1]):
                with importers.regular_file(Path(found.path)) as file:
                    content = file.read()
                blobs[sha := sha256(content).hexdigest()] = content
                return importers.media_part(_media_type(found.name), found.name, blob=sha)
        return None


def _is_picture(file: os.DirEntry[str]) -> bool:
    is_file = bool(_media_type(file.name)) and file.is_file(follow_symlinks=False)
    return is_file and file.stat(follow_symlinks=False).st_size <= LARGEST


def _media_type(name: str) -> str:
    return TYPES.get(Path(name).suffix.lower(), "")


def is_text(content: JsonObject) -> bool:
    """Return whether a content is one that a person writes."""
    return as_str(content.get("content_type")) in ("", *_BY_PERSON)


def user_parts(content: JsonObject, blobs: Blobs, media: Media) -> list[UserPart]:
    """Return the parts of a content by the user or a tool; one in another form is kept as JSON."""
    parts: list[UserPart] = []
    for part in as_list(content.get("parts")):
        pointer = as_str(as_dict(part).get("asset_pointer"))
        picture = media.keep(pointer, blobs) if pointer else None
        parts += [picture] if picture is not None else _part(part)
    return [*parts, *_texts(content)] or [*_unread(content)]


def answer_parts(content: JsonObject) -> list[AssistantPart]:
    """Return the parts of an answer."""
    thoughts = [
        "\n".join(filter(None, (as_str(each.get("summary")), as_str(each.get("content")))))
        for each in map(as_dict, as_list(content.get("thoughts")))
    ]
    if content.get("content_type") == "reasoning_recap":
        thoughts.append(as_str(content.get("content")))
        content = {}
    found: list[AssistantPart] = [ReasoningPart(text=text) for text in thoughts if text.strip()]
    found += [part for each in as_list(content.get("parts")) for part in _part(each)]
    return [*found, *_texts(content)] or ([] if thoughts else [*_unread(content)])


def tool_call(id: str, tool: str, content: JsonObject) -> ToolCall:
    """Return the call in an answer's words: arguments as JSON, or code."""
    texts = [part for part in as_list(content.get("parts")) if isinstance(part, str)]
    words = "\n".join((*texts, *(part.text for part in _texts(content))))
    is_object = bool(importers.object_in(words)) or words.strip() == "{}"
    return ToolCall(
        id=id, name=tool, arguments=words if is_object else importers.compact_json({"input": words})
    )


def _texts(content: JsonObject) -> list[TextPart]:
    return [TextPart(text=text) for name in _TEXTS if (text := as_str(content.get(name))).strip()]


def _part(part: Json) -> list[TextPart | ProviderPart]:
    words = part if isinstance(part, str) else as_str(as_dict(part).get("text"))
    if words.strip():
        return [TextPart(text=words)]
    return [_raw(part)] if part and not isinstance(part, str) else []


def _unread(content: JsonObject) -> list[ProviderPart]:
    """Return a content of which nothing could be read, if it has anything."""
    rest = {
        name for name, value in content.items() if value and name not in ("content_type", "parts", "language")
    }
    return [_raw(content)] if rest else []


def _raw(value: Json) -> ProviderPart:
    return ProviderPart(provider="chatgpt", raw=importers.compact_json(value))


NEAR = 50
"""The nodes above a tool's message among which its call is looked for."""
MOST_BRANCHES = 200
"""The changes between branches that are written down; after them only the last one is."""
ABOUT = ("gizmo_id", "conversation_origin", "conversation_template_id")


class Tree:
    """The nodes of a conversation: parents before children, else by their times."""

    def __init__(self, conversation: JsonObject) -> None:
        self.nodes = {id: as_dict(node) for id, node in as_dict(conversation.get("mapping")).items()}
        self.current = as_str(conversation.get("current_node"))
        facts = importers.compact_json([self.current, conversation.get("update_time"), *self.nodes])
        self.state = sha256(facts.encode(errors="replace")).hexdigest()[:16]

    def parent(self, id: str) -> str:
        """Return a node's parent; "" for a root."""
        found = as_str(self.nodes[id].get("parent")) if id in self.nodes else ""
        return found if found in self.nodes else ""

    def path(self, id: str) -> set[str]:
        """Return a node with all above it."""
        found: set[str] = set()
        while id in self.nodes and id not in found:
            found.add(id)
            id = self.parent(id)
        return found

    def records(self) -> Iterator[Record]:
        """Yield the nodes with their ids, each after its parent."""
        below: dict[str, list[str]] = {}
        for id in self.nodes:
            below.setdefault(self.parent(id), []).append(id)
        numbers = {id: number for number, id in enumerate(self.nodes, 1)}
        ready: list[tuple[float, int, str]] = []
        self._add(ready, below.get("", ()), numbers, 0.0)
        while ready:
            time, number, id = heappop(ready)
            yield Record(str(number), {**self.nodes[id], "id": id})
            self._add(ready, below.get(id, ()), numbers, time)

    def _add(self, ready: list[Any], ids: Any, numbers: dict[str, int], after: float) -> None:
        for id in ids:
            time = as_dict(self.nodes[id].get("message")).get("create_time")
            at = time if isinstance(time, int | float) and not isinstance(time, bool) else after
            heappush(ready, (max(at, after), numbers[id], id))


class ChatGPT(importers.SessionConverter):
    """Converter of a conversation: a node is an entry, and what is not on the current branch is hidden."""

    system = "chatgpt"
    main = "chatgpt"
    provider = "openai"

    def __init__(self, conversation: JsonObject, media: Media, log: importers.ExistingLog) -> None:
        super().__init__(log)
        self._tree, self._media = Tree(conversation), media
        self._last = ""
        self._hidden: set[int] = set()
        self._is_new = False
        """True once this import has hidden or shown anything."""
        self._open: dict[str, str] = {}
        """The tools of calls without a result, by the ids of their nodes."""
        self.time = importers.as_time(conversation.get("create_time"))
        self.setup.title = importers.title_of(as_str(conversation.get("title"))) or None
        self.setup.about(self.system, {name: as_str(conversation.get(name)) for name in ABOUT})

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a node."""
        node = record.value
        own, message = as_str(node.get("id")), as_dict(node.get("message"))
        self.time = importers.as_time(message.get("create_time"), self.time)
        if not message:
            self.ignored["node without a message"] += 1
            return []
        id = importers.key_of(own) or f"#{record.line}"
        if self._tree.parent(own) == self._last:
            pass
        elif self.decisions["other branch"] >= MOST_BRANCHES:
            self.ignored["missing: forks of further branches"] += 1
        else:
            self._follow(self._tree.path(own), id)
        self._last = own
        self._message(id, own, message)
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return to the branch that was the current one."""
        id = f"current-{self._tree.state}"
        if self._tree.current in self._tree.nodes:
            self._follow(self._tree.path(self._tree.current), id)
        if self.positions:
            self.setup.settle(id, self.time)
        messages = {position for each in self.positions.values() for position in each}
        if self.writer.log.head and not self._is_new and self.writer.log.hidden & messages != self._hidden:
            # An earlier export ended on another branch, and no node since has gone back.
            switch = ModeSwitch(hides=self.setup.hides or (), source=self.writer.source("", "settings"))
            self.writer.write(switch, f"back-{self._tree.state}", self.time)
        return super().end()

    def _follow(self, path: set[str], id: str) -> None:
        """Hide what is not on a path, and show what is, before the record of an id."""
        context = [id for id in self.positions if id in path]
        if [*self.in_context] == context:
            return
        shown = {position for id in context for position in self.positions[id]}
        self._hidden = {position for each in self.positions.values() for position in each} - shown
        self.in_context = dict.fromkeys(context)
        self.setup.hides = self.writer.ranges(self._hidden) or None
        self.setup.branches = True
        self._is_new = self._is_new or not self.writer.holds(f"{id}:settings")
        self.decisions["other branch"] += 1

    def _message(self, id: str, node: str, message: JsonObject) -> None:
        author, content = as_dict(message.get("author")), as_dict(message.get("content"))
        blobs: Blobs = {}
        match as_str(author.get("role")):
            case "assistant":
                self._answer(id, node, message, content)
            case "tool":
                self._result(id, node, as_str(author.get("name")), content, blobs)
            case role:
                parts = user_parts(content, blobs, self._media)
                about = as_dict(as_dict(message.get("metadata")).get("user_context_message_data"))
                parts += [part for text in about.values() for part in importers.text_parts(as_str(text))]
                is_person = role == "user" and is_text(content)
                if parts:
                    kind: Any = "person" if is_person else "system"
                    self.write_user(id, parts, kind, message=node, role=role or "user", blobs=blobs)
                else:
                    self.ignored["empty message"] += 1

    def _answer(self, id: str, node: str, message: JsonObject, content: JsonObject) -> None:
        about, to = as_dict(message.get("metadata")), as_str(message.get("recipient"))
        parts: list[AssistantPart] = []
        if to not in ("", "all"):
            parts = [tool_call(id, to, content)]
            self._open[node] = to
        else:
            parts = answer_parts(content)
        if not parts:
            self.ignored["empty message"] += 1
            return
        reason = as_str(as_dict(about.get("finish_details")).get("type"))
        answer = self.answer(id, parts, model=as_str(about.get("model_slug")), finish_reason=reason)
        self.write_answer(id, answer, node)

    def _result(self, id: str, node: str, tool: str, content: JsonObject, blobs: Blobs) -> None:
        """Write a tool's message: a result of the call right above, or of that tool's nearest; or a note."""
        parts: list[UserPart] = user_parts(content, blobs, self._media)
        parts = parts or [*importers.text_parts(" ")]
        call = self._call_above(node, tool)
        if call:
            del self._open[call]
            failed = content.get("content_type") == "system_error"
            self.write_result(
                id, importers.key_of(call), parts, message=node, name=tool, blobs=blobs, is_error=failed
            )
        else:
            self.write_user(id, parts, "system", message=node, role="tool", blobs=blobs, author=tool)

    def _call_above(self, node: str, tool: str) -> str:
        above = self._tree.parent(node)
        for distance in range(NEAR):
            called = self._open.get(above)
            if called and (not distance or _head(tool) in ("", _head(called))):
                return above
            above = self._tree.parent(above)
        return ""


def _head(tool: str) -> str:
    """Return the first word of a tool's name: `web` answers a call of `web.run`."""
    return tool.partition(".")[0]


def conversations(stream: BinaryIO, reading: JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield an export's conversations."""
    media = Media(reading.path)
    for _, value in reading.items(stream):
        found = as_dict(value)
        tree = Tree(found)
        name = as_str(found.get("conversation_id")) or as_str(found.get("id"))
        records = list(tree.records())
        left = len(tree.nodes) - len(records)
        ignored = Counter({"node in a circle": left} if left else {})
        yield importers.SourceConversation(
            name, records, partial(ChatGPT, found, media), ignored, unit="node"
        )


def is_export(document: Json) -> bool:
    """Return whether a JSON value is a conversation, or a list of them."""
    first = next(iter(as_list(document)), document)
    return isinstance(as_dict(first).get("mapping"), dict) and "current_node" in first


CHATGPT = importers.Importer("chatgpt", read=conversations, is_document=is_export)
