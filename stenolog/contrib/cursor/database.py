"""Cursor's database of its state: composers (conversations) and bubbles (their messages) by keys.

Its source is not public. Source: docs and src/core/storage.ts of S2thend/cursor-history,
docs/cursor/storage-reference.md of michaeldhood/chatrxiv, and on sub-agents Napageneral/aix. No other key is
read: beside them are the user's tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from stenolog import AgentCard, importers
from stenolog.errors import UnknownFormatError
from stenolog.events import Usage
from stenolog.importers import JsonObject, Record, as_dict, as_int, as_list, as_str, as_time
from stenolog.parts import AssistantPart, ReasoningPart, ToolCall

_TABLE = "cursorDiskKV"
_USER, _ASSISTANT = 1, 2
_SUBS = ("subComposerIds", "subagentComposerIds")
_TASK = "task-"
"""The beginning of the key of a sub-agent's bubbles; the id of the call that ran it follows."""
_FAILED = ("error", "cancelled", "rejected")


class Cursor(importers.SessionConverter):
    """Converter of a composer's bubbles; `head` is the composer without them."""

    system = main = "cursor"

    def __init__(self, log: importers.ExistingLog, head: JsonObject) -> None:
        super().__init__(log)
        self._run = ""
        """The first bubble of the answer that is going on: text, thoughts and calls have their own."""
        self._lane = ""
        """The sub-agent that speaks, if any."""
        self.setup.title = importers.title_of(as_str(head.get("name"))) or None
        self.setup.mode = as_str(head.get("unifiedMode")) or self.setup.mode
        self._model(as_dict(head.get("modelConfig")))
        folder = as_dict(as_dict(head.get("workspaceIdentifier")).get("uri")).get("fsPath")
        used = {name: head.get(name) for name in ("contextTokensUsed", "contextTokenLimit")}
        self.setup.about(self.system, {"cwd": folder, "parent": head.get("parent"), **used})
        self.time = as_time(head.get("createdAt"), self.time)

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a bubble; those of a sub-agent have its name in `lane`, and its `call`."""
        bubble, lane = record.value, as_str(record.value.get("lane"))
        if lane != self._lane:
            self._lane, self._run = lane, ""
        id = self.unique(importers.key_of(as_str(bubble.get("bubbleId"))) or f"#{record.line}")
        sent = as_dict(bubble.get("timingInfo")).get("clientRpcSendTime")
        self.time = as_time(bubble.get("createdAt"), as_time(sent, self.time))
        self._model(as_dict(bubble.get("modelInfo")))
        text = "\n".join(_texts(bubble))
        if bubble.get("type") == _USER:
            self._run = ""
            self.ignored["picture"] += len(as_list(bubble.get("images")))
            self._user(id, text, as_str(bubble.get("call")))
        elif bubble.get("type") == _ASSISTANT:
            self._answer(id, bubble, text)
        else:
            self.ignored[f"bubble {bubble.get('type')!r}"] += 1
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left; bubbles that are gone, as after an edit, are hidden."""
        if gone := self.writer.hide_missing(self.time):
            self.decisions["taken out of the session"] += gone
        return super().end()

    def _model(self, chosen: JsonObject) -> None:
        if (model := as_str(chosen.get("modelName"))) not in ("", "default"):
            self.setup.card(self._lane or self.main, model=model)

    def _user(self, id: str, text: str, call: str) -> None:
        """Write a person's words, or the brief of a sub-agent by the call that ran it."""
        parts = importers.text_parts(text)
        if not self._lane:
            self.write_user(id, parts)
            return
        self.setup.card(self._lane)
        placed = self.writer.find_call(call)
        cause = placed.position if placed else None
        self.write_user(id, parts, "agent", agent=self._lane, author=self.main, cause=cause)

    def _answer(self, id: str, bubble: JsonObject, text: str) -> None:
        thought = as_dict(bubble.get("thinking"))
        tool = as_dict(bubble.get("toolFormerData"))
        parts: list[AssistantPart] = []
        if as_str(thought.get("text")) or as_str(thought.get("signature")):
            signature = as_str(thought.get("signature"))
            parts.append(
                ReasoningPart(text=as_str(thought.get("text")), provider=self.system, signature=signature)
            )
        parts += importers.text_parts(text)
        name = as_str(tool.get("name"))
        call = as_str(tool.get("toolCallId")) or id
        if name:
            given = tool.get("rawArgs") or tool.get("params")
            parts.append(ToolCall(id=call, name=name, arguments=importers.arguments(given)))
        if not parts:
            self.ignored["empty message"] += 1
            return
        self._run = self._run or id
        model = self.setup.cards.get(self._lane or self.main, AgentCard()).model or ""
        used = _usage(as_dict(bubble.get("tokenCount")))
        answer = self.answer(self._run, parts, agent=self._lane, model=model, usage=used)
        self.add_part(id, answer)
        if name:
            self._run = ""
            self._result(id, call, tool)

    def _result(self, id: str, call: str, tool: JsonObject) -> None:
        states = (tool.get("status"), as_dict(tool.get("additionalData")).get("status"))
        failed = next((state for state in states if state in _FAILED), "")
        words = as_str(tool.get("result")) or as_str(tool.get("error")) or failed
        if words or tool.get("status") == "completed":
            parts = importers.text_parts(words)
            self.write_result(
                f"{id}:result", call, parts, message=id, agent=self._lane, is_error=bool(failed)
            )


def _texts(bubble: JsonObject) -> Iterator[str]:
    text = as_str(bubble.get("text"))
    if text:
        yield text
    for block in map(as_dict, as_list(bubble.get("codeBlocks"))):
        code = as_str(block.get("content"))
        if code and code not in text:
            yield f"```{as_str(block.get('languageId'))}\n{code}\n```"


def _usage(counted: JsonObject) -> Usage | None:
    sent, output = as_int(counted.get("inputTokens")), as_int(counted.get("outputTokens"))
    return Usage(input=sent, output=output) if sent or output else None


class _Store:
    """Values of a database by the beginning of their keys."""

    def __init__(self, connection: Any, reader: importers.JsonLinesReader) -> None:
        self._connection = connection
        self._reader = reader

    def values(self, prefix: str) -> Iterator[tuple[str, JsonObject]]:
        """Yield the ends of the keys with this prefix, and their objects."""
        for key, value in self._objects("key >= ? AND key < ? ORDER BY key", f"{prefix}:", f"{prefix};"):
            yield key[len(prefix) + 1 :], value

    def value(self, key: str) -> JsonObject:
        """Return a key's object; an empty one if there is none."""
        return dict(self._objects("key = ?", key)).get(key, {})

    def _objects(self, where: str, *values: str) -> Iterator[tuple[str, JsonObject]]:
        rows = self._connection.execute(f"SELECT key, value FROM {_TABLE} WHERE {where}", values)
        for number, (key, value) in enumerate(rows, 1):
            try:
                found = self._reader.cell(
                    value.decode(errors="replace") if isinstance(value, bytes) else value
                )
            except UnknownFormatError as error:
                self._reader.skipped.append(importers.Skipped(number, f"{key!r:.80}: {error}", "row"))
                continue
            if isinstance(found, dict):
                yield str(key), found


def read(stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield the composers with a bubble, in the order in which they began."""
    with importers.sqlite_database(stream, _TABLE) as connection:
        heads = importers.JsonLinesReader()
        found, parents = _composers(_Store(connection, heads))
        reader.skipped += heads.skipped
        store = _Store(connection, reader)
        for id in found:
            ignored: Counter[str] = Counter()
            with connection.at_one_moment():
                head = store.value(f"composerData:{id}")
                bubbles = [*_with_sub_agents(store, _bubbles(store, id, head, ignored))]
            if bubbles:
                records = [Record(str(nth), bubble) for nth, bubble in enumerate(bubbles, 1)]
                make = partial(Cursor, head={**head, "parent": parents.get(id, "")})
                yield importers.SourceConversation(id, records, make, ignored, unit="bubble")


def _composers(store: _Store) -> tuple[list[str], dict[str, str]]:
    """Return the composers' ids, the earliest first, and their parents by id.

    Only these are kept: a database may have gigabytes. Sub-agents are with the conversation that ran them.
    """
    began: dict[str, int] = {}
    parents: dict[str, str] = {}
    for id, head in store.values("composerData"):
        parents |= {as_str(sub): id for name in _SUBS for sub in as_list(head.get(name))}
        if not id.startswith(_TASK):
            began[id] = as_int(head.get("createdAt"))
    return sorted(began, key=began.__getitem__), parents


def _bubbles(store: _Store, id: str, head: JsonObject, ignored: Counter[str]) -> list[JsonObject]:
    """Return a composer's bubbles in its order; older composers have them within."""
    headers = [as_dict(each) for each in as_list(head.get("fullConversationHeadersOnly"))]
    if not headers:
        return [as_dict(each) for each in as_list(head.get("conversation"))]
    stored = {**as_dict(head.get("conversationMap")), **dict(store.values(f"bubbleId:{id}"))}
    # Of an answer that is being written, more is to come.
    coming = {as_str(each) for each in as_list(head.get("generatingBubbleIds"))}
    found = []
    for header in headers:
        own = as_str(header.get("bubbleId"))
        bubble = as_dict(stored.pop(own, None))
        if bubble and own not in coming:
            found.append({**header, **bubble})
        elif not bubble:
            ignored["bubble that is not stored"] += 1
    ignored["bubble that was taken back"] += len(stored)
    return found


def _with_sub_agents(store: _Store, bubbles: list[JsonObject]) -> Iterator[JsonObject]:
    ran: set[str] = set()
    open_runs = [iter(bubbles)]
    while open_runs:
        if (bubble := next(open_runs[-1], None)) is None:
            open_runs.pop()
            continue
        yield bubble
        tool = as_dict(bubble.get("toolFormerData"))
        call, params = as_str(tool.get("toolCallId")), importers.object_in(tool.get("params"))
        if not call or call in ran or not as_str(tool.get("name")).startswith("task"):
            continue
        ran.add(call)
        lane = importers.agent_called(
            f"{as_str(params.get('name')) or 'task'}-{call.partition(chr(10))[0][:40]}"
        )
        about = {"lane": lane, "call": call, "modelInfo": {"modelName": params.get("model")}}
        inner = [{**about, **value} for _, value in store.values(f"bubbleId:{_TASK}{call}")]
        inner.sort(key=lambda each: as_str(each.get("createdAt")))
        open_runs.append(iter(inner))


CURSOR = importers.Importer("cursor", read=read)
