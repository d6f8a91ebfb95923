"""Tasks of Cline: the extension's `api_conversation_history.json`, the SDK's `<session>.messages.json`.

Source: apps/vscode/src/core/storage/disk.ts, apps/vscode/src/shared, and sdk/packages/shared/src/llms of
cline/cline. Both have messages in Anthropic's form, with fields of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from stenolog import importers
from stenolog.contrib.agents import CLINE_BEGINS
from stenolog.events import Usage
from stenolog.importers import Json, JsonObject, Record, as_dict, as_int, as_list, as_str, as_time

_TASK = re.compile(r"</?(task|feedback|user_message|user_input)\b[^<>]*+>")
_MESSAGES = ".messages.json"
_ABOUT = frozenset(("session_id", "workspace_root", "started_at"))
"""The keys of the file on a session beside its messages."""
_UNTAGGED = re.compile(r"(?!\s*<(task|feedback|answer|user_message)\b)")
"""Texts of the extension in the user's name: a person's words have a tag."""
_OWN = ("call_id", "reasoning_details", "summary", "details")
"""Fields of a block that only Cline knows."""


class Cline(importers.MessageSession):
    """Converter of a task; `head` is the document around the messages.

    `bills` are the answers' tokens by their order, and `gone` the first and last message that Cline cut out
    of the context.
    """

    system = main = "cline"
    api = "anthropic"
    is_rewritten = True

    def __init__(
        self, log: importers.ExistingLog, head: JsonObject, bills: list[Usage], gone: tuple[int, int] | None
    ) -> None:
        super().__init__(log)
        self._bills = iter(bills)
        self._gone = gone
        self._order: list[str] = []
        origin = as_dict(head.get("origin"))
        if not origin:
            self.wrapped = _UNTAGGED
        self.setup.title = importers.title_of(as_str(as_dict(head.get("metadata")).get("title"))) or None
        about = {"agent": head.get("agent"), "parent": origin.get("parentThreadId"), "cwd": head.get("cwd")}
        self.setup.about(self.system, {**about, "subagent": origin.get("subagent")})
        if prompt := as_str(head.get("system_prompt")):
            self.setup.card(self.main, persona=prompt)
        self.time = as_time(head.get("began"), self.time)

    def name_after(self, wording: str) -> None:
        """Use a person's first words, without Cline's tags, as title."""
        super().name_after(_TASK.sub(" ", wording))

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a message."""
        message = record.value
        id = self.unique(importers.key_of(as_str(message.get("id"))) or f"#{record.line}")
        self.time = as_time(message.get("ts"), self.time)
        made = as_dict(message.get("modelInfo"))
        model = as_str(made.get("modelId")) or as_str(made.get("id"))
        provider = as_str(made.get("providerId")) or as_str(made.get("provider"))
        self.setup.mode = as_str(made.get("mode")) or self.setup.mode
        is_answer = message.get("role") == "assistant"
        billed = next(self._bills, None) if is_answer else None
        content = message.get("content")
        blocks = [_block(block) for block in importers.blocks_in(content)]
        id = self.write_message(
            id,
            {"role": "assistant" if is_answer else "user", "content": blocks},
            provider="" if not model or "claude" in model else provider,
            model=model,
            usage=(_usage(as_dict(message.get("metrics"))) or billed) if is_answer else None,
        )
        self._order.append(id)
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left: what Cline cut out of the context, and what is gone from the file."""
        first, last = self._gone or (0, -1)
        cut = [p for id in self._order[first : last + 1] for p in self.positions.get(id, ())]
        if gone := self.writer.hide_missing(self.time, self.writer.with_calls(cut)):
            self.decisions["taken out of the session"] += gone
        return super().end()


def _block(block: JsonObject) -> JsonObject:
    """Return a block of the SDK or of the extension as Anthropic's."""
    match block.get("type"):
        case "image" if "source" not in block:
            source = {"type": "base64", "media_type": block.get("mediaType"), "data": block.get("data")}
            return {"type": "image", "source": source}
        case "file":
            source = {"type": "text", "media_type": "text/plain", "data": block.get("content")}
            return {"type": "document", "title": block.get("path"), "source": source}
        case "tool_result":
            content = block.get("content")
            inner = content if isinstance(content, str) else [_block(b) for b in importers.blocks_in(content)]
            kept: JsonObject = {name: block[name] for name in ("tool_use_id", "is_error") if name in block}
            return {"type": "tool_result", **kept, "content": inner}
        case "thinking":
            return {name: value for name, value in block.items() if name not in _OWN}
        case _:  # elsewhere a signature is Gemini's
            return {name: value for name, value in block.items() if name not in (*_OWN, "signature")}


def _usage(counted: Mapping[str, Any]) -> Usage | None:
    """Return an answer's tokens: the SDK's, or those in `tokens` of the extension; the input is whole."""
    tokens = as_dict(counted.get("tokens"))
    used = Usage(
        input=as_int(counted.get("inputTokens")) or as_int(tokens.get("prompt")),
        output=as_int(counted.get("outputTokens")) or as_int(tokens.get("completion")),
        cache_read=as_int(counted.get("cacheReadTokens")) or as_int(tokens.get("cached")),
        cache_write=as_int(counted.get("cacheWriteTokens")),
        cost=importers.micro_dollars(counted.get("cost")),
    )
    return used if used.input or used.output else None


def _billed(request: JsonObject) -> Usage | None:
    """Return the tokens of a request on the screen, where the cache is beside the input."""
    read, write = as_int(request.get("cacheReads")), as_int(request.get("cacheWrites"))
    return _usage(
        {
            "inputTokens": as_int(request.get("tokensIn")) + read + write,
            "outputTokens": request.get("tokensOut"),
            "cacheReadTokens": read,
            "cacheWriteTokens": write,
            "cost": request.get("cost"),
        }
    )


def _screen(path: Path | None) -> list[JsonObject]:
    found = importers.json_at(path.with_name("ui_messages.json")) if path else None
    return [as_dict(each) for each in as_list(found)]


def _about(path: Path | None) -> JsonObject:
    """Return title and folder of a session, from the file beside its messages."""
    if path is None or not path.name.endswith(_MESSAGES):
        return {}
    found = as_dict(importers.json_at(path.with_name(f"{path.name.removesuffix(_MESSAGES)}.json")))
    return {name: found.get(name) for name in ("metadata", "cwd")}


def _messages(document: Json) -> list[Any]:
    return as_list(document if isinstance(document, list) else as_dict(document).get("messages"))


def read(stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield a file's task; a file about a session is read with its messages."""
    document = reader.document(stream)
    if as_dict(document).keys() >= _ABOUT:
        return
    head = {**_about(reader.path), **as_dict(document)}
    messages = [message for message in _messages(document) if isinstance(message, dict)]
    bills: list[Usage] = []
    gone = None
    if isinstance(document, list):
        screen = _screen(reader.path)
        began = reader.path.parent.name if reader.path else ""
        head = {"began": int(began)} if began.isdecimal() else {}
        asked = [
            importers.object_in(each.get("text")) for each in screen if each.get("say") == "api_req_started"
        ]
        found = [used for used in map(_billed, asked) if used]
        # Failed requests have a bill, too, and no message: then it is open whose bill is whose.
        bills = found if len(found) == sum(each.get("role") == "assistant" for each in messages) else []
        spans = [as_list(each.get("conversationHistoryDeletedRange")) for each in screen]
        gone = next(((as_int(s[0]), as_int(s[1])) for s in reversed(spans) if len(s) == 2), None)
    records = [Record(str(nth), message) for nth, message in enumerate(messages, 1)]
    make = partial(Cline, head=head, bills=bills, gone=gone)
    yield importers.SourceConversation(as_str(head.get("sessionId")), records, make)


def is_task(document: Json) -> bool:
    """Return whether a document is a session of the SDK, or a history whose answers name their model."""
    if isinstance(document, dict):
        is_session = isinstance(document.get("sessionId"), str) and isinstance(document.get("origin"), dict)
        return is_session or document.keys() >= _ABOUT
    return any({"role", "content", "modelInfo"} <= as_dict(each).keys() for each in as_list(document))


def is_older(first: bytes, _: BinaryIO) -> bool:
    """Return whether a file begins as a history does whose answers do not name their model."""
    return first.startswith(CLINE_BEGINS)


def _name(path: Path) -> str:
    is_history = path.name == "api_conversation_history.json"
    return path.parent.name if is_history else path.stem.removesuffix(".messages")


CLINE = importers.Importer("cline", read=read, is_document=is_task, is_start=is_older, name_of=_name)
