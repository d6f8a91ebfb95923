"""Threads of Amp: `~/.local/share/amp/threads/T-<id>.json`.

Its source is not public. Source: internal/parser/amp.go and its tests of kenn-io/agentsview.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from stenolog import importers
from stenolog.events import Usage
from stenolog.importers import (
    Json,
    JsonObject,
    Record,
    as_dict,
    as_int,
    as_list,
    as_str,
    as_time,
    compact_json,
)

_SHOWN = ("output", "content", "diff")
"""The fields of a tool's outcome that have its words."""
_OWN = ("startTime", "finalTime", "complete", "blockMetadata", "metadata")
"""Fields of a block that only Amp knows."""
_FAILED = ("error", "cancelled", "rejected-by-user")


class Amp(importers.MessageSession):
    """Converter of a thread; `head` is the document around the messages."""

    system = main = "amp"
    api = "anthropic"
    is_rewritten = True

    def __init__(self, log: importers.ExistingLog, head: JsonObject) -> None:
        super().__init__(log)
        self.time = as_time(head.get("created"), self.time)
        self.setup.title = importers.title_of(as_str(head.get("title"))) or None
        trees = as_list(as_dict(as_dict(head.get("env")).get("initial")).get("trees"))
        folders = [as_str(as_dict(tree).get("uri")).removeprefix("file://") for tree in trees]
        self.setup.mode = as_str(head.get("agentMode")) or self.setup.mode
        about = {"cwd": next(filter(None, folders), ""), "relationships": head.get("relationships")}
        self.setup.about(self.system, about)

    def take(self, record: Record) -> list[importers.Step]:
        """Return the steps for a message."""
        message = record.value
        number = message.get("messageId")
        id = self.unique(f"m{number}" if isinstance(number, int) else f"#{record.line}")
        role, state, billed = (
            message.get("role"),
            as_dict(message.get("state")),
            as_dict(message.get("usage")),
        )
        self.time = as_time(billed.get("timestamp"), as_time(_sent(message), self.time))
        blocks = [_block(block) for block in importers.blocks_in(message.get("content"))]
        model = as_str(billed.get("model"))
        if role == "assistant" and state.get("type") in ("error", "cancelled") and not blocks:
            words = as_str(as_dict(state.get("error")).get("message")) or str(state["type"])
            category = importers.error_category(words) if state["type"] == "error" else "cancelled"
            id = self.id_after_edits(id, message, [(id, ())])
            self.write_error(id, words, category, message=id, cause=self.writer.last_question(self.main))
            return self.writer.drain()
        self.write_message(
            id,
            {"role": "assistant" if role == "assistant" else "user", "content": blocks},
            provider="" if not model or "claude" in model else self.system,
            model=model,
            usage=_usage(billed, model),
            finish_reason=as_str(state.get("stopReason")),
            is_person=role == "user",
        )
        return self.writer.drain()

    def end(self) -> list[importers.Step]:
        """Return the steps left; messages that are gone from the file are hidden."""
        if gone := self.writer.hide_missing(self.time):
            self.decisions["taken out of the session"] += gone
        return super().end()


def _sent(message: JsonObject) -> Json:
    return message.get("timestamp") or as_dict(message.get("meta")).get("sentAt")


def _block(block: JsonObject) -> JsonObject:
    """Return a block as Anthropic's."""
    if block.get("type") != "tool_result" or as_str(block.get("tool_use_id")):
        return {name: value for name, value in block.items() if name not in _OWN}
    run = as_dict(block.get("run"))
    failed = run.get("status") in _FAILED
    words = as_dict(run.get("error")).get("message") or run.get("error") if failed else None
    content = [
        {"type": "text", "text": _text(words or run.get("result") or run.get("reason") or run.get("status"))}
    ]
    result = {"type": "tool_result", "tool_use_id": block.get("toolUseID"), "content": content}
    return {**result, "is_error": True} if failed else result


def _text(outcome: Json) -> str:
    """Return a tool's outcome in words: those of a known field, or its JSON."""
    if isinstance(outcome, str):
        return outcome
    said = [value for name, value in as_dict(outcome).items() if name in _SHOWN and as_str(value)]
    return said[0] if len(said) == 1 else compact_json(outcome)


def _usage(billed: JsonObject, model: str) -> Usage | None:
    read, write = as_int(billed.get("cacheReadInputTokens")), as_int(billed.get("cacheCreationInputTokens"))
    sent, output = as_int(billed.get("inputTokens")) + read + write, as_int(billed.get("outputTokens"))
    written = 0 if model.startswith("gpt-") else write
    cost = importers.micro_dollars(billed.get("cost"))
    used = Usage(input=sent, output=output, cache_read=read, cache_write=written, cost=cost)
    return used if sent or output else None


def read(stream: BinaryIO, reader: importers.JsonLinesReader) -> Iterator[importers.SourceConversation]:
    """Yield a file's thread."""
    head = as_dict(reader.document(stream))
    messages = [message for message in as_list(head.pop("messages")) if isinstance(message, dict)]
    records = [Record(str(nth), message) for nth, message in enumerate(messages, 1)]
    yield importers.SourceConversation(as_str(head.get("id")), records, partial(Amp, head=head))


def is_thread(document: Json) -> bool:
    """Return whether a document is a thread."""
    value = as_dict(document)
    return as_str(value.get("id")).startswith("T-") and isinstance(value.get("messages"), list)


AMP = importers.Importer("amp", read=read, is_document=is_thread)
