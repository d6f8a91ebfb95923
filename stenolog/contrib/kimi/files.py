"""A Kimi session's `wire.jsonl`, alone or in the folder of its session.

Kimi Code has one for each agent, `agents/<agent>/wire.jsonl`; source: packages/agent-core-v2 of
MoonshotAI/kimi-code, docs/wire-manifest.d.ts. Kimi CLI has one for all, in an older form; source:
src/kimi_cli/wire/types.py and packages/kosong of MoonshotAI/kimi-cli.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from stenolog import importers
from stenolog.errors import UnknownFormatError
from stenolog.importers import Json, JsonLinesReader, JsonObject, Record, SourceConversation, as_dict, as_str

from .converter import Kimi

_WIRE = "wire.jsonl"
_MAIN = "main"
_LOOP = "context.append_loop_event"
_MESSAGE = "context.append_message"


def read(stream: BinaryIO, reader: JsonLinesReader) -> Iterator[SourceConversation]:
    """Yield a file's session, or its sub-agent's."""
    yield SourceConversation("", _Modern(importers.StreamedRecords(stream, reader)), Kimi, unit="line")


class _Modern:
    """Records, those of Kimi CLI in the form of Kimi Code's; `lane` is their agent's."""

    def __init__(self, records: Iterable[Record], lane: str = "") -> None:
        self._records = records
        self._lane = lane

    def __iter__(self) -> Iterator[Record]:
        step = 0
        for record in self._records:
            envelope = as_dict(record.value.get("message"))
            if "payload" not in envelope:
                yield record._replace(value={**record.value, "lane": self._lane})
                continue
            step += _is_begin(envelope)
            made = _modern(envelope, f"step-{step}")
            yield record._replace(value={"time": record.value.get("timestamp"), **made})


def _is_begin(envelope: JsonObject) -> bool:
    inner = as_dict(as_dict(envelope.get("payload")).get("event"))
    return "StepBegin" in (envelope.get("type"), inner.get("type"))


def _modern(envelope: JsonObject, step: str) -> JsonObject:
    """Return a message of Kimi CLI as a record of Kimi Code."""
    kind, payload = as_str(envelope.get("type")), as_dict(envelope.get("payload"))
    match kind:
        case "TurnBegin" | "SteerInput":
            message = {"role": "user", "content": payload.get("user_input")}
            return {"type": _MESSAGE, "message": message}
        case "StepBegin":
            event: JsonObject = {"type": "step.begin", "uuid": step}
        case "ContentPart":
            event = {"type": "content.part", "stepUuid": step, "part": payload}
        case "ToolCall":
            called = as_dict(payload.get("function"))
            about = {"toolCallId": payload.get("id"), "name": called.get("name")}
            event = {"type": "tool.call", "stepUuid": step, **about, "args": called.get("arguments")}
        case "ToolResult":
            returned = as_dict(payload.get("return_value"))
            result = {**returned, "isError": returned.get("is_error")}
            event = {"type": "tool.result", "toolCallId": payload.get("tool_call_id"), "result": result}
        case "StatusUpdate" if payload.get("token_usage"):
            event = {"type": "step.end", "uuid": step, "usage": _usage(as_dict(payload["token_usage"]))}
        case "StepInterrupted":
            return {"type": "turn.cancel"}
        case "CompactionEnd":  # the summary is only in `context.jsonl`
            return {"type": "context.clear"}
        case "SubagentEvent":
            id = as_str(payload.get("agent_id")) or as_str(payload.get("parent_tool_call_id"))
            lane = importers.agent_called(f"{as_str(payload.get('subagent_type')) or 'agent'}-{id}")
            inner = as_dict(payload.get("event"))
            return {
                **_modern(inner, f"{step}-{lane}"),
                "lane": lane,
                "call": payload.get("parent_tool_call_id"),
            }
        case _:
            return {"type": kind}
    return {"type": _LOOP, "event": event}


def _usage(counted: JsonObject) -> JsonObject:
    names = {"input_other": "inputOther", "input_cache_read": "inputCacheRead", "output": "output"}
    names["input_cache_creation"] = "inputCacheCreation"
    return {name: counted.get(old) for old, name in names.items()}


def _find(path: Path) -> Path | None:
    return path if path.is_dir() and _holds(path) else None


def _holds(folder: Path) -> bool:
    return (folder / "agents" / _MAIN / _WIRE).is_file() or (folder / _WIRE).is_file()


def _files(folder: Path) -> list[Path]:
    alone = folder / _WIRE
    found = sorted(folder.glob(f"agents/*/{_WIRE}"), key=lambda file: (file.parent.name != _MAIN, file))
    return [alone] if alone.is_file() else found


def _read_folder(folder: Path, reader: JsonLinesReader) -> Iterator[SourceConversation]:
    state = as_dict(importers.json_at(folder / "state.json"))
    title = as_str(state.get("title")) or as_str(state.get("custom_title"))
    records = _FolderRecords(_files(folder), reader)
    yield SourceConversation("", records, partial(Kimi, title=title), unit="line")


class _FolderRecords:
    """The records of all agents of a session, one after the other."""

    def __init__(self, files: list[Path], reader: JsonLinesReader) -> None:
        self._files = files
        self._reader = reader

    def __iter__(self) -> Iterator[Record]:
        for nth, file in enumerate(self._files, 1):
            is_main = file.parent.name == _MAIN or len(self._files) == 1
            lane = "" if is_main else importers.agent_called(file.parent.name)
            skipped = self._reader.skipped
            before = len(skipped)
            try:
                with importers.regular_file(file) as stream:
                    yield from _Modern(self._reader.records(stream), lane)
            except (OSError, UnknownFormatError) as error:
                why = getattr(error, "strerror", None) or error
                skipped.append(importers.Skipped(nth, f"it cannot be read: {why}", "file"))
            place = f"{file.parent.name}/{file.name}"
            skipped[before:] = [each._replace(reason=f"{place}: {each.reason}") for each in skipped[before:]]


def is_wire(value: Json) -> bool:
    """Return whether a record begins a session, or is one of it."""
    record = as_dict(value)
    is_head = record.get("type") == "metadata" and "protocol_version" in record
    is_old = {"type", "payload"} == as_dict(record.get("message")).keys() and "timestamp" in record
    return is_head or is_old or record.get("type") in (_MESSAGE, _LOOP)


def _name(path: Path) -> str:
    folder = path.parent
    if folder.parent.name != "agents":
        return folder.name
    session = folder.parent.parent.name
    return session if folder.name == _MAIN else f"{session}-{folder.name}"


KIMI = importers.Importer(
    "kimi",
    read=read,
    is_record=is_wire,
    name_of=_name,
    folder=importers.FolderFormat(_find, _holds, _read_folder, _files),
)
